package queue

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// tables is one copy of the queue: the three tables, and what is needed to name
// what stands in them.
type tables struct {
	db     *sql.DB
	base   int64 // the epoch that t+0 stands for
	tasks  numbers
	data   numbers
	owners map[string]string // what an owner means, by how it stands in the rows
}

// numbers gives ids their numbers.
type numbers struct {
	ids []int64
	of  map[int64]int
}

func (n *numbers) number(found []int64) {
	slices.Sort(found)
	for _, id := range slices.Compact(found) {
		if _, known := n.of[id]; !known {
			n.add(id)
		}
	}
}

func (n *numbers) add(id int64) {
	n.ids = append(n.ids, id)
	n.of[id] = len(n.ids)
}

// forget takes back the numbers of the last ids, as long as they are gone.
func (n *numbers) forget(gone func(number int) bool) {
	for len(n.ids) > 0 && gone(len(n.ids)) {
		delete(n.of, n.ids[len(n.ids)-1])
		n.ids = n.ids[:len(n.ids)-1]
	}
}

// idsOf answers the ids of tasks.
func (t *tables) idsOf(numbers []int) []int64 {
	ids := make([]int64, len(numbers))
	for i, n := range numbers {
		ids[i] = t.tasks.ids[n-1]
	}
	return ids
}

// sqlTables are the tables by the first word of the names of their rows.
var sqlTables = map[string]string{
	"active": "worker_activetask", "archive": "worker_archivetask", "data": "worker_taskdata",
}

// early is an epoch that no clock shows. What is less is a number that a program
// writes as it is: `bin/worker retry` 0, and `bin/worker execute --retry` the
// bare wait of a task that yields, because nobody told it the time.
const early = 1_000_000_000

// epochs are the columns that hold an epoch.
var epochs = []string{"leaseExpires", "failureTime", "dateCreated", "dateModified", "archivedEpoch"}

// openTables connects as the given DSN says, and with these parameters.
func openTables(ctx context.Context, dsn string, parameters ...string) (tables, error) {
	db, err := sql.Open("mysql", withParameters(dsn, append(parameters, "interpolateParams=true")...))
	if err != nil {
		return tables{}, fmt.Errorf("open a copy of the queue: %w", err)
	}
	db.SetMaxOpenConns(1)
	t := tables{db: db}
	if err := t.clear(ctx); err != nil {
		db.Close()
		return tables{}, err
	}
	return t, nil
}

func withParameters(dsn string, parameters ...string) string {
	separator := "?"
	if strings.Contains(dsn[strings.LastIndexByte(dsn, '/')+1:], "?") {
		separator = "&"
	}
	return dsn + separator + strings.Join(parameters, "&")
}

// now answers the time on the server.
func (t *tables) now(ctx context.Context) (time.Time, error) {
	var seconds float64
	if err := t.db.QueryRowContext(ctx, "SELECT UNIX_TIMESTAMP(NOW(6))").Scan(&seconds); err != nil {
		return time.Time{}, fmt.Errorf("read the clock of the database: %w", err)
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), nil
}

// clear empties the tables, whose epochs count from now on.
func (t *tables) clear(ctx context.Context) error {
	for _, table := range sqlTables {
		if _, err := t.db.ExecContext(ctx, "DELETE FROM "+table); err != nil {
			return fmt.Errorf("empty a copy of the queue: %w", err)
		}
	}
	t.tasks, t.data = numbers{of: map[int64]int{}}, numbers{of: map[int64]int{}}
	t.owners = map[string]string{}
	now, err := t.now(ctx)
	t.base = now.Unix()
	return err
}

// shift moves every epoch of the rows, and the start of the sequence with them.
func (t *tables) shift(ctx context.Context, seconds int64) error {
	move := func(columns ...string) string {
		for i, column := range columns {
			columns[i] = fmt.Sprintf("%s = IF(%s < %d, %s, %s %+d)", column, column, early, column, column, seconds)
		}
		return strings.Join(columns, ", ")
	}
	for _, statement := range []string{
		"UPDATE worker_activetask SET " + move("leaseExpires", "failureTime", "dateCreated", "dateModified"),
		"UPDATE worker_archivetask SET " + move("leaseExpires", "dateCreated", "dateModified", "archivedEpoch"),
	} {
		if _, err := t.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("move the epochs of a copy of the queue: %w", err)
		}
	}
	t.base += seconds
	return nil
}

// read answers the rows.
func (t *tables) read(ctx context.Context) (State, error) {
	found := map[string][]map[string]*string{}
	var taskIDs, dataIDs []int64
	for kind, table := range sqlTables {
		rows, err := t.rows(ctx, "SELECT * FROM "+table)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", table, err)
		}
		found[kind] = rows
		for _, row := range rows {
			id, err := strconv.ParseInt(*row["id"], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", table, err)
			}
			if kind == "data" {
				dataIDs = append(dataIDs, id)
			} else {
				taskIDs = append(taskIDs, id)
			}
		}
	}
	t.tasks.number(taskIDs)
	t.data.number(dataIDs)
	state := State{}
	for kind, rows := range found {
		for _, columns := range rows {
			of := t.tasks.of
			if kind == "data" {
				of = t.data.of
			}
			state[fmt.Sprint(kind, " ", of[number(*columns["id"])])] = t.name(columns)
		}
	}
	return state, nil
}

