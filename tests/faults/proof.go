package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// findings is what the proof of a round found.
type findings struct {
	storetest.Report
	byCallers  int // executions under leases over HTTP
	missing    int // tasks that are nowhere
	doubled    int // tasks that are there, or were done, twice
	violations []string
}

func (f *findings) violate(count *int, format string, args ...any) {
	f.violations = append(f.violations, fmt.Sprintf(format, args...))
	if count != nil {
		*count++
	}
}

// prove looks at the round in three ways that know nothing of each other: the
// checker explains every answer of the store and every execution by an order of
// the recorded calls; the rows are counted against what was queued; and what
// handlers did is compared with both.
func (r *round) prove(ctx context.Context) (findings, error) {
	rows, err := r.readRows(ctx)
	if err != nil {
		return findings{}, err
	}
	history, err := r.readHistory()
	if err != nil {
		return findings{}, err
	}
	records, err := readRecords(r.records)
	if err != nil {
		return findings{}, err
	}
	if r.php != nil {
		more, err := readRecords(r.php.records())
		if err != nil {
			return findings{}, err
		}
		records = append(records, more...)
	}
	f := findings{Report: storetest.Check(history, rows)}
	f.missing = f.Count(storetest.TaskLost, storetest.FollowUpLost)
	f.doubled = f.Count(storetest.SettledTwice, storetest.RanTwice, storetest.TaskFromNowhere)
	for _, v := range f.Violations {
		f.violate(nil, "%s", v)
	}
	f.count(rows, r.work, r.unsure)
	f.compare(rows, history, records)
	if r.pauses == 0 {
		f.separate(records)
	}
	return f, nil
}

// count holds every row against what was queued.
func (f *findings) count(rows []tasks.Record, all []work, unsure [][]work) {
	found := map[[2]int][]tasks.Record{}
	for _, row := range rows {
		var w work
		if err := json.Unmarshal(row.Data, &w); err != nil {
			f.violate(nil, "task %d: its data cannot be read: %v", row.ID, err)
			continue
		}
		found[[2]int{w.N, w.Child}] = append(found[[2]int{w.N, w.Child}], row)
		if row.Archive == nil {
			f.violate(nil, "task %d is not archived", row.ID)
		} else if row.Result != w.result() {
			f.violate(nil, "task %d, which is to %s, was archived with result %d", row.ID, w.Do, row.Result)
		}
	}
	absent := f.mayBeAbsent(found, unsure)
	expected := 0
	for _, w := range all {
		if absent[w.N] {
			continue
		}
		for _, w := range append(w.children(), w) {
			expected++
			switch n := len(found[[2]int{w.N, w.Child}]); {
			case n == 0:
				f.violate(&f.missing, "work %d.%d is nowhere", w.N, w.Child)
			case n > 1:
				f.violate(&f.doubled, "work %d.%d was queued %d times", w.N, w.Child, n)
			}
		}
	}
	if len(rows) < expected {
		f.violate(nil, "there are %d rows and must be %d", len(rows), expected)
	}
}

// mayBeAbsent answers the work of batches whose queueing failed and that are
// not there: all of such a batch, or it is a violation.
func (f *findings) mayBeAbsent(found map[[2]int][]tasks.Record, unsure [][]work) map[int]bool {
	absent := map[int]bool{}
	for _, batch := range unsure {
		there := 0
		for _, w := range batch {
			there += min(1, len(found[[2]int{w.N, 0}]))
		}
		if there == len(batch) {
			continue
		}
		for _, w := range batch {
			absent[w.N] = true
		}
		if there > 0 {
			f.violate(&f.missing, "a batch of %d tasks was queued in part: %d of them", len(batch), there)
		}
	}
	return absent
}

