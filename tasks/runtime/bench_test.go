package runtime

import (
	"context"
	"sync"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
)

// endless is a store that costs nothing: what remains is the loop's own cost.
type endless struct {
	mu      sync.Mutex
	left    int // tasks still to be leased
	settled int
	calls   int // settle calls
	all     int
	done    chan struct{} // closed when all are settled
}

func (e *endless) Enqueue(context.Context, []tasks.NewTask) ([]int64, error) { return nil, nil }

func (e *endless) Lease(_ context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := min(req.Limit, req.Classes["Work"].Limit, e.left)
	lease := &tasks.Lease{Owner: "gantry:1:0:x:host", Fence: 1}
	batch := make([]tasks.Task, n)
	for i := range batch {
		batch[i] = tasks.Task{ID: int64(e.left - i), Class: "Work", Lease: lease}
	}
	e.left -= n
	return batch, nil
}

func (e *endless) Renew(_ context.Context, renewals []tasks.Renewal) ([]tasks.Renewed, error) {
	return make([]tasks.Renewed, len(renewals)), nil
}

func (e *endless) Settle(_ context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	if e.settled += len(settlements); e.settled == e.all {
		close(e.done)
	}
	return make([]tasks.Settled, len(settlements)), nil
}

// BenchmarkLoop is the ceiling of the loop itself, with a store and an executor
// that cost nothing.
func BenchmarkLoop(b *testing.B) {
	b.Run("alone", func(b *testing.B) { benchmarkLoop(b, nil) })
	b.Run("with turns", func(b *testing.B) { benchmarkLoop(b, &Turns{Total: DefaultSlots}) })
}

func benchmarkLoop(b *testing.B, turns *Turns) {
	store := &endless{left: b.N, all: b.N, done: make(chan struct{})}
	work := tasks.ExecutorFunc(func(context.Context, tasks.Task) tasks.Outcome {
		return tasks.Outcome{Kind: tasks.Succeeded}
	})
	r, err := New(Config{Store: store, Classes: only("Work", work), Turns: turns})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if err := r.Start(); err != nil {
		b.Fatal(err)
	}
	<-store.done
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64(b.N)/float64(store.calls), "tasks/settlement")
	if err := r.Close(); err != nil {
		b.Fatal(err)
	}
}
