package queueapi_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/queueapi"
)

// Sixteen clients queue one task after the other, over HTTP and without it; and
// in batches of 500. Each operation is one task.
func BenchmarkEnqueue(b *testing.B) {
	for _, c := range []struct {
		name  string
		batch int
		http  bool
	}{{"Raw", 1, false}, {"HTTP", 1, true}, {"RawBatch", 500, false}, {"HTTPBatch", 500, true}} {
		b.Run(c.name, func(b *testing.B) {
			subject := openMariaDB(b)
			defer subject.close()
			news := make([]tasks.NewTask, c.batch)
			for i := range news {
				news[i] = tasks.NewTask{Class: "A", Data: []byte(`{"n":1}`)}
			}
			one := `{"taskClass":"A","data":"{\"n\":1}"}`
			body := one
			if c.batch > 1 {
				body = "[" + strings.TrimSuffix(strings.Repeat(one+",", c.batch), ",") + "]"
			}
			api, err := queueapi.New(queueapi.Config{Instances: map[string]queueapi.Instance{"main": {Store: subject.Service}}, Log: zerolog.Nop()})
			if err != nil {
				b.Fatal(err)
			}
			listener, err := api.Listen(":0")
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() { ended <- api.Serve(ctx, ctx, listener) }()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for n := 0; pb.Next(); n++ {
					if n%c.batch > 0 {
						continue
					}
					if !c.http {
						if _, err := subject.Enqueue(b.Context(), news); err != nil {
							b.Error(err)
						}
						continue
					}
					r, err := client.Post("http://"+listener.Addr().String()+"/api/queue/enqueue", "application/json", strings.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						b.Error(err)
					}
					r.Body.Close()
					if r.StatusCode != http.StatusOK {
						b.Errorf("answered %d", r.StatusCode)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			client.CloseIdleConnections()
			stop()
			<-ended
		})
	}
}
