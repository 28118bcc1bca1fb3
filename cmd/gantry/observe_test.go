package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/phorge-gantry/gantry/bridge/pool"
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// TestObserved runs the built program as Prometheus and an OpenTelemetry
// collector see it.
func TestObserved(t *testing.T) {
	dir := t.TempDir()
	build(t, dir)
	t.Run("a queue in one file", func(t *testing.T) { isObserved(newPlace(t, dir), "default") })
	t.Run("the queue of a Phorge", func(t *testing.T) {
		s := newSite(t, dir)
		isObserved(s, s.namespace())
	})
	t.Run("several instances and tokens", func(t *testing.T) { instancesAreApart(newPlace(t, dir)) })
	t.Run("a collector that is none", func(t *testing.T) { badCollector(newPlace(t, dir)) })
}

var answersAt = regexp.MustCompile(`"address":"([^"]+)".*"message":"answering Prometheus"`)

// metricsAt answers where a program answers Prometheus.
func (s *site) metricsAt(r *running) (address string) {
	s.t.Helper()
	harness.Eventually(s.t, "it answers Prometheus", func() bool {
		found := answersAt.FindStringSubmatch(r.err.String())
		if found != nil {
			address = found[1]
		}
		return found != nil
	})
	return address
}

// namespace answers the one of the worker database.
func (s *site) namespace() string {
	s.t.Helper()
	var database string
	if err := s.db.QueryRow("SELECT DATABASE()").Scan(&database); err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSuffix(database, "_worker")
}

// spans is what a collector received.
type spans struct {
	mu   sync.Mutex
	text strings.Builder
}

func (c *spans) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Write(body)
}

func (c *spans) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// metrics answers the page that Prometheus reads.
func (c client) metrics() (status int, page string) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url+"/metrics", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer.StatusCode, string(content)
}

const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"

// traced queues a task as a part of a trace.
func (c client) traced(body string) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url+"/api/queue/enqueue", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Traceparent", "00-"+traceID+"-00f067aa0ba902b7-01")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		c.t.Fatalf("answered %d", answer.StatusCode)
	}
}

func isObserved(s *site, instance string) {
	seen := &spans{}
	collector := httptest.NewServer(seen)
	defer collector.Close()
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL)
	plugins := manifestOf(s.t, filepath.Join(s.dir, "handler-testworker"), "PhabricatorTestWorker", "{}")
	socket := filepath.Join(s.t.TempDir(), "s")
	run := s.start("run", "--plugins="+plugins, "--api=127.0.0.1:0", "--socket="+socket, "--php=off", "--slots=5", "--metrics=127.0.0.1:0")
	c := run.client("")
	c.traced(`{"taskClass":"PhabricatorTestWorker","data":"{}"}`)
	settled := fmt.Sprintf(`gantry_tasks_settled_total{class="PhabricatorTestWorker",instance=%q,outcome="succeeded",route="plugin"} 1`, instance)
	var page string
	harness.Eventually(s.t, "the task is counted", func() bool {
		_, page = c.metrics()
		return strings.Contains(page, settled)
	})
	_, whole, err := ask(s.t.Context(), socket, "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	status, open := client{s.t, "http://" + s.metricsAt(run), ""}.metrics()
	if status != http.StatusOK {
		s.t.Errorf("Prometheus is answered %d", status)
	}
	for _, want := range []string{
		fmt.Sprintf("gantry_queue_up{instance=%q} 1\n", instance),
		fmt.Sprintf("gantry_slots{instance=%q} 5\n", instance),
		fmt.Sprintf("gantry_plugin_processes{instance=%q,state=\"ready\"} 1\n", instance),
		fmt.Sprintf(`gantry_tasks_leased_total{by="runtime",class="PhabricatorTestWorker",instance=%q} 1`, instance),
		fmt.Sprintf(`gantry_api_requests_total{instance=%q,route="POST /api/queue/enqueue",status="200"} 1`, instance),
		"gantry_build_info{", "process_open_fds",
	} {
		if !strings.Contains(string(whole), want) {
			s.t.Errorf("the socket lacks %s", want)
		}
		if !strings.Contains(open, want) {
			s.t.Errorf("the address for Prometheus lacks %s", want)
		}
		if !strings.Contains(page, want) {
			s.t.Errorf("the API lacks %s", want)
		}
	}
	run.signal()
	if got := run.wait(); got.code != exitOK {
		s.t.Fatalf("exit code %d, %s", got.code, got.err)
	}
	id, err := hex.DecodeString(traceID)
	if err != nil {
		s.t.Fatal(err)
	}
	sent := seen.String()
	for _, name := range []string{"enqueue " + instance, "execute PhabricatorTestWorker"} {
		if !strings.Contains(sent, name) {
			s.t.Errorf("there is no span %s", name)
		}
	}
	if n := strings.Count(sent, string(id)); n != 2 {
		s.t.Errorf("%d spans are a part of the caller's trace, want 2", n)
	}
}

