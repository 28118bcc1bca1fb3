package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// row is one line of the table.
type row struct {
	name string
	unit string
	says string // what was measured

	phorge bool // it is measured on a Phorge

	// ratios names what the row is compared with: for each of compared the rows
	// of which the best counts.
	ratios  map[string][]string
	targets []target
	samples []float64
}

// target is a figure that is to be reached: of the rate, or of a ratio.
type target struct {
	of    string // "rate", or what the ratio is to
	least float64
	most  float64 // 0: there is no upper bound
}

// compared are the columns of ratios.
var compared = []string{"floor", "stock", "pool", "shallow", "ping", "single", "early", "nginx", "raw", "asynq"}

var (
	floors = []string{"drain_floor_1", "drain_floor_2", "drain_floor_4"}
	stocks = []string{"drain_stock_1", "drain_stock_4"}

	enqueueFloors = []string{"enqueue_floor_1", "enqueue_floor_2", "enqueue_floor_4"}
)

// table is what was measured.
type table struct{ rows []*row }

func newTable() *table {
	drained := map[string][]string{"floor": floors, "stock": stocks}
	return &table{[]*row{
		{name: "drain_floor_1", unit: "tasks/s", says: "the row changes alone, 1 connection"},
		{name: "drain_floor_2", unit: "tasks/s", says: "the row changes alone, 2 connections"},
		{name: "drain_floor_4", unit: "tasks/s", says: "the row changes alone, 4 connections"},
		{name: "drain_in_process", unit: "tasks/s", says: "runtime, executor in this process",
			ratios: drained, targets: []target{{of: "floor", least: 0.65}}},
		{name: "drain_plugin", unit: "tasks/s", says: "runtime, handler-testworker",
			ratios: drained, targets: []target{{of: "floor", least: 0.5}, {of: "stock", least: 15}}},
		{name: "drain_stock_1", phorge: true, unit: "tasks/s", says: "stock Phorge, 1 taskmaster"},
		{name: "drain_pool_1", phorge: true, unit: "tasks/s", says: "runtime, pool of 1 PHP process",
			ratios: map[string][]string{"floor": floors, "stock": stocks[:1]}, targets: []target{{of: "stock", least: 10}}},
		{name: "drain_stock_4", phorge: true, unit: "tasks/s", says: "stock Phorge, 4 taskmasters"},
		{name: "drain_pool_4", phorge: true, unit: "tasks/s", says: "runtime, pool of 4 PHP processes",
			ratios: map[string][]string{"floor": floors, "stock": stocks[1:]}, targets: []target{{of: "stock", least: 10}}},
		{name: "search_stock", phorge: true, unit: "tasks/s", says: "PhabricatorSearchWorker, forced, on Maniphest tasks: 1 taskmaster"},
		{name: "search_pool", phorge: true, unit: "tasks/s", says: "the same, pool of 1 PHP process",
			ratios: map[string][]string{"stock": {"search_stock"}}},
		{name: "webhook_pool_4", phorge: true, unit: "tasks/s", says: "HeraldWebhookWorker, 200 ms a call: pool of 4 PHP processes"},
		{name: "webhook_go", phorge: true, unit: "tasks/s", says: "the same, handler-herald, in as many slots as gantry run has",
			ratios: map[string][]string{"pool": {"webhook_pool_4"}}, targets: []target{{of: "pool", least: 10}}},
		{name: "pool_memory_early", phorge: true, unit: "MB", says: "a PHP process of the pool after 1,000 tasks"},
		{name: "pool_memory_late", phorge: true, unit: "MB", says: "the same after 20,000",
			ratios: map[string][]string{"early": {"pool_memory_early"}}, targets: []target{{of: "early", most: 1.05}}},

		{name: "ping_1", phorge: true, unit: "calls/s", says: "conduit.ping, 1 connection"},
		{name: "ping_4", phorge: true, unit: "calls/s", says: "conduit.ping, 4 connections"},
		{name: "conduit_1", phorge: true, unit: "tasks/s", says: "runtime, worker.execute, 1 task a call, 1 connection",
			ratios: map[string][]string{"ping": {"ping_1"}}, targets: []target{{of: "ping", least: 0.65}}},
		{name: "conduit_4", phorge: true, unit: "tasks/s", says: "runtime, worker.execute, 1 task a call, 4 connections",
			ratios: map[string][]string{"ping": {"ping_4"}, "stock": stocks}, targets: []target{{of: "ping", least: 0.75}}},
		{name: "conduit_20_a_call", phorge: true, unit: "tasks/s", says: "runtime, worker.execute, 20 tasks a call, 4 connections",
			ratios:  map[string][]string{"single": {"conduit_4"}, "stock": stocks},
			targets: []target{{of: "single", least: 8}, {of: "stock", least: 1}}},

		{name: "enqueue_floor_1", unit: "tasks/s", says: "the row changes alone in batches of 500, 1 connection"},
		{name: "enqueue_floor_2", unit: "tasks/s", says: "the row changes alone in batches of 500, 2 connections"},
		{name: "enqueue_floor_4", unit: "tasks/s", says: "the row changes alone in batches of 500, 4 connections"},
		{name: "enqueue_batched", unit: "tasks/s", says: "Enqueue in batches of 500, 4 callers",
			ratios: map[string][]string{
				"floor": enqueueFloors,
				"stock": {"enqueue_stock"},
			}, targets: []target{{of: "floor", least: 0.5}}},
		{name: "enqueue_single", unit: "tasks/s", says: "Enqueue of one, 1 caller",
			ratios: map[string][]string{"stock": {"enqueue_stock"}}},
		{name: "enqueue_stock", phorge: true, unit: "tasks/s", says: "PhabricatorWorker::scheduleTask, 1 process"},
		{name: "enqueue_raw_16", unit: "tasks/s", says: "a loop of statements: counter, commit, two inserts, commit; 16 connections"},
		{name: "enqueue_raw_16_at_once", unit: "tasks/s", says: "the same with one commit"},
		{name: "enqueue_rows_16", unit: "tasks/s", says: "the same without the counter: two inserts, commit"},
		{name: "enqueue_http_16", unit: "tasks/s", says: "gantry serve, enqueue of one task, 16 clients",
			ratios: map[string][]string{
				"raw":   {"enqueue_raw_16", "enqueue_raw_16_at_once"},
				"floor": {"enqueue_rows_16"},
			}, targets: []target{{of: "raw", least: 3}}},
		{name: "enqueue_http_batched", unit: "tasks/s", says: "gantry serve, enqueue of 500 tasks, 4 clients",
			ratios: map[string][]string{"floor": enqueueFloors}, targets: []target{{of: "floor", least: 0.5}}},
		{name: "work_http", unit: "tasks/s", says: "gantry serve, lease of 100 and settle of 100, 4 clients",
			ratios: map[string][]string{"floor": floors}},

		{name: "pickup_p50", unit: "ms", says: "from the commit of another process to the start, idle queue"},
		{name: "pickup_p99", unit: "ms", says: "the same", targets: []target{{of: "rate", most: 60}}},
		{name: "idle_database_cpu", unit: "% of a core", says: "mariadbd, more than without Gantry",
			targets: []target{{of: "rate", most: 1.5}}},

		{name: "proxy_nginx", unit: "calls/s", says: "through nginx proxy_pass to php-fpm, a script that does nothing, 16 connections"},
		{name: "proxy_gateway", unit: "calls/s", says: "the same through bridge/gateway",
			ratios: map[string][]string{"nginx": {"proxy_nginx"}}, targets: []target{{of: "nginx", least: 0.6}}},
		{name: "proxy_nginx_bare", unit: "calls/s", says: "through nginx proxy_pass to an nginx that answers by itself"},
		{name: "proxy_gateway_bare", unit: "calls/s", says: "the same through bridge/gateway",
			ratios: map[string][]string{"nginx": {"proxy_nginx_bare"}}},

		{name: "redis_enqueue_always", unit: "tasks/s", says: "Store on Redis, appendfsync always: Enqueue of one, 16 callers",
			ratios: map[string][]string{"asynq": {"asynq_enqueue_always"}}, targets: []target{{of: "asynq", least: 1}}},
		{name: "redis_batched_always", unit: "tasks/s", says: "the same, Enqueue of 500, 1 caller; asynq queues one at a time",
			ratios: map[string][]string{"asynq": {"asynq_enqueue_always"}}},
		{name: "asynq_enqueue_always", unit: "tasks/s", says: "asynq.Client on the same Redis, 16 callers"},
		{name: "redis_drain_always", unit: "tasks/s", says: "runtime on the same, executor in this process",
			ratios: map[string][]string{"asynq": {"asynq_drain_always"}}, targets: []target{{of: "asynq", least: 1}}},
		{name: "asynq_drain_always", unit: "tasks/s", says: "asynq.Server on the same, 64 at one time"},
		{name: "redis_enqueue_everysec", unit: "tasks/s", says: "Store on Redis, appendfsync everysec: Enqueue of one, 16 callers",
			ratios: map[string][]string{"asynq": {"asynq_enqueue_everysec"}}, targets: []target{{of: "asynq", least: 1}}},
		{name: "redis_batched_everysec", unit: "tasks/s", says: "the same, Enqueue of 500, 1 caller; asynq queues one at a time",
			ratios: map[string][]string{"asynq": {"asynq_enqueue_everysec"}}},
		{name: "asynq_enqueue_everysec", unit: "tasks/s", says: "asynq.Client on the same Redis, 16 callers"},
		{name: "redis_drain_everysec", unit: "tasks/s", says: "runtime on the same, executor in this process",
			ratios: map[string][]string{"asynq": {"asynq_drain_everysec"}}, targets: []target{{of: "asynq", least: 1}}},
		{name: "asynq_drain_everysec", unit: "tasks/s", says: "asynq.Server on the same, 64 at one time"},

		{name: "drain_shallow", unit: "tasks/s", says: "10,000 queued, none archived"},
		{name: "drain_deep", unit: "tasks/s", says: "1,000,000 queued, 2,000,000 archived",
			ratios: map[string][]string{"shallow": {"drain_shallow"}}, targets: []target{{of: "shallow", least: 0.8}}},
		{name: "lease_shallow", unit: "ms", says: "median Lease of 64, 10,000 queued, none archived"},
		{name: "lease_deep", unit: "ms", says: "median Lease of 64, 1,000,000 queued, 2,000,000 archived",
			ratios: map[string][]string{"shallow": {"lease_shallow"}}, targets: []target{{of: "shallow", most: 1.2}}},
		{name: "claim_thousand_mysql", unit: "ms", says: "median Lease of 8 on MariaDB, 1,000 queued"},
		{name: "claim_million_mysql", unit: "ms", says: "the same, 1,000,000 queued",
			ratios: map[string][]string{"shallow": {"claim_thousand_mysql"}}, targets: []target{{of: "shallow", most: 1.2}}},
		{name: "claim_thousand_sqlite", unit: "ms", says: "median Lease of 8 on SQLite, 1,000 queued"},
		{name: "claim_million_sqlite", unit: "ms", says: "the same, 1,000,000 queued",
			ratios: map[string][]string{"shallow": {"claim_thousand_sqlite"}}, targets: []target{{of: "shallow", most: 1.2}}},
		{name: "claim_thousand_redis", unit: "ms", says: "median Lease of 8 on Redis, 1,000 queued"},
		{name: "claim_million_redis", unit: "ms", says: "the same, 1,000,000 queued",
			ratios: map[string][]string{"shallow": {"claim_thousand_redis"}}, targets: []target{{of: "shallow", most: 1.2}}},
		{name: "memory_resident", unit: "MB", says: "gantry run, draining 1,000,000 queued"},
		{name: "memory_peak", unit: "MB", says: "the same, at its highest", targets: []target{{of: "rate", most: 80}}},
	}}
}