// compare holds what handlers did against what runtimes said of it, and against
// the archive.
func (f *findings) compare(rows []tasks.Record, history []storetest.Event, records []record) {
	begun := map[int64]int{}
	for _, event := range history {
		if event.Op == storetest.OpExecute && !event.Answer {
			begun[event.Items[0].ID]++
			if _, caller := tasks.ParseCaller(event.Items[0].Owner); caller {
				f.byCallers++
			}
		}
	}
	runs := runsByTask(records)
	for id, runs := range runs {
		if len(runs) > begun[id] {
			f.violate(&f.doubled, "task %d ran %d times in handlers, and runtimes sent it %d times", id, len(runs), begun[id])
		}
	}
	for _, row := range rows {
		if row.Archive == nil {
			continue
		}
		want := map[int]tasks.Kind{tasks.ResultSuccess: tasks.Succeeded, tasks.ResultFailure: tasks.Failed}[row.Result]
		if !slices.ContainsFunc(runs[row.ID], func(r execution) bool { return r.kind == want }) {
			f.violate(nil, "task %d is archived as %s, and no handler said so", row.ID, want)
		}
	}
}

// separate makes sure that no task ran twice at the same time. A runtime that was
// paused can start one too late; nobody can prevent that, only refuse what comes
// of it.
func (f *findings) separate(records []record) {
	for id, runs := range runsByTask(records) {
		for i := 1; i < len(runs); i++ {
			if runs[i-1].end > runs[i].start {
				f.violate(&f.doubled, "task %d ran twice at the same time", id)
			}
		}
	}
}

// execution is a run of a task in a handler. The end is 0 when the handler was
// killed in it.
type execution struct {
	start, end int64
	kind       tasks.Kind
}

// runsByTask joins the records of executions, in the order of their beginnings.
func runsByTask(records []record) map[int64][]execution {
	type key struct {
		pid     int
		id, run int64
	}
	ends := map[key]record{}
	for _, r := range records {
		if r.Kind != "" {
			ends[key{r.PID, r.ID, r.Run}] = r
		}
	}
	runs := map[int64][]execution{}
	for _, r := range records {
		if r.Kind == "" {
			end := ends[key{r.PID, r.ID, r.Run}]
			runs[r.ID] = append(runs[r.ID], execution{r.At, end.At, end.Kind})
		}
	}
	for _, all := range runs {
		slices.SortFunc(all, func(a, b execution) int { return int(a.start - b.start) })
	}
	return runs
}

// readHistory reads what every process recorded, the driver included.
func (r *round) readHistory() ([]storetest.Event, error) {
	files, err := filepath.Glob(filepath.Join(r.dir, "history-*"))
	if err != nil {
		return nil, err
	}
	var history []storetest.Event
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		events, err := storetest.ReadHistory(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		history = append(history, events...)
	}
	return history, nil
}

func readRecords(file string) ([]record, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var records []record
	for decoder := json.NewDecoder(bufio.NewReader(f)); ; {
		var r record
		switch err := decoder.Decode(&r); {
		case errors.Is(err, io.EOF):
			return records, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		records = append(records, r)
	}
}

// The rows as they are, read without the store.
const allRows = `
SELECT t.id, taskClass, d.data, priority, leaseOwner, leaseExpires, failureCount, dateCreated, dateModified,
 NULL AS result, 0 AS duration, 0 AS archivedEpoch
FROM worker_activetask t LEFT JOIN worker_taskdata d ON d.id = dataID
UNION ALL
SELECT t.id, taskClass, d.data, priority, leaseOwner, leaseExpires, failureCount, dateCreated, dateModified,
 result, duration, archivedEpoch
FROM worker_archivetask t LEFT JOIN worker_taskdata d ON d.id = dataID`

func (r *round) readRows(ctx context.Context) ([]tasks.Record, error) {
	found, err := r.db.QueryContext(ctx, allRows)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var rows []tasks.Record
	for found.Next() {
		var row tasks.Record
		var archive tasks.Archive
		var result *int
		if err := found.Scan(&row.ID, &row.Class, &row.Data, &row.Priority, &row.Owner, &row.Expires, &row.FailureCount,
			&row.DateCreated, &row.DateModified, &result, &archive.Duration, &archive.Epoch); err != nil {
			return nil, err
		}
		if result != nil {
			archive.Result = *result
			row.Archive = &archive
		}
		rows = append(rows, row)
	}
	return rows, found.Err()
}
