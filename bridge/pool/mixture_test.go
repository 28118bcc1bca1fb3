package pool

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phorge-gantry/gantry/tasks"
)

// Callers with tasks of every kind, some of which they cancel, and somebody who
// stops and kills processes: every task gets an answer, and its own; and then
// the pool works as before.
func TestInAnyMixtureOfMisbehaviourEveryTaskGetsItsOwnAnswer(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	p, _ := newFake(t, "").start(Config{Min: 2, Max: 4, IdleTimeout: 10 * time.Millisecond, MaxBackoff: 2 * time.Millisecond})
	var callers sync.WaitGroup
	for caller := range 6 {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(caller)))
			for n := range 40 {
				misbehave(t, p, random, fmt.Sprintf("task %d of caller %d", n, caller))
			}
		})
	}
	done := make(chan struct{})
	go func() { callers.Wait(); close(done) }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for random := rand.New(rand.NewPCG(seed, 99)); ; {
		select {
		case <-done:
			eventually(t, "a task succeeds", func() bool { return run(t.Context(), p, map[string]any{}).Kind == tasks.Succeeded })
			defer func() {
				if t.Failed() {
					t.Logf("state %+v", p.State())
				}
			}()
			eventually(t, "as many processes as at the beginning are idle", func() bool { return len(pids(p, Idle)) == 2 && len(p.State().Processes) == 2 })
			return
		case <-tick.C:
			p.mu.Lock()
			for _, r := range p.processes {
				if random.IntN(8) == 0 {
					hurt(&r.child, []unix.Signal{unix.SIGKILL, unix.SIGSTOP, unix.SIGTERM}[random.IntN(3)])
				}
			}
			p.mu.Unlock()
		}
	}
}

// hurt sends a signal to a process while its number cannot belong to another.
func hurt(c *child, signal unix.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pid != 0 && !c.reaped {
		_ = unix.Kill(c.pid, signal)
	}
}

// misbehave runs one task that is drawn.
func misbehave(t *testing.T, p *Pool, random *rand.Rand, name string) {
	orders := []map[string]any{
		nil, nil, nil, nil, nil, nil, // the name, echoed
		{"do": "exit", "text": "no"},
		{"do": "stop"},
		{"do": "answer and exit"},
		{"do": "half an answer"},
		{"do": "leave", "text": "age"},
		{"do": "leave while idle", "text": "age"},
		{"do": "print", "text": name, "times": 10000},
		{"do": "frame", "text": `{"type":"outcome","request":"0"}`},
		{"do": "lease", "times": 10},
		{"do": "outcome", "text": `{"kind":"retry","uncaught":true}`},
		{"do": "hang"}, // until it is cancelled
	}
	order := orders[random.IntN(len(orders))]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if order["do"] == "hang" || random.IntN(10) == 0 {
		time.AfterFunc(time.Duration(random.IntN(20))*time.Millisecond, cancel)
	}
	task := taskOf(order)
	if order == nil {
		task.Class, task.Data = "Echo", []byte(name)
	}
	got := p.Execute(ctx, task, func(time.Duration) {})
	text, _ := json.Marshal(order)
	switch got.Kind {
	case tasks.Failed:
		if order != nil || !strings.HasSuffix(got.Reason, "}"+hex.EncodeToString([]byte(name))) {
			t.Errorf("%s %s got an answer that is not its own: %s", name, text, got.Reason)
		}
	case tasks.Succeeded, tasks.Retry:
		if order == nil {
			t.Errorf("%s got an answer that is not its own: %+v", name, got)
		}
	case tasks.Crashed, tasks.Released:
	default:
		t.Errorf("%s %s: %+v", name, text, got)
	}
}