func (t *table) row(name string) *row {
	i := slices.IndexFunc(t.rows, func(r *row) bool { return r.name == name })
	if i < 0 {
		return nil
	}
	return t.rows[i]
}

// choose answers the named rows, comma separated, and those that they are
// compared with; all rows for "".
func (t *table) choose(names string) (map[string]bool, error) {
	chosen := map[string]bool{}
	if names == "" {
		for _, r := range t.rows {
			chosen[r.name] = true
		}
	}
	for name := range strings.SplitSeq(names, ",") {
		r := t.row(name)
		if r == nil && names != "" {
			return nil, fmt.Errorf("there is no row %q", name)
		}
		if r == nil {
			continue
		}
		chosen[name] = true
		for _, others := range r.ratios {
			for _, other := range others {
				chosen[other] = true
			}
		}
	}
	return chosen, nil
}

func (t *table) add(name string, value float64) {
	r := t.row(name)
	r.samples = append(r.samples, value)
}

// figure answers the median of a row, or its ratio to the best of others: the
// lowest of the medians over the rounds, each sample being compared with what
// was measured in the same round.
func (t *table) figure(r *row, of string) (value float64, known bool) {
	if len(r.samples) == 0 {
		return 0, false
	}
	if of == "rate" {
		return median(r.samples), true
	}
	for _, name := range r.ratios[of] {
		other := t.row(name).samples
		if len(other) != len(r.samples) {
			continue // there is no Phorge
		}
		ratios := make([]float64, len(other))
		for i, sample := range r.samples {
			ratios[i] = sample / other[i]
		}
		if ratio := median(ratios); !known || ratio < value {
			value, known = ratio, true
		}
	}
	return value, known
}

