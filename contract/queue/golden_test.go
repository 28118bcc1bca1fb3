package queue_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/phorge-gantry/gantry/contract/queue"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// stock is the goldens, read once.
var stock = sync.OnceValues(func() ([]queue.Golden, error) {
	file, err := os.ReadFile("testdata/stock.jsonl")
	if err != nil {
		return nil, err
	}
	return queue.ReadGoldens(bytes.NewReader(file))
})

func goldens(t *testing.T) []queue.Golden {
	t.Helper()
	goldens, err := stock()
	if err != nil {
		t.Fatal(err)
	}
	if len(goldens) < 300 {
		t.Fatalf("there are only %d goldens", len(goldens))
	}
	return goldens
}

// named answers one golden.
func named(t *testing.T, name string) queue.Golden {
	t.Helper()
	all := goldens(t)
	i := slices.IndexFunc(all, func(g queue.Golden) bool { return g.Name == name })
	if i < 0 {
		t.Fatalf("there is no golden %q; record them again", name)
	}
	return all[i]
}

// openOurs answers our store on an empty copy, and how to reach its rows.
func openOurs(t *testing.T, wrap func(queue.Store) queue.Store) (*queue.Ours, string) {
	t.Helper()
	dsn := harness.Namespace(t)
	// Waiting for the disk would take most of the time, and prove nothing here.
	if err := harness.Shared(t).Exec(t.Context(), "", "SET GLOBAL innodb_flush_log_at_trx_commit = 0"); err != nil {
		t.Fatal(err)
	}
	ours, err := queue.OpenOurs(t.Context(), queue.OursConfig{DSN: dsn, Wrap: wrap})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ours.Close(); err != nil {
			t.Error(err)
		}
	})
	return ours, dsn
}

func TestOurStoreLeavesTheRowsThatWereRecordedOfStockPhorge(t *testing.T) {
	ours, _ := openOurs(t, nil)
	r := queue.NewReplay(ours)
	done := map[string]int{}
	for _, g := range goldens(t) {
		if g.Without != "" {
			continue
		}
		difference, err := r.Replay(t.Context(), g)
		if err != nil || difference != nil {
			t.Errorf("%s: %v\n%s", g.Name, err, difference)
		}
		for _, op := range g.Ops() {
			done[op.Do]++
		}
	}
	for _, do := range []string{
		queue.Schedule, queue.Lease, queue.Execute, queue.Awaken, queue.Pass, queue.Cancel, queue.Free, queue.Delay,
		queue.Prioritize, queue.Retry, queue.RunNow, queue.Taskmaster,
	} {
		if done[do] < 20 {
			t.Errorf("only %d operations were %q; nothing is proven of it", done[do], do)
		}
	}
}

func TestWhatWasWrittenIsReadAsItWas(t *testing.T) {
	all := goldens(t)
	var text bytes.Buffer
	if err := queue.WriteGoldens(&text, all); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("testdata/stock.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file, text.Bytes()) {
		t.Error("writing the goldens that were read gives another file")
	}
	for text, want := range map[string]string{
		`{"op":{"do":"lease"}}`:                     "before the first sequence",
		`{"sequence":"x"}` + "\n" + `{"oops":true}`: "behind 1 of them",
	} {
		if _, err := queue.ReadGoldens(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
