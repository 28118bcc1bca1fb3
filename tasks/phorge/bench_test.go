package phorge

import (
	"fmt"
	"testing"

	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// Tasks a second with durable commits on one connection; compare with the
// floor that `make bench` prints.
func BenchmarkSettle(b *testing.B) {
	for _, size := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			s := newQueue(b).open()
			done := 0
			for b.Loop() {
				b.StopTimer()
				enqueue(b, s, news(size, "A")...)
				all := succeeded(lease(b, s, storetest.Any(size)))
				b.StartTimer()
				settled(b, s, all)
				done += len(all)
			}
			b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

func BenchmarkEnqueue(b *testing.B) {
	for _, size := range []int{1, 64, 500} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			s := newQueue(b).open()
			all := news(size, "A")
			for b.Loop() {
				enqueue(b, s, all...)
			}
			b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}
