package redis

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
)

// Tasks a second on a server that syncs its file once a second, as asynq's users
// run it.

func queueOf(b *testing.B) *Store {
	return open(b, Config{URL: serve(b, "--appendfsync", "everysec"), Instance: newInstance()})
}

func perSecond(b *testing.B, tasks int) {
	b.ReportMetric(float64(tasks)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkEnqueueBatch(b *testing.B) {
	for _, size := range []int{1, 64, 500} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s, news := queueOf(b), some(size)
			for b.Loop() {
				if _, err := s.Enqueue(b.Context(), news); err != nil {
					b.Fatal(err)
				}
			}
			perSecond(b, size*b.N)
		})
	}
}

// One task a call, by many goroutines.
func BenchmarkEnqueueSingle(b *testing.B) {
	for _, goroutines := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(goroutines, "goroutines"), func(b *testing.B) {
			s, news := queueOf(b), some(1)
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
			perSecond(b, b.N)
		})
	}
}

func BenchmarkLeaseAndSettle(b *testing.B) {
	for _, size := range []int{1, 100, 500} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := queueOf(b)
			done := 0
			for b.Loop() {
				b.StopTimer()
				if _, err := s.Enqueue(b.Context(), some(size)); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				leased, err := s.Lease(b.Context(), want(size))
				if err != nil || len(leased) != size {
					b.Fatal(len(leased), err)
				}
				if _, err := s.Settle(b.Context(), succeeded(leased)); err != nil {
					b.Fatal(err)
				}
				done += size
			}
			perSecond(b, done)
		})
	}
}

// A call that leases 64 tasks, and the one that gives them back, in queues of
// different depth and with different heads.
func BenchmarkLeaseAtDepth(b *testing.B) {
	for _, d := range depths {
		if d.leased == 0 || d.name == "all were freed" { // those change the queue
			continue
		}
		for _, size := range []int{1000, 1_000_000} {
			b.Run(fmt.Sprintf("%s/%d", d.name, size), func(b *testing.B) {
				s := queueOf(b)
				d.fill(b, s, size)
				for b.Loop() {
					leased, err := s.Lease(b.Context(), d.req)
					if err != nil {
						b.Fatal(err)
					}
					back := succeeded(leased)
					for i := range back {
						back[i].Outcome.Kind = tasks.Released
					}
					if _, err := s.Settle(b.Context(), back); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
