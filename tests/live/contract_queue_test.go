package live_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/contract/queue"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

const (
	// queueSequences is how many random sequences are tried, unless
	// GANTRY_QUEUE_SEQUENCES says otherwise.
	queueSequences = 200

	// queueGoldens is how many of them are kept, beside the two of each
	// deviation, in the file that GANTRY_QUEUE_RECORD=1 writes.
	queueGoldens = 290
	queueFile    = "../../contract/queue/testdata/stock.jsonl"
)

func TestLiveRandomOperationsLeaveTheRowsThatStockPhorgeLeaves(t *testing.T) {
	sequences := strconv.Itoa(queueSequences)
	if asked := os.Getenv("GANTRY_QUEUE_SEQUENCES"); asked != "" {
		sequences = asked
	}
	setFlag(t, "rapid.checks", sequences)
	setFlag(t, "rapid.nofailfile", "true")
	setFlag(t, "rapid.shrinktime", "1ns") // Shrink knows what can be left out
	r := queueRunner(t, nil)
	steps := 0
	rapid.Check(t, func(rt *rapid.T) {
		ops := queue.Sequences().Draw(rt, "operations")
		performed, difference, err := r.Run(t.Context(), ops)
		if err != nil {
			rt.Fatal(err)
		}
		steps += len(performed)
		if difference == nil {
			return
		}
		if smaller, err := r.Shrink(t.Context(), ops); smaller != nil {
			difference = smaller
		} else {
			t.Logf("it did not differ again (%v), so it is shown as it was found", err)
		}
		t.Fatalf("our store differs from stock Phorge, and no deviation says so:\n%s", difference)
	})
	t.Logf("%s sequences, %d operations", sequences, steps)
}

func TestLiveEveryDeviationOfTheQueueIsNeeded(t *testing.T) {
	r := queueRunner(t, nil)
	for _, d := range queue.Deviations {
		r.Without = ""
		if _, difference, err := r.Run(t.Context(), d.Needs); difference != nil || err != nil {
			t.Errorf("%s\nits own sequence differs (%v):\n%s", d.Stock, err, difference)
		}
		r.Without = d.Stock
		if _, difference, err := r.Run(t.Context(), d.Needs); err != nil || difference == nil && !d.ByChance ||
			difference != nil && len(difference.Steps) != len(d.Needs) {
			t.Errorf("%s\nits own sequence does not need it, or not its last operation (%v):\n%s", d.Stock, err, difference)
		}
	}
}

// What is recorded for where there is no Phorge is what this one does.
func TestLiveTheGoldensOfTheQueueAreWhatStockPhorgeDoes(t *testing.T) {
	r := queueRunner(t, nil)
	if os.Getenv("GANTRY_QUEUE_RECORD") != "" {
		recordGoldens(t, r)
	}
	file, err := os.ReadFile(queueFile)
	if err != nil {
		t.Fatal(err)
	}
	goldens, err := queue.ReadGoldens(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range goldens {
		r.Without = g.Without
		steps, _, err := r.Run(t.Context(), g.Ops())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(g.Steps, steps); diff != "" && !byChance(g.Without) {
			t.Errorf("%s: (- recorded, + now)\n%s", g.Name, diff)
		}
	}
}

// byChance reports whether stock Phorge can do something else without the
// deviation than it did.
func byChance(without string) bool {
	return slices.ContainsFunc(queue.Deviations, func(d queue.Deviation) bool { return d.Stock == without && d.ByChance })
}

func recordGoldens(t *testing.T, r *queue.Runner) {
	t.Helper()
	var goldens []queue.Golden
	record := func(name, without string, ops []queue.Op) {
		r.Without = without
		steps, difference, err := r.Run(t.Context(), ops)
		for byChance(without) && difference == nil && err == nil {
			steps, difference, err = r.Run(t.Context(), ops)
		}
		if err != nil || (difference == nil) != (without == "") {
			t.Fatalf("record %s: %v\n%s", name, err, difference)
		}
		if len(steps) > 0 {
			goldens = append(goldens, queue.Golden{Name: name, Without: without, Steps: steps})
		}
	}
	for _, d := range queue.Deviations {
		record("allowed: "+d.Stock, "", d.Needs)
		record("not allowed: "+d.Stock, d.Stock, d.Needs)
	}
	for seed := range queueGoldens {
		record(fmt.Sprint("random ", seed), "", queue.Sequences().Example(seed))
	}
	var text bytes.Buffer
	if err := queue.WriteGoldens(&text, goldens); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(queueFile, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// forgetful does not keep the priority of the parent for its follow-ups.
type forgetful struct{ queue.Store }

func (f forgetful) Settle(ctx context.Context, settlements []tasks.Settlement) ([]tasks.Settled, error) {
	for i := range settlements {
		for n := range settlements[i].Outcome.FollowUps {
			if task := &settlements[i].Outcome.FollowUps[n]; task.Priority == nil {
				priority := tasks.PriorityDefault
				task.Priority = &priority
			}
		}
	}
	return f.Store.Settle(ctx, settlements)
}

func TestLiveADifferenceOfTheQueueIsShownAsTheSmallestScript(t *testing.T) {
	r := queueRunner(t, func(q queue.Store) queue.Store { return forgetful{q} })
	for seed := range 1000 {
		ops := queue.Sequences().Example(seed)
		_, difference, err := r.Run(t.Context(), ops)
		if err != nil {
			t.Fatal(err)
		}
		if difference == nil || len(difference.Steps) < 10 {
			continue
		}
		smaller, err := r.Shrink(t.Context(), ops)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(smaller.Steps); got > 3 {
			t.Errorf("%d operations were left of %d, and three show it:\n%s", got, len(difference.Steps), smaller)
		}
		t.Logf("%d operations became\n%s", len(difference.Steps), smaller)
		return
	}
	t.Fatal("the fault was not found")
}

// queueRunner holds our store against the live Phorge.
func queueRunner(t *testing.T, wrap func(queue.Store) queue.Store) *queue.Runner {
	t.Helper()
	p := harness.Live(t)
	setDurable(t, p.Server(), 0)
	t.Cleanup(func() { setDurable(t, p.Server(), 1) })
	stock, err := queue.OpenStock(t.Context(), queue.StockConfig{
		DSN: p.DSN(), PHP: []string{"php"}, Phorge: p.Root(), Dir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stock.Close(); err != nil {
			t.Error(err)
		}
	})
	ours, err := queue.OpenOurs(t.Context(), queue.OursConfig{DSN: harness.Namespace(t), Wrap: wrap})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ours.Close(); err != nil {
			t.Error(err)
		}
	})
	return queue.NewRunner(stock, ours)
}

// setDurable says whether a commit waits for the disk, which takes most of the
// time of these tests and proves nothing in them.
func setDurable(t *testing.T, server interface {
	Exec(ctx context.Context, database, statements string) error
}, level int) {
	t.Helper()
	err := server.Exec(context.Background(), "", fmt.Sprint("SET GLOBAL innodb_flush_log_at_trx_commit = ", level))
	if err != nil {
		t.Fatal(err)
	}
}

func setFlag(t *testing.T, name, value string) {
	t.Helper()
	before := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { flag.Set(name, before) })
}
