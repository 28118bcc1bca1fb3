package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

func TestMain(m *testing.M) {
	if playRole() {
		return
	}
	os.Exit(m.Run())
}

// TestKillsLoseAndDoubleNothing is the short form of `make faults`.
func TestKillsLoseAndDoubleNothing(t *testing.T) {
	o := options{rounds: 2, tasks: 2500, drain: 2 * time.Second, seed: rand.Uint64(), out: filepath.Join(t.TempDir(), "faults.json")}
	r, err := run(t.Context(), o, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
	if r.Tasks < o.rounds*o.tasks || r.Executions < r.Tasks {
		t.Errorf("%d tasks and %d executions are less than was queued", r.Tasks, r.Executions)
	}
	if r.Skipped == "" && (r.Mixed != 1 || r.Kills["pool"] == 0 || r.Kills["fpm-child"] == 0 || r.Kills["fpm"] == 0 || r.Kills["nginx"] == 0) {
		t.Errorf("%d rounds with PHP, kills %v; there should be one, with each of them", r.Mixed, r.Kills)
	}
	for _, kind := range []string{"runtime", "handler", "mariadb"} {
		if r.Kills[kind] < o.rounds {
			t.Errorf("%d kills of a %s; each round makes at least one", r.Kills[kind], kind)
		}
	}
	if r.RepeatsAsked == 0 || r.Pauses == 0 {
		t.Errorf("%d repeats were asked for and a runtime was paused %d times; both should have happened", r.RepeatsAsked, r.Pauses)
	}
	text, err := os.ReadFile(o.out)
	if err != nil {
		t.Fatal(err)
	}
	var written results
	if err := json.Unmarshal(text, &written); err != nil {
		t.Fatal(err)
	}
	if written.Tasks != r.Tasks || written.RepeatsExplained != r.Repeats {
		t.Errorf("the file says %+v, the run %+v", written, r)
	}
}

// TestCallersOfTheAPILoseAndDoubleNothing is the short form of the minutes over
// HTTP.
func TestCallersOfTheAPILoseAndDoubleNothing(t *testing.T) {
	o := options{http: 5 * time.Second, seed: rand.Uint64(), out: filepath.Join(t.TempDir(), "faults.json")}
	r, err := run(t.Context(), o, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
	if r.ExecutionsHTTP == 0 || r.ExecutionsHTTP == r.Executions {
		t.Errorf("%d of %d executions were by callers of the API; it should be some", r.ExecutionsHTTP, r.Executions)
	}
	if r.Kills["worker"] == 0 {
		t.Errorf("kills %v; there should be some of workers", r.Kills)
	}
}

// TestProofSeesWhatWentWrong gives the proof a world in which all is well, and
// then one thing is not.
func TestProofSeesWhatWentWrong(t *testing.T) {
	all := []work{
		{N: 1, Do: succeed},
		{N: 2, Do: follow},
		{N: 3, Do: fail},
		{N: 4, Do: succeed},
		{N: 5, Do: succeed},
	}
	type world struct {
		rows    []tasks.Record
		history []storetest.Event
		records []record
		unsure  [][]work
	}
	ok := func() world {
		var w world
		for i, work := range append(all, all[1].children()...) {
			id := int64(i + 1)
			kind := tasks.Succeeded
			if work.result() == tasks.ResultFailure {
				kind = tasks.Failed
			}
			w.rows = append(w.rows, tasks.Record{
				Task:    tasks.Task{ID: id, Class: class, Data: work.task().Data},
				Archive: &tasks.Archive{Result: work.result()},
			})
			w.history = append(w.history, storetest.Event{Op: storetest.OpExecute, Items: []storetest.Item{{ID: id}}})
			w.records = append(w.records, record{ID: id, At: 10 * id}, record{ID: id, At: 10*id + 5, Kind: kind})
		}
		return w
	}
	for _, c := range []struct {
		name  string
		spoil func(w *world)
		want  string
	}{
		{"nothing is wrong", func(*world) {}, ""},
		{"a row is gone", func(w *world) { w.rows = w.rows[1:] }, "work 1.0 is nowhere"},
		{"a follow-up is gone", func(w *world) { w.rows = w.rows[:len(w.rows)-1] }, "work 2.2 is nowhere"},
		{"a task is there twice", func(w *world) { w.rows = append(w.rows, w.rows[0]) }, "work 1.0 was queued 2 times"},
		{"a task is still active", func(w *world) { w.rows[0].Archive = nil }, "task 1 is not archived"},
		{"a task has the wrong result", func(w *world) { w.rows[2].Result = tasks.ResultSuccess }, "task 3, which is to fail"},
		{"a success that no handler reported", func(w *world) { w.records = w.records[2:] }, "task 1 is archived as succeeded"},
		{"a run that no runtime asked for", func(w *world) { w.history = w.history[1:] }, "task 1 ran 1 times in handlers"},
		{"two runs at the same time", func(w *world) {
			w.history = append(w.history, w.history[0])
			w.records = append(w.records, record{ID: 1, PID: 7, At: 12})
		}, "task 1 ran twice at the same time"},
		{"an unsure batch is there", func(w *world) { w.unsure = [][]work{all[3:]} }, ""},
		{"an unsure batch is not there", func(w *world) {
			w.unsure = [][]work{all[3:]}
			w.rows = append(w.rows[:3], w.rows[5:]...)
		}, ""},
		{"an unsure batch is there in part", func(w *world) {
			w.unsure = [][]work{all[3:]}
			w.rows = append(w.rows[:3], w.rows[4:]...)
		}, "queued in part"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ok()
			c.spoil(&w)
			var f findings
			f.count(w.rows, all, w.unsure)
			f.compare(w.rows, w.history, w.records)
			f.separate(w.records)
			said := strings.Join(f.violations, "\n")
			if c.want == "" && said != "" || !strings.Contains(said, c.want) {
				t.Errorf("the proof says %q, want %q", said, c.want)
			}
		})
	}
}

func TestWorkOfASeedIsTheSame(t *testing.T) {
	now := time.Unix(1000, 0)
	one := makeWork(rand.New(rand.NewPCG(1, 2)), class, 32, 100, 0, now, time.Second)
	two := makeWork(rand.New(rand.NewPCG(1, 2)), class, 32, 100, 0, now, time.Second)
	deeds := map[deed]int{}
	for i, w := range one {
		if two[i] != w {
			t.Fatalf("work %d is %+v and %+v", i, w, two[i])
		}
		deeds[w.Do]++
	}
	for _, do := range []deed{succeed, retry, yield, follow, fail} {
		if deeds[do] == 0 {
			t.Errorf("no task is to %s", do)
		}
	}
}
