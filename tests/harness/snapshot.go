package harness

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Snapshot is every row of every database of a Phorge, at one moment at which
// nobody writes.
type Snapshot struct {
	epoch  int64 // of the database's clock
	tables map[string]*table
}

// table is the content of one table. Its name is database.table, without the
// namespace.
type table struct {
	columns []string
	key     []int         // columns of the primary key
	counter sql.NullInt64 // the next value of AUTO_INCREMENT
	rows    [][]sql.NullString
}

// The content of a database is read as bytes and written as the same bytes,
// whatever characters the columns hold.
func (p *Phorge) openBytes() (*sql.DB, error) {
	c, err := mysql.ParseDSN(p.Server().DSN(""))
	if err != nil {
		return nil, err
	}
	c.MultiStatements = true
	c.InterpolateParams = true
	c.Params = map[string]string{
		"charset":            "binary",
		"foreign_key_checks": "0",
		"sql_mode":           "'NO_AUTO_VALUE_ON_ZERO'",
	}
	parsed, err := mysql.ParseDSN(c.FormatDSN())
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(parsed)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	return db, nil
}

// Snapshot reads every row.
func (p *Phorge) Snapshot(ctx context.Context) (*Snapshot, error) {
	db, err := p.openBytes()
	if err != nil {
		return nil, err
	}
	s, err := p.read(ctx, db)
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, fmt.Errorf("read every row of the scratch Phorge: %w", err)
	}
	return s, nil
}

// SHOW INDEX and the like answer for one table at a time; there are five
// hundred.
const listTables = `
SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.AUTO_INCREMENT, GROUP_CONCAT(k.COLUMN_NAME ORDER BY k.ORDINAL_POSITION)
FROM information_schema.TABLES t
LEFT JOIN information_schema.KEY_COLUMN_USAGE k
  ON k.TABLE_SCHEMA = t.TABLE_SCHEMA AND k.TABLE_NAME = t.TABLE_NAME AND k.CONSTRAINT_NAME = 'PRIMARY'
WHERE t.TABLE_SCHEMA LIKE ? AND t.TABLE_TYPE = 'BASE TABLE'
GROUP BY t.TABLE_SCHEMA, t.TABLE_NAME, t.AUTO_INCREMENT`

func (p *Phorge) read(ctx context.Context, db *sql.DB) (*Snapshot, error) {
	s := &Snapshot{tables: map[string]*table{}}
	if err := db.QueryRowContext(ctx, "SELECT UNIX_TIMESTAMP()").Scan(&s.epoch); err != nil {
		return nil, err
	}
	keys := map[string][]string{}
	found, err := db.QueryContext(ctx, listTables, p.Namespace()+`\_%`)
	if err != nil {
		return nil, err
	}
	for found.Next() {
		var database, name string
		var key sql.NullString
		t := &table{}
		if err := found.Scan(&database, &name, &t.counter, &key); err != nil {
			return nil, err
		}
		name = strings.TrimPrefix(database, p.Namespace()+"_") + "." + name
		s.tables[name], keys[name] = t, strings.Split(key.String, ",")
	}
	if err := errors.Join(found.Err(), found.Close()); err != nil {
		return nil, err
	}
	for name, t := range s.tables {
		if err := t.read(ctx, db, p.quoted(name), keys[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return s, nil
}

func (t *table) read(ctx context.Context, db *sql.DB, quoted string, key []string) error {
	found, err := db.QueryContext(ctx, "SELECT * FROM "+quoted)
	if err != nil {
		return err
	}
	defer found.Close()
	if t.columns, err = found.Columns(); err != nil {
		return err
	}
	for i, column := range t.columns {
		if slices.Contains(key, column) {
			t.key = append(t.key, i)
		}
	}
	for found.Next() {
		row := make([]sql.NullString, len(t.columns))
		into := make([]any, len(row))
		for i := range row {
			into[i] = &row[i]
		}
		if err := found.Scan(into...); err != nil {
			return err
		}
		t.rows = append(t.rows, row)
	}
	slices.SortFunc(t.rows, t.order)
	return found.Err()
}

// quoted answers a name as SQL wants it.
func (p *Phorge) quoted(name string) string {
	database, table, _ := strings.Cut(name, ".")
	return "`" + p.Namespace() + "_" + database + "`.`" + table + "`"
}

// Restore brings every table back to what it was, and the next id of it, and
// forgets the executions and the mails.
// Nothing may be working on the Phorge.
func (p *Phorge) Restore(ctx context.Context, s *Snapshot) error {
	db, err := p.openBytes()
	if err != nil {
		return err
	}
	if err := errors.Join(p.write(ctx, db, s), db.Close(), p.forget()); err != nil {
		return fmt.Errorf("restore the scratch Phorge: %w", err)
	}
	return nil
}

func (p *Phorge) write(ctx context.Context, db *sql.DB, s *Snapshot) error {
	now, err := p.read(ctx, db)
	if err != nil {
		return err
	}
	for name, was := range s.tables {
		is := now.tables[name]
		if is != nil && is.counter == was.counter && slices.EqualFunc(is.rows, was.rows, slices.Equal) {
			continue
		}
		if err := was.write(ctx, db, p.quoted(name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (t *table) write(ctx context.Context, db *sql.DB, quoted string) error {
	if _, err := db.ExecContext(ctx, "TRUNCATE "+quoted); err != nil {
		return err
	}
	one := "(" + strings.TrimSuffix(strings.Repeat("?,", len(t.columns)), ",") + ")"
	for rows := range slices.Chunk(t.rows, 100) {
		var values []any
		for _, row := range rows {
			for _, value := range row {
				if value.Valid {
					values = append(values, []byte(value.String))
				} else {
					values = append(values, nil)
				}
			}
		}
		all := strings.TrimSuffix(strings.Repeat(one+",", len(rows)), ",")
		if _, err := db.ExecContext(ctx, "INSERT INTO "+quoted+" VALUES "+all, values...); err != nil {
			return err
		}
	}
	if !t.counter.Valid {
		return nil
	}
	_, err := db.ExecContext(ctx, fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT = %d", quoted, t.counter.Int64))
	return err
}
