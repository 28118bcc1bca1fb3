package tracing_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/embedded"
	"github.com/phorge-gantry/gantry/tasks/queueapi"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tasks/tracing"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
	theirs  = "00-" + traceID + "-" + spanID + "-01"
)

// line is an API, a store and a runtime, traced together.
type line struct {
	*testing.T
	store  *embedded.Store
	tracer *tracing.Tracer
	url    string
}

func startLine(t *testing.T, work tasks.ExecutorFunc) *line {
	t.Helper()
	tracer, err := tracing.Start("1.2.3", zerolog.Nop())
	must(t, err)
	store, err := embedded.Open(t.Context(), embedded.Config{Path: filepath.Join(t.TempDir(), "queue.db")})
	must(t, err)
	api, err := queueapi.New(queueapi.Config{Instances: map[string]queueapi.Instance{"acme": {Store: store}}, Tracer: tracer})
	must(t, err)
	served := httptest.NewServer(api)
	rt, err := runtime.New(runtime.Config{Store: store, Others: &runtime.Class{Executor: tracer.Executor(work, "acme", "plugin"), Route: "plugin"}})
	must(t, err)
	must(t, rt.Start())
	t.Cleanup(func() {
		rt.Close()
		served.Close()
		http.DefaultClient.CloseIdleConnections()
		api.Close()
		store.Close()
	})
	return &line{t, store, tracer, served.URL}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// enqueue queues a task over HTTP and answers its id.
func (l *line) enqueue(class, traceparent string) int64 {
	l.Helper()
	body := `{"taskClass":"` + class + `","data":"{\"secret\":\"hunter2\"}"}`
	req, err := http.NewRequestWithContext(l.Context(), http.MethodPost, l.url+"/api/queue/enqueue", strings.NewReader(body))
	must(l.T, err)
	req.Header.Set("Content-Type", "application/json")
	if traceparent != "" {
		req.Header.Set("traceparent", traceparent)
	}
	response, err := http.DefaultClient.Do(req)
	must(l.T, err)
	defer response.Body.Close()
	var answer struct{ Data struct{ ID int64 } }
	must(l.T, json.NewDecoder(response.Body).Decode(&answer))
	if response.StatusCode != http.StatusOK {
		l.Fatalf("answered %d", response.StatusCode)
	}
	return answer.Data.ID
}

// archived waits until so many tasks are done.
func (l *line) archived(n int) {
	l.Helper()
	end := time.NewTimer(30 * time.Second)
	defer end.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		counted, err := l.store.CountArchived(l.Context())
		must(l.T, err)
		if counted.Succeeded+counted.Failed >= n {
			return
		}
		select {
		case <-tick.C:
		case <-end.C:
			l.Fatalf("%+v within 30 seconds, want %d", counted, n)
		}
	}
}

func id(of []byte) string { return hex.EncodeToString(of) }

// one answers the one span of a name.
func (c *collector) one(t *testing.T, name string) *otlp.Span {
	t.Helper()
	found := c.named(name)
	if len(found) != 1 {
		t.Fatalf("there are %d spans called %s, want one", len(found), name)
	}
	return found[0]
}

