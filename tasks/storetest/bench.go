package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
)

// Benchmark measures tasks a second of a store: queued in batches, queued one a
// call by many goroutines, and leased and settled. Open answers an empty queue.
func Benchmark(b *testing.B, open func(b *testing.B) tasks.Store) {
	for _, size := range []int{1, 64, 500} {
		b.Run(fmt.Sprint("Enqueue/", size), func(b *testing.B) { benchEnqueue(b, open(b), size) })
	}
	for _, goroutines := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("EnqueueSingle/", goroutines, "goroutines"), func(b *testing.B) { benchSingle(b, open(b), goroutines) })
	}
	for _, size := range []int{1, 100, 500} {
		b.Run(fmt.Sprint("LeaseAndSettle/", size), func(b *testing.B) { benchSettle(b, open(b), size) })
	}
}

// PerSecond reports tasks a second instead of the time of one.
func PerSecond(b *testing.B, tasks int) {
	b.ReportMetric(float64(tasks)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(0, "ns/op")
}

func someTasks(n int) []tasks.NewTask {
	news := make([]tasks.NewTask, n)
	for i := range news {
		news[i] = task("A")
	}
	return news
}

func benchEnqueue(b *testing.B, s tasks.Store, size int) {
	news := someTasks(size)
	for b.Loop() {
		if _, err := s.Enqueue(b.Context(), news); err != nil {
			b.Fatal(err)
		}
	}
	PerSecond(b, size*b.N)
}

func benchSingle(b *testing.B, s tasks.Store, goroutines int) {
	news := someTasks(1)
	b.SetParallelism(max(1, goroutines/2)) // of two cores
	var failed atomic.Value
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Enqueue(b.Context(), news); err != nil {
				failed.Store(err)
			}
		}
	})
	if err := failed.Load(); err != nil {
		b.Fatal(err)
	}
	PerSecond(b, b.N)
}

func benchSettle(b *testing.B, s tasks.Store, size int) {
	done := 0
	for b.Loop() {
		b.StopTimer()
		if _, err := s.Enqueue(b.Context(), someTasks(size)); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		leased, err := leaseFully(b.Context(), s, Any(size))
		if err != nil || len(leased) != size {
			b.Fatal(len(leased), err)
		}
		settlements := make([]tasks.Settlement, size)
		for i, task := range leased {
			settlements[i] = settlement(task, tasks.Outcome{Kind: tasks.Succeeded})
		}
		if _, err := s.Settle(b.Context(), settlements); err != nil {
			b.Fatal(err)
		}
		done += size
	}
	PerSecond(b, done)
}
