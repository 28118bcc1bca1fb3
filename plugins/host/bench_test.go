package host

import (
	"fmt"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
)

// BenchmarkStream measures tasks through one process whose handler does
// nothing, at so many tasks in flight.
func BenchmarkStream(b *testing.B) {
	h, _ := startReady(b, Config{Manifest: manifest(b, "")})
	for _, inFlight := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("in flight %d", inFlight), func(b *testing.B) {
			b.ReportAllocs()
			work := make(chan struct{}, inFlight)
			done := make(chan error, inFlight)
			for range inFlight {
				go func() {
					for range work {
						if o := h.Execute(b.Context(), tasks.Task{ID: 7, Class: "Nothing", Data: []byte(`{"duration":0}`)}, nil); o.Kind != tasks.Succeeded {
							done <- fmt.Errorf("%s: %s", o.Kind, o.Reason)
							return
						}
					}
					done <- nil
				}()
			}
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			for range inFlight {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}