func TestEnqueueAndExecutionShareATraceFromTheAPIThroughTheStoreToTheRuntime(t *testing.T) {
	c := startCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.url)
	l := startLine(t, func(ctx context.Context, task tasks.Task) tasks.Outcome {
		if task.Class == "Parent" {
			return tasks.Outcome{Kind: tasks.Succeeded, FollowUps: []tasks.NewTask{{Class: "Child", Data: []byte("1")}}}
		}
		return tasks.Outcome{Kind: tasks.Failed, Category: "permanent", Reason: "the password is hunter2"}
	})
	l.enqueue("Parent", theirs)
	l.archived(2)
	must(t, l.tracer.Close(t.Context()))

	enqueued, parent, child := c.one(t, "enqueue acme"), c.one(t, "execute Parent"), c.one(t, "execute Child")
	for _, s := range []struct {
		what         string
		span         *otlp.Span
		parent, kind string
		code         otlp.Status_StatusCode
	}{
		{"the enqueue", enqueued, spanID, "SPAN_KIND_PRODUCER", otlp.Status_STATUS_CODE_UNSET},
		{"the execution", parent, id(enqueued.SpanId), "SPAN_KIND_CONSUMER", otlp.Status_STATUS_CODE_UNSET},
		{"the follow-up", child, id(parent.SpanId), "SPAN_KIND_CONSUMER", otlp.Status_STATUS_CODE_ERROR},
	} {
		if got := id(s.span.TraceId); got != traceID {
			t.Errorf("%s is in the trace %s, want that of the caller", s.what, got)
		}
		if got := id(s.span.ParentSpanId); got != s.parent {
			t.Errorf("%s is a child of %s, want %s", s.what, got, s.parent)
		}
		if s.span.Kind.String() != s.kind || s.span.Status.GetCode() != s.code {
			t.Errorf("%s is a %s with the status %v", s.what, s.span.Kind, s.span.Status)
		}
		if strings.Contains(s.span.String(), "hunter2") {
			t.Errorf("%s tells what is in the task or why it failed: %v", s.what, s.span)
		}
	}
	for key, want := range map[string]string{
		"messaging.system": "gantry", "messaging.operation.name": "execute", "messaging.destination.name": "acme",
		"gantry.task.class": "Child", "gantry.route": "plugin", "gantry.task.outcome": "failed",
	} {
		if got := attribute(child, key); got != want {
			t.Errorf("the follow-up has %s %q, want %q", key, got, want)
		}
	}
	if c.about["service.name"] != "gantry" || c.about["service.version"] != "1.2.3" {
		t.Errorf("the spans are said to be of %v", c.about)
	}
}

func TestEachAttemptIsASpanOfTheSameTrace(t *testing.T) {
	c := startCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.url+"/v1/traces")
	attempts := 0
	l := startLine(t, func(context.Context, tasks.Task) tasks.Outcome {
		if attempts++; attempts == 1 {
			return tasks.Outcome{Kind: tasks.Retry, Wait: -10 * time.Second}
		}
		return tasks.Outcome{Kind: tasks.Succeeded}
	})
	l.enqueue("A", "") // nobody traces it yet
	l.archived(1)
	must(t, l.tracer.Close(t.Context()))
	runs, enqueued := c.named("execute A"), c.one(t, "enqueue acme")
	if len(runs) != 2 || id(enqueued.ParentSpanId) != "" {
		t.Fatalf("there are %d executions, and the enqueue is a child of %q", len(runs), id(enqueued.ParentSpanId))
	}
	for i, want := range []string{"retry", "succeeded"} {
		if id(runs[i].TraceId) != id(enqueued.TraceId) || id(runs[i].ParentSpanId) != id(enqueued.SpanId) {
			t.Errorf("execution %d is in another trace", i)
		}
		if got := attribute(runs[i], "gantry.task.outcome"); got != want {
			t.Errorf("execution %d ended with %q, want %q", i, got, want)
		}
	}
}

func TestWhatIsNotSampledIsNotSent(t *testing.T) {
	c := startCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.url)
	seen := make(chan string, 1)
	l := startLine(t, func(_ context.Context, task tasks.Task) tasks.Outcome {
		seen <- task.Traceparent
		return tasks.Outcome{Kind: tasks.Succeeded}
	})
	l.enqueue("A", theirs[:53]+"00")
	l.archived(1)
	must(t, l.tracer.Close(t.Context()))
	if got := <-seen; !strings.HasPrefix(got, "00-"+traceID) || !strings.HasSuffix(got, "-00") {
		t.Errorf("the task runs with the trace context %q", got)
	}
	if n := len(c.spans); n != 0 {
		t.Errorf("%d spans were sent", n)
	}
}
