package rows

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Row is the values of a row, in the order of the columns of its table.
type Row = []sql.NullString

// Table is the content of one table.
type Table struct {
	Columns []string
	Key     []string // columns of the primary key, in its order; may be none
	Rows    []Row    // by their key, numbers as numbers

	// Next is the next value of AUTO_INCREMENT, where there is one. ReadAll
	// alone knows it.
	Next sql.NullInt64

	key []int // where Key is among Columns
}

// Read reads a table whose key is known.
func (n Namespace) Read(ctx context.Context, db *sql.DB, name string, key []string) (*Table, error) {
	t := &Table{Key: key}
	if err := t.read(ctx, db, n.Quoted(name)); err != nil {
		return nil, fmt.Errorf("read the table %s: %w", name, err)
	}
	slices.SortFunc(t.Rows, t.order)
	return t, nil
}

func (t *Table) read(ctx context.Context, db *sql.DB, quoted string) error {
	found, err := db.QueryContext(ctx, "SELECT * FROM "+quoted)
	if err != nil {
		return err
	}
	defer found.Close()
	if t.Columns, err = found.Columns(); err != nil {
		return err
	}
	for _, column := range t.Key {
		t.key = append(t.key, slices.Index(t.Columns, column))
	}
	for found.Next() {
		row := make(Row, len(t.Columns))
		into := make([]any, len(row))
		for i := range row {
			into[i] = &row[i]
		}
		if err := found.Scan(into...); err != nil {
			return err
		}
		t.Rows = append(t.Rows, row)
	}
	return found.Err()
}

// KeyOf is the primary key of a row, or all of the row where a table has none,
// with spaces between the values.
func (t *Table) KeyOf(row Row) string {
	var parts []string
	for _, value := range t.keyValues(row) {
		parts = append(parts, value.String)
	}
	return strings.Join(parts, " ")
}

func (t *Table) keyValues(row Row) Row {
	if len(t.key) == 0 {
		return row
	}
	values := make(Row, len(t.key))
	for i, column := range t.key {
		values[i] = row[column]
	}
	return values
}

func (t *Table) order(a, b Row) int {
	return slices.CompareFunc(t.keyValues(a), t.keyValues(b), func(a, b sql.NullString) int {
		m, errM := strconv.ParseUint(a.String, 10, 64)
		n, errN := strconv.ParseUint(b.String, 10, 64)
		if errM == nil && errN == nil && m != n {
			return cmp.Compare(m, n)
		}
		return cmp.Compare(a.String, b.String)
	})
}

// Same reports whether a table holds the rows of another.
func (t *Table) Same(other *Table) bool { return slices.EqualFunc(t.Rows, other.Rows, slices.Equal) }

// Change is how a row differs from what it was.
type Change struct {
	Key      string // of the row, as KeyOf answers it
	Old, New Row    // nil: there was no such row, or there is none any more
}

// Since answers how a table differs from what it held before: first the rows that
// are there, then those that are gone.
func (t *Table) Since(before *Table) []Change {
	was := map[string][]Row{} // rows of a table without a key can be equal
	for _, row := range before.Rows {
		key := t.KeyOf(row)
		was[key] = append(was[key], row)
	}
	var changes []Change
	for _, row := range t.Rows {
		key := t.KeyOf(row)
		var old Row
		if there := was[key]; len(there) > 0 {
			old, was[key] = there[0], there[1:]
		}
		if !slices.Equal(old, row) {
			changes = append(changes, Change{key, old, row})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		for _, old := range was[key] {
			changes = append(changes, Change{Key: key, Old: old})
		}
	}
	return changes
}

// Writer is a *sql.DB or a *sql.Tx.
type Writer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Remove removes a row of a table that has a key.
func (t *Table) Remove(ctx context.Context, w Writer, quoted string, row Row) error {
	var where []string
	for _, column := range t.Key {
		where = append(where, Quote(column)+" = ?")
	}
	_, err := w.ExecContext(ctx, "DELETE FROM "+quoted+" WHERE "+strings.Join(where, " AND "), arguments(t.keyValues(row))...)
	return err
}

// putRows bounds one statement.
const putRows = 100

// Put writes rows, over those of the same key.
func (t *Table) Put(ctx context.Context, w Writer, quoted string, rows []Row) error {
	one := "(" + strings.TrimSuffix(strings.Repeat("?,", len(t.Columns)), ",") + ")"
	for part := range slices.Chunk(rows, putRows) {
		var values []any
		for _, row := range part {
			values = append(values, arguments(row)...)
		}
		all := strings.TrimSuffix(strings.Repeat(one+",", len(part)), ",")
		if _, err := w.ExecContext(ctx, "REPLACE INTO "+quoted+" VALUES "+all, values...); err != nil {
			return err
		}
	}
	return nil
}

func arguments(row Row) []any {
	var values []any
	for _, value := range row {
		if value.Valid {
			values = append(values, []byte(value.String))
		} else {
			values = append(values, nil)
		}
	}
	return values
}
