package plugins_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
)

// A test runs a handler without Gantry. The outcome is what Gantry would
// settle.
func ExampleHandler_Execute() {
	handler := plugins.Handler{
		Class: "AcmeGreetingWorker",
		Handle: func(ctx context.Context, task *plugins.Task) error {
			var data struct{ Name string }
			if err := task.Decode(&data); err != nil {
				return err
			}
			if data.Name == "" {
				return plugins.Fail(errors.New("nobody to greet"))
			}
			fmt.Println("Hello", data.Name)
			return nil
		},
	}

	for _, data := range []string{`{"name":"Ada"}`, `{}`, `{"name":`} {
		outcome := handler.Execute(context.Background(), tasks.Task{ID: 1, Data: []byte(data)}, nil)
		fmt.Printf("%s: %q\n", outcome.Kind, outcome.Reason)
	}
	// Output:
	// Hello Ada
	// succeeded: ""
	// failed: "nobody to greet"
	// failed: "the task's data is not what is expected: unexpected end of JSON input"
}

// A task that cannot be done yet waits without counting a failure.
func ExampleYield() {
	handler := plugins.Handler{
		Class: "AcmeBuildWorker",
		Handle: func(ctx context.Context, task *plugins.Task) error {
			return plugins.Yield(15 * time.Second) // somebody else holds the lock
		},
	}
	outcome := handler.Execute(context.Background(), tasks.Task{}, nil)
	fmt.Println(outcome.Kind, outcome.Wait)
	// Output: yielded 15s
}

// A permanent failure archives the task. It can be wrapped on its way up.
func ExampleFail() {
	handler := plugins.Handler{
		Class: "AcmeMailWorker",
		Handle: func(ctx context.Context, task *plugins.Task) error {
			return fmt.Errorf("deliver: %w", plugins.Fail(errors.New("the address is gone")))
		},
	}
	outcome := handler.Execute(context.Background(), tasks.Task{}, nil)
	fmt.Println(outcome.Kind, outcome.Reason)
	// Output: failed deliver: the address is gone
}

// A handler that covers only the common case hands the rest to PHP.
func ExampleDecline() {
	handler := plugins.Handler{
		Class: "AcmeImportWorker",
		Handle: func(ctx context.Context, task *plugins.Task) error {
			return plugins.Decline("Subversion is still done by PHP")
		},
	}
	outcome := handler.Execute(context.Background(), tasks.Task{}, nil)
	fmt.Println(outcome.Kind, outcome.Reason)
	// Output: declined Subversion is still done by PHP
}

// Follow-ups are queued together with the task's success.
func ExampleTask_Queue() {
	handler := plugins.Handler{
		Class: "AcmeOrderWorker",
		Handle: func(ctx context.Context, task *plugins.Task) error {
			invoice, err := json.Marshal(map[string]any{"order": task.ID})
			if err != nil {
				return err
			}
			priority := tasks.PriorityBulk
			task.Queue(tasks.NewTask{Class: "AcmeInvoiceWorker", Data: invoice, Priority: &priority})
			return nil
		},
	}
	outcome := handler.Execute(context.Background(), tasks.Task{ID: 42}, nil)
	for _, followUp := range outcome.FollowUps {
		fmt.Println(followUp.Class, string(followUp.Data), *followUp.Priority)
	}
	// Output: AcmeInvoiceWorker {"order":42} 3000
}

// The retry policy can depend on the task and on the error.
func ExampleHandler_retryPolicy() {
	busy := errors.New("the other side is busy")
	handler := plugins.Handler{
		Class:      "AcmeSyncWorker",
		Handle:     func(ctx context.Context, task *plugins.Task) error { return busy },
		MaxRetries: func(task *plugins.Task) int { return 3 },
		WaitBeforeRetry: func(task *plugins.Task, err error) time.Duration {
			if errors.Is(err, busy) {
				return 10 * time.Second
			}
			return time.Duration(task.FailureCount) * time.Minute
		},
	}
	for failures := 2; failures <= 4; failures++ {
		outcome := handler.Execute(context.Background(), tasks.Task{ID: 7, FailureCount: failures}, nil)
		fmt.Println(outcome.Kind, outcome.Wait, outcome.Reason)
	}
	// Output:
	// retry 10s the other side is busy
	// retry 10s the other side is busy
	// failed 0s task 7 failed 4 times, more than the 3 retries it is allowed
}

// A task whose data asks for it gets a longer lease before its work begins.
func ExampleHandler_requiredLease() {
	handler := plugins.Handler{
		Class:  "AcmeExportWorker",
		Handle: func(ctx context.Context, task *plugins.Task) error { return nil },
		RequiredLease: func(task *plugins.Task) time.Duration {
			var data struct{ Rows int }
			if err := task.Decode(&data); err != nil {
				return 0 // Handle will say so
			}
			return time.Duration(data.Rows) * time.Millisecond
		},
	}
	task := tasks.Task{Data: []byte(`{"rows":7200000}`)}
	handler.Execute(context.Background(), task, func(lease time.Duration) { fmt.Println(lease) })
	// Output: 2h0m0s
}

// PHP writes an empty map as []; Map reads that too.
func ExampleMap() {
	var data struct {
		Parameters plugins.Map[string]
	}
	for _, stored := range []string{`{"parameters":{"a":"b"}}`, `{"parameters":[]}`} {
		task := plugins.Task{Data: []byte(stored)}
		fmt.Println(task.Decode(&data), data.Parameters)
	}
	// Output:
	// <nil> map[a:b]
	// <nil> map[]
}
