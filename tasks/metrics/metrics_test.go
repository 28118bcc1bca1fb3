package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/queueapi"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

var (
	_ runtime.Observer  = (*Instance)(nil)
	_ queueapi.Observer = (*Metrics)(nil)
)

// page reads what Prometheus would read.
func page(t *testing.T, m *Metrics, instance string) map[string]*dto.MetricFamily {
	t.Helper()
	text, mime, err := m.Page(t.Context(), instance)
	if err != nil || !strings.HasPrefix(mime, "text/plain; version=0.0.4") {
		t.Fatalf("%s: %v", mime, err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return families
}

// values are the values of one metric by its labels, without the instance; of a
// histogram its count.
func values(t *testing.T, m *Metrics, name string) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	family := page(t, m, "")[name]
	for _, one := range family.GetMetric() {
		var labels []string
		for _, l := range one.Label {
			if l.GetName() != "instance" {
				labels = append(labels, l.GetValue())
			}
		}
		value := one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
		found[strings.Join(labels, " ")] += value
	}
	return found
}

func has(t *testing.T, m *Metrics, name string, want map[string]float64) {
	t.Helper()
	if got := values(t, m, name); !maps.Equal(got, want) {
		t.Errorf("%s is %v, want %v", name, got, want)
	}
}

// busy are metrics of everything that there is.
func busy(t *testing.T) *Metrics {
	t.Helper()
	m := New("1.2.3")
	t.Cleanup(m.Close)
	for _, name := range []string{"acme", "zeta"} {
		i := m.Instance(name, "A")
		store := storetest.NewMemory(func() int64 { return 2_000_000_000 })
		if _, err := store.Enqueue(t.Context(), []tasks.NewTask{{Class: "A", Data: []byte("1")}}); err != nil {
			t.Fatal(err)
		}
		i.Queue(store)
		i.Concurrency(func() (int, int, int) { return 8, 2, 5 })
		i.Pool(func() map[string]int { return map[string]int{"idle": 1, "busy": 0} })
		i.Plugins(func() map[string]int { return map[string]int{"ready": 1} })
		i.Leased(tasks.Task{ID: 1, Class: "A", DateModified: 100, Lease: &tasks.Lease{Expires: 163}}, time.Minute)
		i.Ended("A", "plugin", tasks.Succeeded, time.Second)
		i.Ended("A", "plugin", tasks.Lost, 0)
		i.Revived(3)
		i.StoreFailed("lease")
		i.Repeated("deadlock")
		m.Answered(name, "POST /api/queue/lease", http.StatusOK, time.Millisecond)
	}
	m.Answered("", "", http.StatusNotFound, time.Millisecond)
	m.Called("maniphest.search", http.StatusOK, time.Second)
	return m
}

// ours are the families that are not those of the process.
func ours(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	families := page(t, m, "")
	maps.DeleteFunc(families, func(name string, _ *dto.MetricFamily) bool { return !strings.HasPrefix(name, "gantry_") })
	return families
}

func TestNamesFollowTheConventionsOfPrometheus(t *testing.T) {
	var families []*dto.MetricFamily
	for _, f := range ours(t, busy(t)) {
		families = append(families, f)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
	if len(families) < 20 {
		t.Fatalf("only %d metrics were looked at", len(families))
	}
}

func TestTableOfTheREADMEIsThatOfTheRegistry(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) == 5 && strings.HasPrefix(cells[1], " `gantry_") {
			told[strings.Trim(cells[1], " `")] = strings.ReplaceAll(strings.TrimSpace(cells[2]), "`", "")
		}
	}
	counted := map[string]string{}
	for name, f := range ours(t, busy(t)) {
		labels := map[string]bool{}
		for _, one := range f.Metric {
			for _, l := range one.Label {
				labels[l.GetName()] = true
			}
		}
		counted[name] = strings.Join(slices.Sorted(maps.Keys(labels)), ", ")
	}
	for name, labels := range counted {
		if told[name] != labels {
			t.Errorf("%s has the labels %q; the README says %q", name, labels, told[name])
		}
	}
	for name := range told {
		if _, ok := counted[name]; !ok {
			t.Errorf("the README has %s, and there is no such metric", name)
		}
	}
}

func TestPageOfAnInstanceHasNothingOfAnother(t *testing.T) {
	m := busy(t)
	all, _, err := m.Page(t.Context(), "")
	if err != nil || !bytes.Contains(all, []byte(`instance="zeta"`)) {
		t.Fatal(err, string(all))
	}
	one, _, err := m.Page(t.Context(), "acme")
	if err != nil || bytes.Contains(one, []byte("zeta")) {
		t.Errorf("%v\n%s", err, one)
	}
	for _, want := range []string{`instance="acme"`, "go_goroutines", "process_", "gantry_build_info", "gantry_gateway_calls_total", `instance="",route="other"`} {
		if !bytes.Contains(one, []byte(want)) {
			t.Errorf("the page of an instance lacks %s", want)
		}
	}
}

