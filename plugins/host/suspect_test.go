package host

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// again is a task as it is leased after it crashed so often.
func again(id int64, crashes int, order map[string]any) tasks.Task {
	data, err := json.Marshal(order)
	if err != nil {
		panic(err)
	}
	prior := tasks.RetryOwner(1, crashes)
	return tasks.Task{ID: id, Class: "Do", Data: data, Lease: &tasks.Lease{Crashes: crashes, Prior: tasks.Place{Owner: &prior}}}
}

func execute(ctx context.Context, h *Host, task tasks.Task) tasks.Outcome {
	return h.Execute(ctx, task, func(time.Duration) {})
}

func TestThePoisonTaskDiesAloneTheSecondTimeAndTheOthersSucceed(t *testing.T) {
	h, _ := startReady(t, Config{Manifest: manifest(t, "")})
	var held []<-chan tasks.Outcome
	for range 5 {
		outcome, _ := background(t, t.Context(), h, map[string]any{"do": "wait"})
		held = append(held, outcome)
	}
	want(t, run(t.Context(), h, "Do", map[string]any{"do": "exit"}), tasks.Crashed, "exit status 4")
	for _, outcome := range held {
		want(t, <-outcome, tasks.Crashed, "exit status 4")
	}
	eventually(t, "the process runs again", func() bool { return h.Ready("Do") })
	bystander, pid := background(t, t.Context(), h, map[string]any{"do": "wait"})

	want(t, execute(t.Context(), h, again(1, 1, map[string]any{"do": "exit"})), tasks.Crashed, "(alone)")
	for id := range held {
		eventually(t, "the innocent succeed", func() bool {
			outcome := execute(t.Context(), h, again(int64(id+2), 1, map[string]any{"do": "succeed"}))
			if outcome.Kind == tasks.Crashed {
				t.Fatalf("an innocent task is blamed: %s", outcome.Reason)
			}
			return outcome.Kind == tasks.Succeeded
		})
	}
	if !alive(pid) || h.List()[0].Restarts != 1 {
		t.Error("the second death of the poison task touched the process of the others")
	}
	h.Close()
	want(t, <-bystander, tasks.Released, "Gantry stopped")
}

func TestSuspectsRunOneAtATimeAndWaitWithoutCounting(t *testing.T) {
	h, _ := startReady(t, Config{Manifest: manifest(t, "")})
	if h.List()[0].Alone != nil {
		t.Error("there is a second process before there is a suspect")
	}
	started := filepath.Join(t.TempDir(), "started")
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan tasks.Outcome, 1)
	go func() { first <- execute(ctx, h, again(1, 1, map[string]any{"do": "wait", "started": started})) }()
	pid := readPID(t, started)
	if s := h.List()[0].Alone; s == nil || s.PID != pid || s.Running != 1 || s.Name != "handler (alone)" {
		t.Errorf("the list says %+v of the second process, which is %d", s, pid)
	}

	second := execute(t.Context(), h, again(2, 1, map[string]any{"do": "succeed"}))
	want(t, second, tasks.Released, "runs alone")
	if second.Wait != suspectWait {
		t.Errorf("it waits for %v", second.Wait)
	}
	want(t, run(t.Context(), h, "Do", map[string]any{"do": "succeed"}), tasks.Succeeded, "")
	cancel()
	want(t, <-first, tasks.Retry, "context canceled")
	want(t, execute(t.Context(), h, again(2, 1, map[string]any{"do": "succeed"})), tasks.Succeeded, "")
	h.Close()
	if alive(pid) {
		t.Error("Close left the process of the suspects")
	}
	want(t, execute(t.Context(), h, again(3, 1, map[string]any{"do": "succeed"})), tasks.Released, "Gantry stopped")
}

func TestOnlyTasksOfADeadProcessAreSuspects(t *testing.T) {
	place := func(owner string) *tasks.Lease { return &tasks.Lease{Prior: tasks.Place{Owner: &owner}} }
	for _, c := range []struct {
		name  string
		lease *tasks.Lease
		want  bool
	}{
		{"never leased", &tasks.Lease{}, false},
		{"no lease", nil, false},
		{"failed in order", place(tasks.RetryOwner(1, 0)), false},
		{"yielded", place(tasks.YieldOwner), false},
		{"its Gantry died", place(tasks.Owner{Fence: 1, Crashes: 1, Nonce: "n", Host: "h"}.String()), false},
		{"its process died", place(tasks.RetryOwner(1, 1)), true},
		{"its process died and it was given back since", place(tasks.BackOwner(1, 2)), true},
	} {
		if got := suspect(tasks.Task{Lease: c.lease}); got != c.want {
			t.Errorf("%s: suspect is %v", c.name, got)
		}
	}
}
