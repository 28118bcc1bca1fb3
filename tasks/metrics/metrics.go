package metrics

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// maxClasses and maxMethods bound the values of labels that come from
	// outside, of each instance.
	maxClasses = 100
	maxMethods = 100
)

// Metrics is what one process counts. Its methods may be called at the same
// time.
type Metrics struct {
	registry *prometheus.Registry
	family

	mu        sync.RWMutex
	instances map[string]*Instance

	methods *bounded
}

// New answers metrics of nothing yet, but of the process.
func New(version string) *Metrics {
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		family:    newFamily(),
		instances: map[string]*Instance{},
		methods:   newBounded(maxMethods),
	}
	m.registry.MustRegister(m.family.all()...)
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), (*states)(m))
	m.build.WithLabelValues(version, runtime.Version()).Set(1)
	return m
}

// Instance answers what counts for the queue of that name, always the same. The
// classes that are known are told apart however many others there are.
func (m *Metrics) Instance(name string, known ...string) *Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.instances[name]
	if i == nil {
		i = newInstance(name, &m.family)
		m.instances[name] = i
	}
	i.classes.know(known...)
	return i
}

// instance answers an instance that is there, or makes it.
func (m *Metrics) instance(name string) *Instance {
	m.mu.RLock()
	i := m.instances[name]
	m.mu.RUnlock()
	if i != nil {
		return i
	}
	return m.Instance(name)
}

func (m *Metrics) all() []*Instance {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var all []*Instance
	for _, name := range slices.Sorted(maps.Keys(m.instances)) {
		all = append(all, m.instances[name])
	}
	return all
}

// Close returns when no store is asked any more, and none is from then on. It
// may be called any number of times, before the stores are closed.
func (m *Metrics) Close() {
	for _, i := range m.all() {
		i.sample.close()
	}
}

// Answered, Leased and Settled implement Observer of tasks/queueapi.
func (m *Metrics) Answered(instance, route string, status int, took time.Duration) {
	if route == "" {
		route = other
	}
	m.requests.WithLabelValues(instance, route, strconv.Itoa(status)).Inc()
	m.requestTime.WithLabelValues(instance, route).Observe(took.Seconds())
}

// Leased: see Answered.
func (m *Metrics) Leased(instance string, task tasks.Task, leaseTime time.Duration) {
	i := m.instance(instance)
	i.remember(task)
	i.leased("api", task, leaseTime)
}

// Settled: see Answered.
func (m *Metrics) Settled(instance string, s tasks.Settlement) {
	i := m.instance(instance)
	i.ended(i.recall(s), s.Route, s.Outcome.Kind, s.Outcome.Duration)
}

// Called counts a call through the gateway. Of its method only what stands before
// the first dot is a label, the application.
func (m *Metrics) Called(method string, status int, took time.Duration) {
	application, _, _ := strings.Cut(method, ".")
	label := m.methods.label(application)
	m.calls.WithLabelValues(label, strconv.Itoa(status)).Inc()
	m.callTime.WithLabelValues(label).Observe(took.Seconds())
}

// Page answers the text that Prometheus reads, and its media type. Of the
// metrics of instances only those of one are in it, all of them when it is "".
func (m *Metrics) Page(ctx context.Context, instance string) (page []byte, mime string, err error) {
	families, err := m.registry.Gather()
	if err != nil && len(families) == 0 {
		return nil, "", fmt.Errorf("gather metrics: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, format)
	for _, family := range families {
		if instance != "" {
			family.Metric = slices.DeleteFunc(family.Metric, func(one *dto.Metric) bool { return isOfAnother(one, instance) })
		}
		if len(family.Metric) == 0 {
			continue
		}
		if err := encoder.Encode(family); err != nil {
			return nil, "", fmt.Errorf("write metrics: %w", err)
		}
	}
	return text.Bytes(), string(format), nil
}

func isOfAnother(metric *dto.Metric, instance string) bool {
	for _, label := range metric.Label {
		if label.GetName() == "instance" {
			return label.GetValue() != "" && label.GetValue() != instance
		}
	}
	return false
}

// ServeHTTP answers the page of all instances. Whoever may connect may read it.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page, mime, err := m.Page(r.Context(), "")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mime)
	w.Write(page)
}