// rows answers every column of every row.
func (t *tables) rows(ctx context.Context, query string) (all []map[string]*string, err error) {
	rows, err := t.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		columns, into := map[string]*string{}, make([]any, len(names))
		values := make([]*string, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		for i, name := range names {
			columns[name] = values[i]
		}
		all = append(all, columns)
	}
	return all, rows.Err()
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// name gives what chance and the clock decide their common names.
func (t *tables) name(columns map[string]*string) Row {
	row := Row{}
	for column, value := range columns {
		switch {
		case value == nil || column == "id" || column == "duration":
		case slices.Contains(epochs, column) && number(*value) >= early:
			row[column] = at(number(*value) - t.base)
		case column == "dataID":
			row[column] = fmt.Sprint(t.data.of[number(*value)])
		case column == "leaseOwner" && t.owners[*value] != "":
			row[column] = t.owners[*value]
		default:
			row[column] = *value
		}
	}
	return row
}

// value is the inverse of name.
func (t *tables) value(column, text string) (any, error) {
	switch {
	case slices.Contains(epochs, column) && strings.HasPrefix(text, "t"):
		return number(strings.TrimPrefix(text, "t")) + t.base, nil
	case column == "dataID":
		return t.data.ids[number(text)-1], nil
	case column == "leaseOwner" && !slices.Contains([]string{tasks.YieldOwner, tasks.DelayOwner}, text):
		for owner, meaning := range t.owners {
			if meaning == text {
				return owner, nil
			}
		}
		return nil, fmt.Errorf("nothing in this copy means %q", text)
	}
	return text, nil
}

// write makes one state of another.
func (t *tables) write(ctx context.Context, from, to State) error {
	changes := from.changesTo(to)
	// Data first, which the rows of tasks name.
	for _, name := range slices.SortedFunc(maps.Keys(changes), func(a, b string) int {
		return strings.Compare(writeOrder(a), writeOrder(b))
	}) {
		if err := t.writeRow(ctx, name, from[name] == nil, changes[name]); err != nil {
			return fmt.Errorf("write the row %q of a copy of the queue: %w", name, err)
		}
	}
	t.tasks.forget(func(n int) bool { return to[active(n)] == nil && to[archive(n)] == nil })
	t.data.forget(func(n int) bool { return to[fmt.Sprint("data ", n)] == nil })
	return nil
}

func writeOrder(name string) string {
	kind, _, _ := strings.Cut(name, " ")
	return fmt.Sprintf("%t%09d", kind != "data", numberIn(name))
}

func (t *tables) writeRow(ctx context.Context, name string, isNew bool, columns map[string]*string) error {
	kind, _, _ := strings.Cut(name, " ")
	table, n := sqlTables[kind], numberIn(name)
	var sets []string
	var values []any
	for column, text := range columns {
		var value any
		if text != nil {
			var err error
			if value, err = t.value(column, *text); err != nil {
				return err
			}
		}
		sets, values = append(sets, column+" = ?"), append(values, value)
	}
	var err error
	switch {
	case columns == nil:
		_, err = t.db.ExecContext(ctx, "DELETE FROM "+table+" WHERE id = ?", t.id(kind, n))
	case !isNew:
		_, err = t.db.ExecContext(ctx, "UPDATE "+table+" SET "+strings.Join(sets, ", ")+" WHERE id = ?", append(values, t.id(kind, n))...)
	case kind == "data":
		var result sql.Result
		if result, err = t.db.ExecContext(ctx, "INSERT INTO "+table+" SET "+strings.Join(sets, ", "), values...); err == nil {
			id, _ := result.LastInsertId()
			t.data.add(id)
		}
	default:
		if n > len(t.tasks.ids) {
			if err := t.newID(ctx); err != nil {
				return err
			}
		}
		if kind == "archive" {
			sets = append(sets, "duration = 0")
		}
		_, err = t.db.ExecContext(ctx, "INSERT INTO "+table+" SET id = ?, "+strings.Join(sets, ", "), append([]any{t.id(kind, n)}, values...)...)
	}
	return err
}

func (t *tables) id(kind string, n int) int64 {
	if kind == "data" {
		return t.data.ids[n-1]
	}
	return t.tasks.ids[n-1]
}

// newID takes an id as LiskDAO::loadNextCounterValue does.
func (t *tables) newID(ctx context.Context) error {
	result, err := t.db.ExecContext(ctx, `INSERT INTO lisk_counter (counterName, counterValue) VALUES ('worker_activetask', 1)
ON DUPLICATE KEY UPDATE counterValue = LAST_INSERT_ID(counterValue + 1)`)
	if err != nil {
		return err
	}
	id, err := result.LastInsertId()
	t.tasks.add(id)
	return err
}