// verdict says what was asked of a row, and whether it was met.
func (t *table) verdict(r *row) (asked string, met *bool) {
	var parts []string
	for _, target := range r.targets {
		value, known := t.figure(r, target.of)
		of := r.unit
		if target.of != "rate" {
			of = "of " + target.of
		}
		bound, good := fmt.Sprintf("at least %g %s", target.least, of), value >= target.least
		if target.most > 0 {
			bound, good = fmt.Sprintf("at most %g %s", target.most, of), value <= target.most
		}
		parts = append(parts, bound)
		if known {
			good = good && (met == nil || *met)
			met = &good
		}
	}
	return strings.Join(parts, ", "), met
}

func (t *table) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "row\tmedian\tlowest to highest\tunit\tof %s\tasked\tmet\twhat\n", strings.Join(compared, "\tof "))
	for _, r := range t.rows {
		if len(r.samples) == 0 {
			continue
		}
		asked, met := t.verdict(r)
		answer := ""
		if met != nil {
			answer = map[bool]string{true: "yes", false: "NO"}[*met]
		}
		var ratios []string
		for _, of := range compared {
			ratios = append(ratios, t.ratio(r, of))
		}
		fmt.Fprintf(w, "%s\t%s\t%s to %s\t%s\t%s\t%s\t%s\t%s\n", r.name,
			short(median(r.samples)), short(slices.Min(r.samples)), short(slices.Max(r.samples)), r.unit,
			strings.Join(ratios, "\t"), asked, answer, r.says)
	}
	w.Flush()
}

