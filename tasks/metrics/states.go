package metrics

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// states collects what is looked up when it is asked for.
type states Metrics

var (
	queueUp = describe("gantry_queue_up",
		"1 when the latest look at the queue worked, else 0.", "instance")
	queueTasks = describe("gantry_queue_tasks",
		"Tasks in the queue: ready to be leased, leased, or waiting to be tried again or for their time. Counting stops at 10000 a class.", "instance", "class", "state")
	queueFailing = describe("gantry_queue_failing_tasks",
		"Tasks in the queue that failed at least once. Counting stops at 10000 a class.", "instance", "class")
	queueOldest = describe("gantry_queue_oldest_due_seconds",
		"How long the task that has been due for longest has been so, among the 1000 with the lowest ids; 0 when none is due.", "instance")
	queueSampled = describe("gantry_queue_sample_timestamp_seconds",
		"When the queue was last looked at, by the clock of this host.", "instance")
	slotsOf = describe("gantry_slots",
		"How many tasks the runtime may run at the same time.", "instance")
	runningOf = describe("gantry_tasks_running",
		"Tasks that the runtime runs now.", "instance")
	heldOf = describe("gantry_tasks_held",
		"Tasks that the runtime holds under a lease, in whatever state.", "instance")
	poolProcesses = describe("gantry_pool_processes",
		"PHP processes of the pool: starting, idle, busy, leaving, stopped or failed.", "instance", "state")
	pluginProcesses = describe("gantry_plugin_processes",
		"Processes of handler binaries: stopped, starting, ready, draining or backoff.", "instance", "state")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (s *states) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		queueUp, queueTasks, queueFailing, queueOldest, queueSampled, slotsOf, runningOf, heldOf, poolProcesses, pluginProcesses,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *states) Collect(to chan<- prometheus.Metric) {
	all := (*Metrics)(s).all()
	for _, i := range all { // at the same time
		i.sample.begin(time.Now())
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	for _, i := range all {
		g := gauges{to, i.name}
		i.collectQueue(ctx, g)
		i.mu.Lock()
		slots, kinds := i.slots, maps.Clone(i.states)
		i.mu.Unlock()
		if slots != nil {
			most, running, held := slots()
			g.set(slotsOf, float64(most))
			g.set(runningOf, float64(running))
			g.set(heldOf, float64(held))
		}
		for kind, desc := range map[string]*prometheus.Desc{"pool": poolProcesses, "plugin": pluginProcesses} {
			if kinds[kind] == nil {
				continue
			}
			for state, n := range kinds[kind]() {
				g.set(desc, float64(n), state)
			}
		}
	}
}

// gauges sends values of one instance.
type gauges struct {
	to       chan<- prometheus.Metric
	instance string
}

func (g gauges) set(desc *prometheus.Desc, value float64, labels ...string) {
	g.to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{g.instance}, labels...)...)
}

// queued is the tasks of one label.
type queued struct{ ready, leased, waiting, failing int }

func (i *Instance) collectQueue(ctx context.Context, g gauges) {
	last, up, known := i.sample.get(ctx)
	if !known {
		return
	}
	value := 0.0
	if up {
		value = 1
	}
	g.set(queueUp, value)
	if last == nil {
		return
	}
	g.set(queueSampled, float64(last.taken.UnixMilli())/1000)
	g.set(queueOldest, float64(last.oldest))
	sums := map[string]queued{}
	for _, c := range last.Classes {
		label := i.classes.label(c.Class)
		sum := sums[label]
		sum.ready += max(0, c.Active-c.Leased-c.Waiting)
		sum.leased += c.Leased
		sum.waiting += c.Waiting
		sum.failing += c.Failing
		sums[label] = sum
	}
	for _, label := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[label]
		g.set(queueTasks, float64(sum.ready), label, "ready")
		g.set(queueTasks, float64(sum.leased), label, "leased")
		g.set(queueTasks, float64(sum.waiting), label, "waiting")
		g.set(queueFailing, float64(sum.failing), label)
	}
}
