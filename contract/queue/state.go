package queue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// State is the rows of the three tables, by names such as "active 2",
// "archive 1" and "data 3". A task has the same number in the queue and in the
// archive.
type State map[string]Row

// Row is a row by its columns. Columns that are NULL are not in it. The id is in
// its name, and dataID is the number of the data.
type Row map[string]string

// Changes are what became of rows: the columns that changed, NULL as nil, or
// all of those that a new row has; nil for a row that is gone.
type Changes map[string]map[string]*string

func active(task int) string  { return fmt.Sprint("active ", task) }
func archive(task int) string { return fmt.Sprint("archive ", task) }

// numberIn answers the number in the name of a row.
func numberIn(name string) int {
	_, number, _ := strings.Cut(name, " ")
	n, _ := strconv.Atoi(number)
	return n
}

// names answers the rows in the order of their numbers.
func (s State) names() []string {
	return slices.SortedFunc(maps.Keys(s), func(a, b string) int {
		return cmp.Or(cmp.Compare(numberIn(a), numberIn(b)), cmp.Compare(a, b))
	})
}

// tasks answers how many tasks there are and were.
func (s State) tasks() int {
	last := 0
	for name := range s {
		if !strings.HasPrefix(name, "data ") {
			last = max(last, numberIn(name))
		}
	}
	return last
}

func (s State) clone() State {
	to := make(State, len(s))
	for name, row := range s {
		to[name] = maps.Clone(row)
	}
	return to
}

// changesTo answers what makes the other state of this one, nil when nothing is
// to be done.
func (s State) changesTo(to State) Changes {
	changes := Changes{}
	for name := range s {
		if to[name] == nil {
			changes[name] = nil
		}
	}
	for name, row := range to {
		columns := map[string]*string{}
		for column, value := range row {
			if before, ok := s[name][column]; !ok || before != value {
				columns[column] = &value
			}
		}
		for column := range s[name] {
			if _, ok := row[column]; !ok {
				columns[column] = nil
			}
		}
		if len(columns) > 0 {
			changes[name] = columns
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return changes
}

// with answers the state after changes.
func (s State) with(changes Changes) State {
	to := s.clone()
	for name, columns := range changes {
		if columns == nil {
			delete(to, name)
			continue
		}
		if to[name] == nil {
			to[name] = Row{}
		}
		for column, value := range columns {
			if value == nil {
				delete(to[name], column)
			} else {
				to[name][column] = *value
			}
		}
	}
	return to
}

// at writes an epoch, in seconds since the start of the sequence.
func at(seconds int64) string { return fmt.Sprintf("t%+d", seconds) }

// epoch reads a column that holds an epoch. One that no clock shows is before
// all others.
func (r Row) epoch(column string) (seconds int64, ok bool) {
	value, ok := r[column]
	if !ok {
		return 0, false
	}
	text, counted := strings.CutPrefix(value, "t")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("the column %s holds %q, which is no epoch", column, value))
	}
	if !counted {
		seconds -= 1 << 40
	}
	return seconds, true
}

// owner answers the leaseOwner by its meaning; held is false when it is NULL.
func (r Row) owner() (meaning string, held bool) {
	meaning, held = r["leaseOwner"]
	return meaning, held
}

// nobody reports whether the owner stands in parentheses: the task waits.
func (r Row) nobody() bool { return strings.HasPrefix(r["leaseOwner"], "(") }
