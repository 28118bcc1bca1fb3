package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/tracing"
)

func TestWithoutAnEndpointThereIsNoTracer(t *testing.T) {
	for _, environ := range []map[string]string{
		{},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318", "OTEL_SDK_DISABLED": "true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318", "OTEL_TRACES_EXPORTER": "none"},
	} {
		t.Run("", func(t *testing.T) {
			for name, value := range environ {
				t.Setenv(name, value)
			}
			tracer, err := tracing.Start("1", zerolog.Nop())
			if tracer != nil || err != nil {
				t.Fatalf("with %v there is a tracer (%v)", environ, err)
			}
			executor := tasks.ExecutorFunc(func(_ context.Context, task tasks.Task) tasks.Outcome {
				return tasks.Outcome{Reason: task.Traceparent}
			})
			task := tasks.Task{Traceparent: theirs}
			if got := tracer.Executor(executor, "i", "plugin").Execute(t.Context(), task, nil).Reason; got != theirs {
				t.Errorf("the task runs with the trace context %q", got)
			}
			news := []tasks.NewTask{{Class: "A"}}
			tracer.Enqueue("i", theirs, news)(nil, nil)
			if news[0].Traceparent != theirs {
				t.Errorf("the task is queued with the trace context %q", news[0].Traceparent)
			}
			must(t, tracer.Close(t.Context()))
		})
	}
}

func TestWhatTheVariablesSayIsLookedAt(t *testing.T) {
	for _, c := range []struct {
		name    string
		environ map[string]string
		want    string
	}{
		{"no URL", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "user:hunter2@collector:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT must be the URL"},
		{"another scheme", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "grpc://hunter2@collector"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be the URL"},
		{"another protocol", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, `OTEL_EXPORTER_OTLP_PROTOCOL is "grpc", and only http/protobuf`},
		{"attributes that are none", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_RESOURCE_ATTRIBUTES": "x"}, "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.environ {
				t.Setenv(name, value)
			}
			tracer, err := tracing.Start("1", zerolog.Nop())
			if tracer != nil || err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("Start answers %v, want an error that says %q", err, c.want)
			}
		})
	}
}

// many runs so many tasks in spans.
func many(t *testing.T, tracer *tracing.Tracer, n int) {
	t.Helper()
	executor := tracer.Executor(tasks.ExecutorFunc(func(context.Context, tasks.Task) tasks.Outcome {
		return tasks.Outcome{Kind: tasks.Succeeded}
	}), "acme", "plugin")
	for range n {
		if outcome := executor.Execute(t.Context(), tasks.Task{Class: "A", Traceparent: theirs}, nil); outcome.Kind != tasks.Succeeded {
			t.Fatalf("a task ended as %s", outcome.Kind)
		}
	}
}

// A collector that takes connections and never answers: more tasks run than the
// queue of spans holds, and the tracer still ends. Had one of them waited for
// the collector, the test would not end.
func TestACollectorThatHangsDelaysNoTask(t *testing.T) {
	released := make(chan struct{})
	called := sync.OnceFunc(func() { close(released) })
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or nobody sees that the client went
		called()
		<-r.Context().Done()
	}))
	defer hangs.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", hangs.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000")
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "3600000")
	tracer, err := tracing.Start("1", zerolog.Nop())
	must(t, err)
	many(t, tracer, 5000) // 2048 fit in
	<-released
	many(t, tracer, 5000)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := tracer.Close(ctx); err == nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close answers %v", err)
	}
}

func TestACollectorThatIsNotThereDelaysNoTaskAndIsSaidOnce(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	gone.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+gone.Addr().String())
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	var logs log
	tracer, err := tracing.Start("1", zerolog.New(&logs))
	must(t, err)
	many(t, tracer, 5000)
	tracer.Close(t.Context())
	if lines := strings.Count(logs.String(), "spans were lost"); lines > 1 {
		t.Errorf("it is said %d times:\n%s", lines, logs.String())
	}
}

type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestAnExecutorThatPanicsEndsItsSpan(t *testing.T) {
	c := startCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.url)
	tracer, err := tracing.Start("1", zerolog.Nop())
	must(t, err)
	executor := tracer.Executor(tasks.ExecutorFunc(func(context.Context, tasks.Task) tasks.Outcome { panic("boom") }), "acme", "plugin")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		executor.Execute(t.Context(), tasks.Task{Class: "A"}, nil)
	}()
	must(t, tracer.Close(t.Context()))
	if got := c.one(t, "execute A").Status.GetMessage(); got != tasks.CategoryPanic {
		t.Errorf("the status is %q", got)
	}
}

func TestDeadlinesAndCausesReachTheExecutor(t *testing.T) {
	c := startCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.url)
	tracer, err := tracing.Start("1", zerolog.Nop())
	must(t, err)
	defer tracer.Close(t.Context())
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	asked := false
	executor := tracer.Executor(asks{func(ctx context.Context) {
		if context.Cause(ctx) != why {
			t.Errorf("the cause is %v", context.Cause(ctx))
		}
	}}, "acme", "plugin")
	executor.Execute(ctx, tasks.Task{Class: "A"}, func(time.Duration) { asked = true })
	if !asked || executor.Ready("B") {
		t.Error("the executor is not asked itself")
	}
}

// asks is an executor that requires a lease.
type asks struct{ look func(context.Context) }

func (asks) Ready(class string) bool { return class == "A" }

func (a asks) Execute(ctx context.Context, _ tasks.Task, require func(time.Duration)) tasks.Outcome {
	require(time.Hour)
	a.look(ctx)
	return tasks.Outcome{Kind: tasks.Succeeded}
}
