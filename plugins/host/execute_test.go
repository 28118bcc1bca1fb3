package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestOutcomesTravelBack(t *testing.T) {
	h, _ := startReady(t, Config{Manifest: manifest(t, "")})
	for _, c := range []struct {
		name  string
		class string
		order map[string]any
		want  tasks.Outcome
	}{
		{"success", "Do", map[string]any{"do": "succeed"}, tasks.Outcome{Kind: tasks.Succeeded}},
		{"a failed attempt", "Do", map[string]any{"do": "fail", "text": "no ink"},
			tasks.Outcome{Kind: tasks.Retry, Wait: tasks.DefaultWait, Reason: "no ink"}},
		{"a failed attempt of a class with a wait of its own", "Limited", map[string]any{"do": "fail", "text": "no ink"},
			tasks.Outcome{Kind: tasks.Retry, Wait: time.Minute, Reason: "no ink"}},
		{"a reason that is not UTF-8", "Do", map[string]any{"do": "fail in Latin-1"},
			tasks.Outcome{Kind: tasks.Retry, Wait: tasks.DefaultWait, Reason: "caf\ufffd"}},
		{"a permanent failure", "Do", map[string]any{"do": "fail for good", "text": "no such paper"},
			tasks.Outcome{Kind: tasks.Failed, Reason: "no such paper"}},
		{"a yield", "Do", map[string]any{"do": "yield"},
			tasks.Outcome{Kind: tasks.Yielded, Wait: time.Minute, Reason: "yielded for 1m0s"}},
		{"a task declined", "Do", map[string]any{"do": "decline", "text": "PHP knows better"},
			tasks.Outcome{Kind: tasks.Declined, Reason: "PHP knows better"}},
		{"a handler that ends its goroutine", "Do", map[string]any{"do": "leave"},
			tasks.Outcome{Kind: tasks.Retry, Wait: tasks.DefaultWait, Reason: "the handler ended its goroutine instead of returning"}},
		{"a follow-up", "Do", map[string]any{"do": "follow up", "text": `{"n":9007199254740993}`},
			tasks.Outcome{Kind: tasks.Succeeded, FollowUps: []tasks.NewTask{{Class: "Next", Data: []byte(`{"n":9007199254740993}`)}}}},
		{"a follow-up that cannot be queued", "Do", map[string]any{"do": "follow up", "text": `{"n":`},
			tasks.Outcome{Kind: tasks.Retry, Wait: tasks.DefaultWait, Reason: `follow-up 1: invalid: task of class "Next": data is not valid JSON`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := run(t.Context(), h, c.class, c.order)
			got.Duration = 0
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestTheAdministratorsRetryPolicyReplacesTheHandlers(t *testing.T) {
	m := manifest(t, "")
	m.Plugins[0].Classes["Limited"] = Class{MaxRetries: new(5), Wait: new(3 * time.Second)}
	h, _ := startReady(t, Config{Manifest: m})
	task := tasks.Task{ID: 7, Class: "Limited", FailureCount: 5, Data: []byte(`{"do":"fail","text":"no ink"}`)}

	if got := h.Execute(t.Context(), task, nil); got.Kind != tasks.Retry || got.Wait != 3*time.Second {
		t.Errorf("the last retry came to %s, wait %v", got.Kind, got.Wait)
	}
	task.FailureCount = 6
	want(t, h.Execute(t.Context(), task, nil), tasks.Failed, "more than the 5 retries")
}

func TestB17WorkBeginsWhenTheRequiredLeaseIsThere(t *testing.T) {
	h, _ := startReady(t, Config{Manifest: manifest(t, "")})
	began := filepath.Join(t.TempDir(), "began")
	task := tasks.Task{ID: 7, Class: "Do", Data: fmt.Appendf(nil, `{"do":"need a lease","started":%q}`, began)}
	var required time.Duration
	got := h.Execute(t.Context(), task, func(lease time.Duration) {
		required = lease
		run(t.Context(), h, "Do", map[string]any{"do": "succeed"}) // the stream goes on meanwhile
		if _, err := os.Stat(began); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the work began before the lease was there: %v", err)
		}
	})
	want(t, got, tasks.Succeeded, "")
	if _, err := os.Stat(began); err != nil || required != time.Hour {
		t.Errorf("required %v; %v", required, err)
	}
}

func TestATaskThatIsCancelledWhileItWaitsForItsLeaseDoesNotBegin(t *testing.T) {
	h, _ := startReady(t, Config{Manifest: manifest(t, "")})
	began := filepath.Join(t.TempDir(), "began")
	task := tasks.Task{ID: 7, Class: "Do", Data: fmt.Appendf(nil, `{"do":"need a lease","started":%q}`, began)}
	ctx, cancel := context.WithCancel(t.Context())
	got := h.Execute(ctx, task, func(time.Duration) {
		cancel()
		<-ctx.Done()
	})
	want(t, got, tasks.Retry, "context canceled")
	if _, err := os.Stat(began); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the work began: %v", err)
	}
}

func TestDataOfManyMegabytesTravels(t *testing.T) {
	h, _ := startReady(t, Config{Manifest: manifest(t, "")})
	data := fmt.Sprintf(`{"do":"size","text":%q}`, strings.Repeat("x", 6<<20))
	got := h.Execute(t.Context(), tasks.Task{Class: "Do", Data: []byte(data)}, nil)
	want(t, got, tasks.Failed, fmt.Sprintf("%d bytes", len(data)))
}

func TestB08AClassThatNoBinaryTakesIsReleased(t *testing.T) {
	m := manifest(t, "")
	m.Plugins[0].Classes["Elsewhere"] = Class{}
	h, log := startReady(t, Config{Manifest: m})
	for _, class := range []string{"NoSuchWorker", "do", "Elsewhere"} {
		if h.Ready(class) {
			t.Errorf("class %s is ready", class)
		}
		want(t, run(t.Context(), h, class, nil), tasks.Released, "")
	}
	if text := "the binary has no handler for class Elsewhere; it handles Alone, Do, Limited, Nothing"; !strings.Contains(log.String(), text) {
		t.Errorf("the log does not say %q:\n%s", text, log)
	}
}

func TestAHandlersConcurrencyIsKept(t *testing.T) {
	h, _ := startReady(t, Config{Manifest: manifest(t, "")})
	if slots := h.Classes()["Alone"].Slots; slots != 1 {
		t.Errorf("class Alone has %d slots", slots)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := filepath.Join(t.TempDir(), "started")
	first := make(chan tasks.Outcome, 1)
	go func() { first <- run(ctx, h, "Alone", map[string]any{"do": "wait", "started": started}) }()
	readPID(t, started)

	waiting, giveUp := context.WithCancel(t.Context())
	second := make(chan tasks.Outcome, 1)
	go func() { second <- run(waiting, h, "Alone", map[string]any{"do": "succeed"}) }()
	want(t, run(t.Context(), h, "Do", map[string]any{"do": "succeed"}), tasks.Succeeded, "") // others run
	giveUp()
	want(t, <-second, tasks.Released, "before it started")

	cancel()
	want(t, <-first, tasks.Retry, "context canceled")
	want(t, run(t.Context(), h, "Alone", map[string]any{"do": "succeed"}), tasks.Succeeded, "")
}

func TestACancelledTaskEndsWhenItsHandlerReturns(t *testing.T) {
	h, _ := startReady(t, Config{Manifest: manifest(t, "")})
	ctx, cancel := context.WithCancel(t.Context())
	outcome, pid := background(t, ctx, h, map[string]any{"do": "wait"})
	cancel()
	want(t, <-outcome, tasks.Retry, "context canceled")
	if !alive(pid) || h.List()[0].Restarts != 0 {
		t.Error("the process was restarted for a handler that returned")
	}
}

func TestB14AHandlerThatNeverReturnsIsKilled(t *testing.T) {
	h, _ := startReady(t, Config{Manifest: manifest(t, ""), CancelGrace: 50 * time.Millisecond})
	innocent, _ := background(t, t.Context(), h, map[string]any{"do": "wait"})
	ctx, cancel := context.WithCancel(t.Context())
	outcome, pid := background(t, ctx, h, map[string]any{"do": "ignore"})

	cancel()
	want(t, <-outcome, tasks.Crashed, "task 7 (Do) went on for 50ms after it was cancelled")
	if alive(pid) {
		t.Error("Execute returned while the process ran")
	}
	want(t, <-innocent, tasks.Released, "cut short: task 7 (Do) went on")
	eventually(t, "the process is started again", func() bool { return h.Ready("Do") })
	want(t, run(t.Context(), h, "Do", map[string]any{"do": "succeed"}), tasks.Succeeded, "")
}
