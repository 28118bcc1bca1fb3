package pool

import (
	"fmt"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// BenchmarkTasks measures tasks that do nothing, through processes that have one
// each.
func BenchmarkTasks(b *testing.B) {
	for _, processes := range []int{1, 2} {
		b.Run(fmt.Sprintf("fake processes %d", processes), func(b *testing.B) {
			p, _ := startReady(b, Config{Min: processes})
			measure(b, p, tasks.Task{ID: 7, Class: "Do", Data: []byte(`{}`)})
		})
		b.Run(fmt.Sprintf("PHP processes %d", processes), func(b *testing.B) {
			p, _ := startLive(b, Config{Min: processes})
			measure(b, p, tasks.Task{ID: 7, Class: "PhabricatorTestWorker", Data: []byte(`{}`)})
		})
	}
}

func measure(b *testing.B, p *Pool, task tasks.Task) {
	n := len(p.State().Processes)
	work, done := make(chan struct{}), make(chan error, n)
	for range n {
		go func() {
			for range work {
				if o := p.Execute(b.Context(), task, func(time.Duration) {}); o.Kind != tasks.Succeeded {
					done <- fmt.Errorf("%s: %s", o.Kind, o.Reason)
					return
				}
			}
			done <- nil
		}()
	}
	b.ReportAllocs()
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	for range n {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
