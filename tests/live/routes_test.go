package live

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/bridge/conduit"
	"github.com/phorge-gantry/gantry/bridge/pool"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// route runs every task that is due, one at a time and in the order of the
// queue, until none is, and answers what it says of those that failed.
type route struct {
	name  string
	drain func(t *testing.T, g *ground) map[int64]string
}

var (
	stock  = route{"stock", drainStock}
	routes = []route{{"pool", drainPool}, {"conduit", drainConduit}}
)

// drainStock lets stock taskmasters do it: one at a time, and another when a
// temporary failure has ended it, as its overseer does.
func drainStock(t *testing.T, g *ground) map[int64]string {
	t.Helper()
	failures := map[int64]string{}
	for due(t, g) {
		m := startTaskmaster(t, g.Phorge)
		harness.Eventually(t, "the taskmaster ends or finds nothing to do", func() bool {
			log, err := m.Log()
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-m.Done():
				return true
			default:
				return strings.LastIndex(log, `["idle"]`) > strings.LastIndex(log, `["busy"]`)
			}
		})
		if err := m.Stop(); err != nil {
			t.Fatal(err)
		}
		log, err := m.Log()
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range stockFailure.FindAllStringSubmatch(log, -1) {
			id, err := strconv.ParseInt(found[1]+found[2], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			failures[id] = found[3] + ": " + found[4]
		}
	}
	return failures
}

// What a taskmaster logs of a task that failed, for good or for now.
var stockFailure = regexp.MustCompile(
	`(?s)EXCEPTION: \(Exception\) (?:Task "(\d+)" encountered a permanent failure and was cancelled\.|Error while executing Task ID (\d+)\.) \{>\} \((\w+)\) (.*?) at \[`)

