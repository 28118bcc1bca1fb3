package plugins

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestWhatAHandlersResultComesTo(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name   string
		handle func(context.Context, *Task) error
		want   tasks.Outcome
	}{
		{"nil", func(context.Context, *Task) error { return nil },
			tasks.Outcome{Kind: tasks.Succeeded}},
		{"an error", func(context.Context, *Task) error { return boom },
			tasks.Outcome{Kind: tasks.Retry, Wait: DefaultWait, Reason: "boom"}},
		{"a yield", func(context.Context, *Task) error { return Yield(15 * time.Second) },
			tasks.Outcome{Kind: tasks.Yielded, Wait: 15 * time.Second, Reason: "yielded for 15s"}},
		{"a permanent failure", func(context.Context, *Task) error { return Fail(boom) },
			tasks.Outcome{Kind: tasks.Failed, Reason: "boom"}},
		{"a permanent failure without a cause", func(context.Context, *Task) error { return Fail(nil) },
			tasks.Outcome{Kind: tasks.Failed, Reason: "failed permanently"}},
		{"a permanent failure in another error", func(context.Context, *Task) error { return fmt.Errorf("print: %w", Fail(boom)) },
			tasks.Outcome{Kind: tasks.Failed, Reason: "print: boom"}},
		{"a decline", func(context.Context, *Task) error { return Decline("too old") },
			tasks.Outcome{Kind: tasks.Declined, Reason: "too old"}},
		{"follow-ups and success", func(_ context.Context, task *Task) error {
			task.Queue(tasks.NewTask{Class: "A", Data: []byte(`1`)})
			task.Queue(tasks.NewTask{Class: "B", Data: []byte(`2`)})
			return nil
		}, tasks.Outcome{Kind: tasks.Succeeded, FollowUps: []tasks.NewTask{{Class: "A", Data: []byte(`1`)}, {Class: "B", Data: []byte(`2`)}}}},
		{"follow-ups and a failed attempt", func(_ context.Context, task *Task) error {
			task.Queue(tasks.NewTask{Class: "A", Data: []byte(`1`)})
			return boom
		}, tasks.Outcome{Kind: tasks.Retry, Wait: DefaultWait, Reason: "boom"}},
		{"follow-ups and a yield", func(_ context.Context, task *Task) error {
			task.Queue(tasks.NewTask{Class: "A", Data: []byte(`1`)})
			return Yield(time.Minute)
		}, tasks.Outcome{Kind: tasks.Yielded, Wait: time.Minute, Reason: "yielded for 1m0s"}},
		{"a follow-up that cannot be queued", func(_ context.Context, task *Task) error {
			task.Queue(tasks.NewTask{Data: []byte(`1`)})
			return nil
		}, tasks.Outcome{Kind: tasks.Retry, Wait: DefaultWait, Reason: `follow-up 1: invalid: task of class "": taskClass is empty`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Handler{Class: "A", Handle: c.handle}.Execute(t.Context(), tasks.Task{}, nil)
			got.Duration = 0
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if !errors.Is(Fail(boom), boom) {
		t.Error("Fail hides its cause")
	}
}

func TestB09TheRetryLimitIsCheckedBeforeTheHandlerRuns(t *testing.T) {
	calls := 0
	h := Handler{
		Handle:          func(context.Context, *Task) error { calls++; return errors.New("no") },
		MaxRetries:      func(*Task) int { return 3 },
		WaitBeforeRetry: func(*Task, error) time.Duration { return -time.Minute },
	}
	for failures := range 4 {
		got := h.Execute(t.Context(), tasks.Task{ID: 7, FailureCount: failures}, nil)
		if got.Kind != tasks.Retry || got.Wait != -time.Minute {
			t.Errorf("after %d failures: %+v", failures, got)
		}
	}
	got := h.Execute(t.Context(), tasks.Task{ID: 7, FailureCount: 4}, nil)
	if want := "task 7 failed 4 times, more than the 3 retries it is allowed"; got.Kind != tasks.Failed || got.Reason != want {
		t.Errorf("after 4 failures: %+v", got)
	}
	if calls != 4 {
		t.Errorf("the handler was called %d times", calls)
	}
}

func TestWaitBeforeRetrySeesTheRaisedCountAndTheError(t *testing.T) {
	boom := errors.New("boom")
	h := Handler{
		Handle: func(context.Context, *Task) error { return boom },
		WaitBeforeRetry: func(task *Task, err error) time.Duration {
			if !errors.Is(err, boom) {
				t.Errorf("the error is %v", err)
			}
			return time.Duration(task.FailureCount) * 15 * time.Second // as PhabricatorMetaMTAWorker
		},
	}
	if got := h.Execute(t.Context(), tasks.Task{FailureCount: 2}, nil); got.Wait != 45*time.Second {
		t.Errorf("the third failure waits %v", got.Wait)
	}
}

func TestARequiredLeaseIsToldBeforeTheWorkBegins(t *testing.T) {
	var order []string
	h := Handler{
		Handle:        func(context.Context, *Task) error { order = append(order, "work"); return nil },
		RequiredLease: func(*Task) time.Duration { return time.Hour },
	}
	require := func(lease time.Duration) { order = append(order, lease.String()) }
	h.Execute(t.Context(), tasks.Task{}, require)
	h.RequiredLease = func(*Task) time.Duration { return 0 } // nothing to tell
	h.Execute(t.Context(), tasks.Task{}, require)
	if diff := cmp.Diff([]string{"1h0m0s", "work", "work"}, order); diff != "" {
		t.Error(diff)
	}
}

func TestPanicsAreFailedAttempts(t *testing.T) {
	handle := func(context.Context, *Task) error { return explode(nil) }
	quiet := func(context.Context, *Task) error { return errors.New("no ink") }
	for _, c := range []struct {
		name    string
		handler Handler
		reason  []string
	}{
		{"in Handle", Handler{Handle: handle}, []string{
			"panic: runtime error: invalid memory address or nil pointer dereference\n",
			"plugins.explode\n\t", "handler_test.go:"}},
		{"in MaxRetries", Handler{Handle: quiet, MaxRetries: func(*Task) int { panic("limit") }}, []string{"panic: limit\n"}},
		{"in RequiredLease", Handler{Handle: quiet, RequiredLease: func(*Task) time.Duration { panic("lease") }}, []string{"panic: lease\n"}},
		{"in WaitBeforeRetry", Handler{Handle: quiet, WaitBeforeRetry: func(*Task, error) time.Duration { panic("wait") }},
			[]string{"no ink\nWaitBeforeRetry: panic: wait\n"}},
		{"with nil", Handler{Handle: func(context.Context, *Task) error { panic(nil) }}, []string{"panic: panic called with nil argument"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.handler.Execute(t.Context(), tasks.Task{}, func(time.Duration) {})
			if got.Kind != tasks.Retry || got.Wait != DefaultWait {
				t.Errorf("%s, wait %v", got.Kind, got.Wait)
			}
			for _, text := range c.reason {
				if !strings.Contains(got.Reason, text) {
					t.Errorf("the reason lacks %q:\n%s", text, got.Reason)
				}
			}
			if strings.Contains(got.Reason, "runtime.gopanic") || strings.Contains(got.Reason, "testing.") {
				t.Errorf("the stack is not trimmed:\n%s", got.Reason)
			}
		})
	}
}

func explode(task *Task) error {
	task.ID++
	return nil
}

func TestLongReasonsAreCut(t *testing.T) {
	h := Handler{Handle: func(context.Context, *Task) error { return errors.New(strings.Repeat("x", 1<<20)) }}
	if got := h.Execute(t.Context(), tasks.Task{}, nil); len(got.Reason) > maxReason+10 {
		t.Errorf("a reason of %d bytes", len(got.Reason))
	}
}

func TestTheDurationIsTheHandlersAlone(t *testing.T) {
	h := Handler{Handle: func(context.Context, *Task) error { return nil }}
	if got := h.Execute(t.Context(), tasks.Task{}, nil); got.Duration <= 0 {
		t.Errorf("the work took %v", got.Duration)
	}
	h.MaxRetries = func(*Task) int { return 0 }
	if got := h.Execute(t.Context(), tasks.Task{FailureCount: 1}, nil); got.Duration != 0 {
		t.Errorf("work that was not begun took %v", got.Duration)
	}
}

func TestHandlersThatCannotBeServed(t *testing.T) {
	handle := func(context.Context, *Task) error { return nil }
	for _, c := range []struct {
		handlers []Handler
		reason   string
	}{
		{nil, "at least one handler"},
		{[]Handler{{Handle: handle}}, "handler 1 has no Class"},
		{[]Handler{{Class: "A"}}, "the handler of A has no Handle"},
		{[]Handler{{Class: "A", Handle: handle}, {Class: "A", Handle: handle}}, "two handlers of A"},
		{[]Handler{{Class: "A", Handle: handle, Concurrency: -1}}, "Concurrency of -1"},
	} {
		if _, err := register(c.handlers); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%v; want %q in it", err, c.reason)
		}
	}
}

func TestAHandlerFindsTheTraceOfItsTask(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	var seen []string
	h := Handler{Class: "A", Handle: func(ctx context.Context, _ *Task) error {
		seen = append(seen, Traceparent(ctx))
		return nil
	}}
	h.Execute(t.Context(), tasks.Task{Class: "A", Traceparent: trace}, nil)
	h.Execute(t.Context(), tasks.Task{Class: "A"}, nil)
	if len(seen) != 2 || seen[0] != trace || seen[1] != "" || Traceparent(t.Context()) != "" {
		t.Errorf("the handler saw %q", seen)
	}
}