func (t *table) ratio(r *row, of string) string {
	value, known := t.figure(r, of)
	if !known {
		return ""
	}
	return fmt.Sprintf("%.2f", value)
}

// result is a row in build/bench.json.
type result struct {
	Rate         float64   `json:"rate"`
	Unit         string    `json:"unit"`
	Min          float64   `json:"min"`
	Max          float64   `json:"max"`
	Samples      []float64 `json:"samples"`
	RatioFloor   *float64  `json:"ratio_floor"`
	RatioStock   *float64  `json:"ratio_stock"`
	RatioPool    *float64  `json:"ratio_pool,omitempty"`
	RatioShallow *float64  `json:"ratio_shallow,omitempty"`
	RatioPing    *float64  `json:"ratio_ping,omitempty"`
	RatioSingle  *float64  `json:"ratio_single,omitempty"`
	RatioEarly   *float64  `json:"ratio_early,omitempty"`
	RatioNginx   *float64  `json:"ratio_nginx,omitempty"`
	RatioRaw     *float64  `json:"ratio_raw,omitempty"`
	RatioAsynq   *float64  `json:"ratio_asynq,omitempty"`
	Target       string    `json:"target,omitempty"`
	Met          *bool     `json:"met,omitempty"`
	What         string    `json:"what"`
}

func (t *table) results() map[string]result {
	results := map[string]result{}
	for _, r := range t.rows {
		if len(r.samples) == 0 {
			continue
		}
		o := result{
			Rate: median(r.samples), Unit: r.unit, What: r.says,
			Min: slices.Min(r.samples), Max: slices.Max(r.samples), Samples: r.samples,
		}
		for of, into := range map[string]**float64{
			"floor": &o.RatioFloor, "stock": &o.RatioStock, "pool": &o.RatioPool, "shallow": &o.RatioShallow,
			"ping": &o.RatioPing, "single": &o.RatioSingle, "early": &o.RatioEarly, "nginx": &o.RatioNginx, "raw": &o.RatioRaw, "asynq": &o.RatioAsynq,
		} {
			if value, known := t.figure(r, of); known {
				*into = &value
			}
		}
		o.Target, o.Met = t.verdict(r)
		results[r.name] = o
	}
	return results
}

func (t *table) write(file string) error {
	text, err := json.MarshalIndent(t.results(), "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percentile answers the value that so many percent of the values do not
// exceed.
func percentile(values []float64, percent int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)*percent+99)/100-1]
}

// short writes a figure with as many digits as mean something.
func short(value float64) string {
	switch {
	case value >= 100:
		return fmt.Sprintf("%.0f", value)
	case value >= 10:
		return fmt.Sprintf("%.1f", value)
	}
	return fmt.Sprintf("%.2f", value)
}

// latest says what a row's last sample was.
func (t *table) latest(name string) string {
	r := t.row(name)
	if len(r.samples) == 0 {
		return name + ": not measured"
	}
	return fmt.Sprintf("%s %s %s", name, short(r.samples[len(r.samples)-1]), r.unit)
}