func TestClassesBeyondTheBoundAreCountedTogether(t *testing.T) {
	m := New("1")
	i := m.Instance("acme", "Known")
	for n := range 10 * maxClasses {
		i.Ended(fmt.Sprintf("Class%d", n), "plugin", tasks.Succeeded, time.Second)
	}
	i.Ended("Known", "plugin", tasks.Succeeded, time.Second)
	i.Ended("\xff", "plugin", tasks.Succeeded, time.Second)
	m.Instance("acme", "LaterKnown")
	i.Ended("LaterKnown", "plugin", tasks.Succeeded, time.Second)
	got := values(t, m, "gantry_tasks_settled_total")
	if n := len(got); n != maxClasses+3 {
		t.Errorf("there are %d classes, want %d that were seen first, two that are known, and the others", n, maxClasses)
	}
	for labels, want := range map[string]float64{
		"Class0 succeeded plugin": 1, "Known succeeded plugin": 1, "LaterKnown succeeded plugin": 1, "other succeeded plugin": 9*maxClasses + 1,
	} {
		if got[labels] != want {
			t.Errorf("%s is %v, want %v", labels, got[labels], want)
		}
	}
}

func TestWhatIsNoUTF8IsCountedAllTheSame(t *testing.T) {
	m := New("1")
	m.Instance("acme").Ended("A\xff", "pool", tasks.Failed, 0)
	m.Instance("acme").Ended("", "", tasks.Released, time.Second)
	has(t, m, "gantry_tasks_settled_total", map[string]float64{"A\uFFFD failed pool": 1, "other released none": 1})
	has(t, m, "gantry_task_execution_seconds", map[string]float64{})
}

func TestPickupIsCountedByTheClockOfTheStore(t *testing.T) {
	for _, c := range []struct {
		what  string
		prior tasks.Place
		want  float64
	}{
		{"a new task", tasks.Place{}, 30},
		{"a delayed task", tasks.Place{Owner: new(tasks.DelayOwner), Expires: new(int64(1020))}, 10},
		{"a task whose holder died", tasks.Place{Owner: new("gantry:1:0:x:h"), Expires: new(int64(1025))}, 5},
		{"an awakened task", tasks.Place{Owner: new(tasks.YieldOwner), Expires: new(int64(-2000))}, 30},
	} {
		m := New("1")
		m.Instance("acme").Leased(tasks.Task{Class: "A", DateModified: 1000, Lease: &tasks.Lease{Expires: 1090, Prior: c.prior}}, time.Minute)
		got := page(t, m, "")["gantry_task_pickup_seconds"].Metric[0].Histogram.GetSampleSum()
		if got != c.want {
			t.Errorf("%s was picked up after %v s, want %v", c.what, got, c.want)
		}
	}
}

func TestSettlementsOfCallersAreCountedUnderTheClassThatTheyLeased(t *testing.T) {
	m := New("1")
	m.Leased("acme", tasks.Task{ID: 7, Class: "A", Lease: &tasks.Lease{Expires: 100}}, time.Minute)
	settled := func(id int64, kind tasks.Kind) {
		m.Settled("acme", tasks.Settlement{ID: id, Route: "api", Outcome: tasks.Outcome{Kind: kind}})
	}
	settled(7, tasks.Lost) // of somebody else's lease
	settled(7, tasks.Succeeded)
	settled(8, tasks.Retry) // leased from another process
	has(t, m, "gantry_tasks_leased_total", map[string]float64{"api A": 1})
	has(t, m, "gantry_tasks_settled_total", map[string]float64{"A succeeded api": 1, "other retry api": 1})
	has(t, m, "gantry_leases_lost_total", map[string]float64{"A": 1})
	for id := range int64(3 * maxHeld) {
		m.Leased("acme", tasks.Task{ID: id, Class: "A"}, time.Minute)
	}
	if n := len(m.Instance("acme").held); n > maxHeld {
		t.Errorf("%d classes are remembered", n)
	}
}

func TestCallsOfTheGatewayAreCountedByApplication(t *testing.T) {
	m := New("1")
	m.Called("maniphest.search", 200, time.Second)
	m.Called("maniphest.edit", 200, time.Second)
	m.Called("user.whoami", 401, time.Second)
	for n := range 3 * maxMethods {
		m.Called(fmt.Sprintf("x%d.y", n), 404, time.Second)
	}
	got := values(t, m, "gantry_gateway_calls_total")
	if got["maniphest 200"] != 2 || got["user 401"] != 1 || len(got) != maxMethods+1 {
		t.Errorf("there are %d: %v", len(got), got)
	}
}

// watched is a store that counts how often it is looked at, and hangs or fails
// when it is told to.
type watched struct {
	tasks.Operator
	looks int
	hang  bool
	err   error
}