// drainPool lets Gantry do it, with one PHP process.
func drainPool(t *testing.T, g *ground) map[int64]string {
	t.Helper()
	processes, err := pool.New(pool.Config{Command: g.PoolCommand(), Namespace: g.Namespace(), Log: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer processes.Close()
	if err := processes.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return drainOneByOne(t, g, processes)
}

// drainConduit lets Gantry do it, through the web server.
func drainConduit(t *testing.T, g *ground) map[int64]string {
	t.Helper()
	calls, err := conduit.New(conduit.Config{
		URL: g.web.URL(), Namespace: g.Namespace(), KeyID: g.keys[0].ID, Key: conduit.Secret(g.keys[0].Secret),
		Connections: 1, Log: quiet(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer calls.Close()
	if err := calls.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return drainOneByOne(t, g, calls)
}

// drainOneByOne passes through a runtime with one slot until nothing is due,
// and answers the reasons of the failures.
func drainOneByOne(t *testing.T, g *ground, e php) map[int64]string {
	t.Helper()
	reasons := &reasons{Executor: e, failed: map[int64]string{}}
	rt, err := runtime.New(runtime.Config{
		Store: openStore(t, g.Phorge), Slots: 1, Log: quiet(t),
		Others: &runtime.Class{Executor: reasons, Route: "pool"}, OtherClasses: e.Classes,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for due(t, g) {
		harness.Eventually(t, "the executor is ready", func() bool { return e.Ready("PhabricatorTestWorker") })
		if _, err := rt.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return reasons.failed
}

func quiet(t *testing.T) zerolog.Logger { return zerolog.New(t.Output()).Level(zerolog.WarnLevel) }

// php is an executor that runs classes in PHP.
type php interface {
	tasks.Executor
	Classes() []string
}

// reasons remembers what an executor says of tasks that failed.
type reasons struct {
	tasks.Executor
	mu     sync.Mutex
	failed map[int64]string
}

func (r *reasons) Execute(ctx context.Context, task tasks.Task, require func(time.Duration)) tasks.Outcome {
	outcome := r.Executor.Execute(ctx, task, require)
	if outcome.Kind == tasks.Retry || outcome.Kind == tasks.Failed || outcome.Kind == tasks.Crashed {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failed[task.ID] = outcome.Reason
	}
	return outcome
}

func due(t *testing.T, g *ground) bool {
	t.Helper()
	return openQueue(t, g.Phorge).count(t,
		"SELECT COUNT(*) FROM worker_activetask WHERE leaseOwner IS NULL OR leaseExpires < UNIX_TIMESTAMP()") > 0
}

// traces are what a route left.
type traces struct {
	rows     []string         // of every table, as they changed
	mails    []string         // that were delivered
	calls    []string         // of hooks
	failures map[int64]string // what was said of them
	waits    map[int64]int    // seconds that a task in the queue waits
	timed    int              // archived failures that have a duration
}

// run drains the queue by a route and reads what it left. The ground is as it
// was afterwards.
func (g *ground) run(t *testing.T, r route, before *harness.Snapshot) traces {
	t.Helper()
	defer g.restore(t, before)
	failures := r.drain(t, g)
	return g.traces(t, before, failures)
}

func (g *ground) restore(t *testing.T, before *harness.Snapshot) {
	t.Helper()
	if err := g.Restore(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	g.receiver.take()
}

// begin answers what there is before a route runs, and forgets what was
// delivered. The run is in a later second than what was prepared, so that an
// epoch which it writes is always a change.
func (g *ground) begin(t *testing.T) *harness.Snapshot {
	t.Helper()
	before := g.snapshot(t)
	g.restore(t, before)
	q := openQueue(t, g.Phorge)
	now := q.count(t, "SELECT UNIX_TIMESTAMP()")
	harness.Eventually(t, "the second is over", func() bool { return q.count(t, "SELECT UNIX_TIMESTAMP()") > now })
	return before
}

func (g *ground) snapshot(t *testing.T) *harness.Snapshot {
	t.Helper()
	s, err := g.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (g *ground) traces(t *testing.T, before *harness.Snapshot, failures map[int64]string) traces {
	t.Helper()
	changes := g.snapshot(t).Changes(before)
	mails, err := g.Mails()
	if err != nil {
		t.Fatal(err)
	}
	left := traces{rows: changes.Rows, failures: map[int64]string{}, waits: map[int64]int{}}
	for id, text := range failures {
		left.failures[id] = changes.Name(text)
	}
	for _, mail := range mails {
		left.mails = append(left.mails, changes.Name(mail))
	}
	for _, c := range g.receiver.take() {
		if c.path == "/webhook" && c.signature != hmacOf(c.body, g.world.Webhook.Key) {
			t.Errorf("the webhook was called with the signature %s, which is not that of %s", c.signature, c.body)
		}
		left.calls = append(left.calls, changes.Name(c.String()))
	}
	// Mails of one edit leave in the order of their recipients.
	slices.Sort(left.mails)
	left.waits = g.waits(t)
	left.timed = openQueue(t, g.Phorge).count(t, "SELECT COUNT(*) FROM worker_archivetask WHERE result != 0 AND duration != 0")
	return left
}

// waits are from the last change of a row, so that it does not matter when
// that was.
func (g *ground) waits(t *testing.T) map[int64]int {
	t.Helper()
	rows, err := openQueue(t, g.Phorge).Query(
		"SELECT id, CAST(leaseExpires AS SIGNED) - CAST(dateModified AS SIGNED) FROM worker_activetask WHERE leaseOwner IS NOT NULL")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	waits := map[int64]int{}
	for rows.Next() {
		var id int64
		var wait int
		if err := rows.Scan(&id, &wait); err != nil {
			t.Fatal(err)
		}
		waits[id] = wait
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return waits
}

// patience is how long a task may have run under stock Phorge, whose waits
// count from the lease.
const patience = 10

// differences answers what one route left and the other did not.
func differences(want, got traces) (all []string) {
	all = append(all, linesOnce("row", want.rows, got.rows)...)
	all = append(all, linesOnce("mail", want.mails, got.mails)...)
	all = append(all, linesOnce("call", want.calls, got.calls)...)
	if want.timed != got.timed {
		all = append(all, fmt.Sprintf("%d and %d failures have a duration", want.timed, got.timed))
	}
	for id := range unionOf(want.failures, got.failures) {
		w, g := want.failures[id], got.failures[id]
		if w == "" || !saysTheSame(w, g) {
			all = append(all, fmt.Sprintf("failure of task %d: %q and %q", id, w, g))
		}
	}
	for id := range unionOf(want.waits, got.waits) {
		w, okW := want.waits[id]
		g, okG := got.waits[id]
		if okW != okG || w-g > patience || g-w > patience {
			all = append(all, fmt.Sprintf("task %d waits %d s and %d s", id, w, g))
		}
	}
	return all
}

// synonyms are what stock Phorge says, and what Gantry says of the same.
var synonyms = map[*regexp.Regexp]*regexp.Regexp{
	regexp.MustCompile(`^PhabricatorWorkerPermanentFailureException: Task \d+ has exceeded the maximum number of failures \(\d+\)\.$`): regexp.MustCompile(`^Task \d+ failed more often than its class allows \(\d+\)\.`),

	regexp.MustCompile(`^PhabricatorWorkerPermanentFailureException: Task class '\w+' does not extend PhabricatorWorker\.$`): regexp.MustCompile(`^class \w+ is not a PhabricatorWorker`),
}

// saysTheSame reports whether a route names the exception that stock Phorge
// logs. It may say more, such as where it happened.
func saysTheSame(stock, route string) bool {
	for stockSays, gantrySays := range synonyms {
		if stockSays.MatchString(stock) && gantrySays.MatchString(route) {
			return true
		}
	}
	return strings.Contains(route, stock)
}

func unionOf[V any](a, b map[int64]V) map[int64]bool {
	all := map[int64]bool{}
	for id := range a {
		all[id] = true
	}
	for id := range b {
		all[id] = true
	}
	return all
}

// linesOnce answers the lines that are in one list more often than in the
// other: those that begin alike together, from where they differ.
func linesOnce(what string, want, got []string) (once []string) {
	missing, surplus := without(want, got), without(got, want)
	for _, line := range missing {
		at, closest := -1, 0
		for i, other := range surplus {
			if n := commonLength(line, other); n > closest {
				at, closest = i, n
			}
		}
		if fields := strings.Fields(line); at < 0 || closest < len(strings.Join(fields[:min(3, len(fields))], " ")) {
			once = append(once, fmt.Sprintf("%s is missing: %s", what, line))
			continue
		}
		from := max(0, closest-40)
		once = append(once, fmt.Sprintf("%s %.100s: ...%.200q and ...%.200q", what, line, line[from:], surplus[at][from:]))
		surplus = slices.Delete(surplus, at, at+1)
	}
	for _, line := range surplus {
		once = append(once, fmt.Sprintf("%s is too much: %s", what, line))
	}
	return once
}

// without answers the lines of a list that are not in another, each as often as
// it is there more often.
func without(lines, others []string) (left []string) {
	counts := map[string]int{}
	for _, line := range others {
		counts[line]++
	}
	for _, line := range lines {
		if counts[line]--; counts[line] < 0 {
			left = append(left, line)
		}
	}
	return left
}

func commonLength(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func hmacOf(body, key string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}
