package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tests/harness"
)

// TestEveryRowIsMeasured is a smoke test: it looks at no figure but whether it
// is there. That each measurement did what it says is checked in the program.
func TestEveryRowIsMeasured(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bench.json")
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--quick", "--out", file}, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var results map[string]result
	if err := json.Unmarshal(text, &results); err != nil {
		t.Fatal(err)
	}
	_, noPhorge := harness.FindPhorge()
	for _, r := range newTable().rows {
		if r.phorge && noPhorge != nil {
			continue
		}
		if got, ok := results[r.name]; !ok || got.Unit != r.unit || len(got.Samples) != 1 {
			t.Errorf("row %s is %+v", r.name, got)
		}
		if !strings.Contains(out.String(), r.name) {
			t.Errorf("row %s is not in the table", r.name)
		}
	}
}

func TestFiguresOfATable(t *testing.T) {
	table := newTable()
	for row, samples := range map[string][]float64{
		"drain_floor_1": {300, 100, 900}, "drain_floor_2": {400, 500, 600},
		"drain_stock_1": {10, 10, 20},
		"drain_plugin":  {200, 1000, 300},
	} {
		for _, sample := range samples {
			table.add(row, sample)
		}
	}
	r := table.row("drain_plugin")
	for of, want := range map[string]float64{"rate": 300, "floor": 0.5, "stock": 20} {
		if got, known := table.figure(r, of); !known || got != want {
			t.Errorf("%s is %v, %v; want %v", of, got, known, want)
		}
	}
	if _, met := table.verdict(r); met == nil || !*met {
		t.Error("a target that is just reached is missed")
	}
	table.row("drain_stock_1").samples = []float64{20, 100, 20}
	if _, met := table.verdict(r); met == nil || *met {
		t.Error("one missed target of two goes unnoticed")
	}
	if _, met := table.verdict(table.row("drain_in_process")); met != nil {
		t.Error("a row that was not measured has a verdict")
	}
}

func TestRowsComeWithWhatTheyAreComparedWith(t *testing.T) {
	chosen, err := newTable().choose("drain_deep,pickup_p99")
	if err != nil {
		t.Fatal(err)
	}
	if len(chosen) != 3 || !chosen["drain_deep"] || !chosen["drain_shallow"] || !chosen["pickup_p99"] {
		t.Errorf("chosen: %v", chosen)
	}
	if _, err := newTable().choose("drain_deep,none"); err == nil || !strings.Contains(err.Error(), `"none"`) {
		t.Errorf("choose answered %v, want an error that names the row", err)
	}
}

func TestPercentileIsAValueThatSoManyDoNotExceed(t *testing.T) {
	values := make([]float64, 100)
	for i := range values {
		values[i] = float64(100 - i)
	}
	for percent, want := range map[int]float64{50: 50, 99: 99, 100: 100, 1: 1} {
		if got := percentile(values, percent); got != want {
			t.Errorf("percentile %d is %v, want %v", percent, got, want)
		}
	}
	if got := percentile([]float64{7}, 99); got != 7 {
		t.Errorf("percentile of one value is %v", got)
	}
}

func TestEveryRatioIsAColumn(t *testing.T) {
	for _, r := range newTable().rows {
		for of := range r.ratios {
			if !slices.Contains(compared, of) {
				t.Errorf("row %s is compared with %s, which is no column", r.name, of)
			}
		}
	}
}

func TestProcessesAreMeasured(t *testing.T) {
	now, peak, err := memory(os.Getpid())
	if err != nil || now <= 1 || peak < now {
		t.Errorf("memory answers %v and %v, %v", now, peak, err)
	}
	if _, err := cpuTime(os.Getpid()); err != nil {
		t.Error(err)
	}
	if _, err := cpuTime(-1); err == nil {
		t.Error("a process that is not there has a CPU time")
	}
}
