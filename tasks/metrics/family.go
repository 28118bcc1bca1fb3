package metrics

import "github.com/prometheus/client_golang/prometheus"

// family is everything that is counted as it happens.
type family struct {
	build *prometheus.GaugeVec

	leases, settled, lost, revived, storeErrors, storeRetries *prometheus.CounterVec
	pickup, execution                                         *prometheus.HistogramVec

	requests    *prometheus.CounterVec
	requestTime *prometheus.HistogramVec
	calls       *prometheus.CounterVec
	callTime    *prometheus.HistogramVec
}

// Buckets, in seconds. The queue counts in whole seconds, so nothing is picked up
// in less than one but within the same.
var (
	pickupBuckets    = []float64{0, 1, 2, 5, 10, 30, 60, 300, 1800, 7200}
	executionBuckets = []float64{0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120, 600, 3600}
	requestBuckets   = []float64{0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30}
)

func newFamily() family {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	return family{
		build: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gantry_build_info",
			Help: "Always 1; the labels tell which Gantry this is and what it was built with."}, []string{"version", "goversion"}),
		leases: counter("gantry_tasks_leased_total",
			"Tasks that were leased: by the runtime of this process, or by callers of the API.", "instance", "class", "by"),
		settled: counter("gantry_tasks_settled_total",
			"Leases that ended, by what ran the task and how it ended: succeeded, yielded, retry, failed, crashed or released.",
			"instance", "class", "route", "outcome"),
		lost: counter("gantry_leases_lost_total",
			"Leases that ended under whoever held them: the task was cancelled, freed or taken by somebody else, and nothing was settled.", "instance", "class"),
		revived: counter("gantry_leases_revived_total",
			"Leases that had expired or had been swept, as by `phd start`, and were renewed before anybody took them.", "instance"),
		pickup: histogram("gantry_task_pickup_seconds",
			"How long tasks had been due when they were leased, by the clock of the store, which counts in whole seconds.", pickupBuckets, "instance", "class"),
		execution: histogram("gantry_task_execution_seconds",
			"How long tasks ran, whatever came of it.", executionBuckets, "instance", "class", "route"),
		storeErrors: counter("gantry_store_errors_total",
			"Calls of the runtime that the store answered with an error, or not at all: lease, renew or settle. They are made again.", "instance", "call"),
		storeRetries: counter("gantry_store_retries_total",
			"Transactions that a store tried again: after a deadlock, after waiting for a lock in vain (lock_wait), because others write (busy), or because the connection was lost.",
			"instance", "reason"),
		requests: counter("gantry_api_requests_total",
			"Calls of the API by method and path and by the HTTP status of the answer.", "instance", "route", "status"),
		requestTime: histogram("gantry_api_request_duration_seconds",
			"How long calls of the API took, waiting for tasks included.", requestBuckets, "instance", "route"),
		calls: counter("gantry_gateway_calls_total",
			"Calls through the gateway by the application of the Conduit method and by the HTTP status of the answer.", "application", "status"),
		callTime: histogram("gantry_gateway_call_duration_seconds",
			"How long calls through the gateway took.", requestBuckets, "application"),
	}
}

func (f *family) all() []prometheus.Collector {
	return []prometheus.Collector{
		f.build, f.leases, f.settled, f.lost, f.revived, f.pickup, f.execution, f.storeErrors, f.storeRetries,
		f.requests, f.requestTime, f.calls, f.callTime,
	}
}