func (w *watched) Stats(ctx context.Context) (tasks.Stats, error) {
	w.looks++
	if w.hang {
		<-ctx.Done()
		return tasks.Stats{}, ctx.Err()
	}
	if w.err != nil {
		return tasks.Stats{}, w.err
	}
	return w.Operator.Stats(ctx)
}

func TestAQueueIsLookedAtOnceHoweverManyAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, store := watching(t)
		for range 20 {
			page(t, m, "")
		}
		if store.looks != 1 {
			t.Errorf("20 scrapes looked %d times at the queue", store.looks)
		}
		has(t, m, "gantry_queue_up", map[string]float64{"": 1})
		pass(sampleEvery)
		page(t, m, "")
		if store.looks != 2 {
			t.Errorf("after a while the queue was looked at %d times in all", store.looks)
		}
	})
}

// watching are metrics of a watched queue with a due task, a leased and a
// delayed one, two seconds later.
func watching(t *testing.T) (*Metrics, *watched) {
	t.Helper()
	memory := storetest.NewMemory(func() int64 { return time.Now().Unix() })
	_, err := memory.Enqueue(t.Context(), []tasks.NewTask{
		{Class: "A", Data: []byte("1")}, {Class: "A", Data: []byte("1")},
		{Class: "B", Data: []byte("1"), DelayUntil: time.Now().Unix() + 1000},
	})
	if err != nil {
		t.Fatal(err)
	}
	req := tasks.LeaseRequest{Limit: 1, Others: tasks.ClassRequest{Limit: 1, LeaseTime: time.Hour}}
	if leased, err := memory.Lease(t.Context(), req); err != nil || len(leased) != 1 {
		t.Fatal(leased, err)
	}
	pass(2 * time.Second)
	store := &watched{Operator: memory}
	m := New("1")
	m.Instance("acme").Queue(store)
	t.Cleanup(m.Close)
	return m, store
}

func TestDepthAndAgeAreThoseOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := watching(t)
		has(t, m, "gantry_queue_tasks", map[string]float64{
			"A ready": 1, "A leased": 1, "A waiting": 0, "B ready": 0, "B leased": 0, "B waiting": 1,
		})
		has(t, m, "gantry_queue_failing_tasks", map[string]float64{"A": 0, "B": 0})
		has(t, m, "gantry_queue_oldest_due_seconds", map[string]float64{"": 2})
		has(t, m, "gantry_queue_sample_timestamp_seconds", map[string]float64{"": float64(time.Now().UnixMilli()) / 1000})
	})
}

func TestAStoreThatHangsHoldsUpAScrapeForAMomentOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, store := watching(t)
		for n := range 10 { // they hang together, not one after the other
			m.Instance(fmt.Sprint("hangs", n)).Queue(&watched{hang: true})
		}
		page(t, m, "")
		store.hang = true
		pass(sampleEvery)
		began := time.Now()
		families := page(t, m, "acme")
		if took := time.Since(began); took > scrapeTime {
			t.Errorf("it took %v", took)
		}
		if up := families["gantry_queue_up"].Metric[0].Gauge.GetValue(); up != 0 {
			t.Error("a queue that cannot be looked at is said to be up")
		}
		if families["gantry_queue_tasks"] == nil {
			t.Error("what was seen last is not shown any more")
		}
		m.Close()
		if families := page(t, m, ""); families["gantry_queue_up"] != nil {
			t.Error("the queue is shown after Close")
		}
	})
}

func TestAStoreThatFailsIsShownAsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, store := watching(t)
		store.err = errors.New("no such host: secret")
		has(t, m, "gantry_queue_up", map[string]float64{"": 0})
		store.err = nil
		pass(sampleEvery)
		has(t, m, "gantry_queue_up", map[string]float64{"": 1})
	})
}

func TestMetricsAreServed(t *testing.T) {
	m := busy(t)
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || !strings.Contains(w.Body.String(), "gantry_slots") {
		t.Errorf("answered %d as %s", w.Code, w.Header().Get("Content-Type"))
	}
	has(t, m, "gantry_slots", map[string]float64{"": 16}) // of two instances
	has(t, m, "gantry_pool_processes", map[string]float64{"busy": 0, "idle": 2})
	has(t, m, "gantry_plugin_processes", map[string]float64{"ready": 2})
}

func BenchmarkObserver(b *testing.B) {
	i := New("1").Instance("acme")
	task := tasks.Task{Class: "A", Lease: &tasks.Lease{Expires: 100}}
	b.ReportAllocs()
	for b.Loop() {
		i.Leased(task, time.Minute)
		i.Ended("A", "plugin", tasks.Succeeded, time.Millisecond)
	}
}

// pass lets time pass, in a bubble of testing/synctest.
func pass(d time.Duration) { <-time.After(d) }