func instancesAreApart(s *site) {
	dir := s.t.TempDir()
	s.configure(fmt.Sprintf("instances:\n  alpha: {sqlite: %s/a}\n  beta: {sqlite: %[1]s/b}\ntokens: %[1]s/tokens.yaml\n", dir))
	reader := s.newToken("reader", "--instance=alpha", "--rights=read")
	worker := s.newToken("worker", "--instance=alpha", "--rights=work")
	serve := s.start("serve", "--api=127.0.0.1:0")
	if status, page := serve.client(reader).metrics(); status != http.StatusOK ||
		!strings.Contains(page, `gantry_queue_up{instance="alpha"} 1`) || strings.Contains(page, "beta") {
		s.t.Errorf("a reader of alpha is answered %d\n%s", status, page)
	}
	if status, _ := serve.client(worker).metrics(); status != http.StatusForbidden {
		s.t.Errorf("who may not read is answered %d", status)
	}
	if status, _ := serve.client("").metrics(); status != http.StatusUnauthorized {
		s.t.Errorf("who has no token is answered %d", status)
	}
	serve.signal()
	if got := serve.wait(); got.code != exitOK {
		s.t.Errorf("exit code %d, %s", got.code, got.err)
	}
}

func badCollector(s *site) {
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT=user:hunter2@collector")
	serve := s.start("serve", "--api=127.0.0.1:0")
	serve.client("").want(`"id":1,`, "/api/queue/enqueue", greet)
	serve.signal()
	if got := serve.wait(); got.code != exitOK || !strings.Contains(got.err, "OTEL_EXPORTER_OTLP_ENDPOINT must be the URL") || strings.Contains(got.err, "hunter2") {
		s.t.Errorf("exit code %d, %s", got.code, got.err)
	}
}

func TestStatesOfProcessesAreCounted(t *testing.T) {
	got := pluginStates([]host.Status{{State: host.Ready}, {State: host.Backoff, Alone: &host.Status{State: host.Ready}}})
	if got["ready"] != 2 || got["backoff"] != 1 || got["stopped"] != 0 || len(got) != 5 {
		t.Errorf("plugins are counted as %v", got)
	}
	got = poolStates(pool.State{Processes: []pool.Process{{Phase: pool.Idle}, {Phase: pool.Busy}, {Phase: pool.Busy}}})
	if got["idle"] != 1 || got["busy"] != 2 || got["failed"] != 0 || len(got) != 6 {
		t.Errorf("PHP processes are counted as %v", got)
	}
}

func TestCheckLooksAtTheVariablesOfTraces(t *testing.T) {
	if got := checkTraces(); got != nil {
		t.Errorf("without any it finds %v", got)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:hunter2@collector:4318")
	if got := checkTraces(); len(got) != 1 || got[0].Level != ok || strings.Contains(got[0].Message, "hunter2") {
		t.Errorf("with a collector it finds %v", got)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	if got := checkTraces(); len(got) != 1 || got[0].Level != problem {
		t.Errorf("with another protocol it finds %v", got)
	}
}
