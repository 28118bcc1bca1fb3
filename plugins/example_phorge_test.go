package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
)

// A handler that works for a Phorge names what it uses. It takes the lock that
// PHP takes, and stores what it did even when it is cancelled meanwhile.
func ExampleTask_DB() {
	plugins.Serve(plugins.Handler{
		Class:     "AcmeCallWorker",
		Databases: []string{"acme"},
		Options:   []string{"phabricator.silent"},
		Handle: func(ctx context.Context, task *plugins.Task) error {
			var data struct{ CallPHID, Status string }
			if err := task.Decode(&data); err != nil {
				return err
			}
			unlock, err := task.Lock(ctx, "acme.call("+data.CallPHID+")")
			if errors.Is(err, plugins.ErrLocked) {
				return plugins.Yield(15 * time.Second)
			}
			if err != nil {
				return err
			}
			defer unlock()

			silent := false // the option's default
			if err := task.Option(ctx, "phabricator.silent", &silent); err != nil {
				return err
			}
			status := "silent"
			if !silent {
				status = "called" // by a client that sends through task.Transport
			}
			return plugins.Store(ctx, func(ctx context.Context) error {
				_, err := task.DB("acme").Exec(ctx, "UPDATE acme_call SET status = ? WHERE phid = ?", status, data.CallPHID)
				return err
			})
		},
	})
}

// Several writes that belong together are a transaction.
func ExampleTask_Transact() {
	plugins.Serve(plugins.Handler{
		Class:     "AcmeMoveWorker",
		Databases: []string{"acme"},
		Handle: func(ctx context.Context, task *plugins.Task) error {
			return task.Transact(ctx, "acme", func(tx plugins.DB) error {
				if _, err := tx.Exec(ctx, "UPDATE acme_box SET items = items - 1 WHERE id = 1"); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, "UPDATE acme_box SET items = items + 1 WHERE id = 2")
				return err
			})
		},
	})
}

// A shadow run sends nothing and answers what would have been sent.
func ExampleHandler_Shadow() {
	handler := plugins.Handler{
		Class: "AcmeCallWorker",
		Handle: func(ctx context.Context, task *plugins.Task) error {
			client := &http.Client{Transport: task.Transport(nil)}
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://acme.example/call", strings.NewReader("hello"))
			if err != nil {
				return err
			}
			response, err := client.Do(request)
			if err != nil {
				return err
			}
			return response.Body.Close()
		},
	}
	outcome, effects := handler.Shadow(context.Background(), nil, tasks.Task{ID: 1})
	fmt.Println(outcome.Kind)
	for _, sent := range effects.Requests {
		fmt.Println(sent.Method, sent.URL, string(sent.Body))
	}
	// Output:
	// succeeded
	// POST https://acme.example/call hello
}
