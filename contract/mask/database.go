package mask

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// In answers a Look that reads the databases of a namespace. open answers a
// connection to the server that has the database of an application, such as
// herald; it is asked for one at every look. Nothing is written, and the server
// is told so.
func In(namespace string, open func(application string) (*sql.DB, error)) Look {
	return func(ctx context.Context, table Table, values []string) ([]Row, error) {
		db, err := open(table.Database)
		if err != nil {
			return nil, err
		}
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return nil, err
		}
		defer tx.Rollback()
		from := fmt.Sprintf("SELECT * FROM `%s_%s`.`%s`", namespace, table.Database, table.Name)
		numeric, err := isNumeric(ctx, tx, from, table.Column)
		if err != nil {
			return nil, err
		}
		args := arguments(values, numeric)
		if len(args) == 0 {
			return nil, nil
		}
		// One more than a case may hold is enough to know that there are too many.
		return read(ctx, tx, table, fmt.Sprintf("%s WHERE `%s` IN (?%s) LIMIT %d",
			from, table.Column, strings.Repeat(",?", len(args)-1), maxRows+1), args...)
	}
}

// isNumeric reports whether a column holds numbers.
func isNumeric(ctx context.Context, tx *sql.Tx, from, column string) (bool, error) {
	none, err := tx.QueryContext(ctx, from+" LIMIT 0")
	if err != nil {
		return false, err
	}
	defer none.Close()
	types, err := none.ColumnTypes()
	if err != nil {
		return false, err
	}
	for _, t := range types {
		if t.Name() == column {
			return numericType(t), none.Err()
		}
	}
	return false, fmt.Errorf("the table has no column %s; name the one that the data refers to, as in feed.feed_storydata.chronologicalKey", column)
}

func numericType(t *sql.ColumnType) bool {
	for _, word := range []string{"INT", "DECIMAL", "FLOAT", "DOUBLE"} {
		if strings.Contains(t.DatabaseTypeName(), word) {
			return true
		}
	}
	return false
}

// arguments answers the values as a column takes them. A number is never compared
// with a text: the server would take every text for 0, and round what is large.
func arguments(values []string, numeric bool) []any {
	var args []any
	for _, value := range values {
		switch n := whole(value).(type) {
		case string:
			if !numeric {
				args = append(args, value)
			}
		default:
			if numeric {
				args = append(args, n)
			} else {
				args = append(args, value)
			}
		}
	}
	return args
}

func read(ctx context.Context, tx *sql.Tx, table Table, query string, args ...any) ([]Row, error) {
	found, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	types, err := found.ColumnTypes()
	if err != nil {
		return nil, err
	}
	var rows []Row
	for found.Next() {
		values := make([]sql.NullString, len(types))
		into := make([]any, len(types))
		for i := range values {
			into[i] = &values[i]
		}
		if err := found.Scan(into...); err != nil {
			return nil, err
		}
		row := Row{Table: table}
		for i, t := range types {
			c := Column{Name: t.Name(), Numeric: numericType(t)}
			if values[i].Valid {
				c.Value = &values[i].String
			}
			row.Columns = append(row.Columns, c)
		}
		rows = append(rows, row)
	}
	return rows, found.Err()
}
