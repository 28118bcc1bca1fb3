package embedded

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/url"
)

var (
	// Waiting for others is our own business (patiently), because SQLite's own
	// wait has no jitter: processes that met once meet again.
	writerPragmas = []string{
		"busy_timeout(0)", "synchronous(FULL)", "trusted_schema(0)", "temp_store(MEMORY)",
		"cache_size(-32000)", "journal_size_limit(67108864)",
	}
	readerPragmas = []string{"busy_timeout(0)", "query_only(1)", "trusted_schema(0)", "temp_store(MEMORY)"}
)

// dsn names a file that must exist.
func dsn(path string, pragmas []string) string {
	query := url.Values{"mode": {"rw"}, "_defensive": {"1"}, "_dqs": {"0"}, "_error_rc": {"1"}, "_pragma": pragmas}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
}

// conn is a connection, for one goroutine at a time. It keeps every statement
// that it ever prepared; they are as many as there are in the source.
//
// What it does cannot be cancelled: every statement is bounded, and one that
// was cut short would have to be undone.
type conn struct {
	*sql.Conn
	prepared map[string]*sql.Stmt
}

func connect(ctx context.Context, db *sql.DB) (*conn, error) {
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{c, map[string]*sql.Stmt{}}, nil
}

func (c *conn) close() error {
	var errs []error
	for _, statement := range c.prepared {
		errs = append(errs, statement.Close())
	}
	return errors.Join(append(errs, c.Close())...)
}

func (c *conn) prepare(query string) (*sql.Stmt, error) {
	if statement := c.prepared[query]; statement != nil {
		return statement, nil
	}
	statement, err := c.PrepareContext(context.Background(), query)
	if err == nil {
		c.prepared[query] = statement
	}
	return statement, err
}

func (c *conn) exec(query string, args ...any) error {
	_, err := c.changed(query, args...)
	return err
}

// changed answers how many rows were changed.
func (c *conn) changed(query string, args ...any) (int64, error) {
	statement, err := c.prepare(query)
	if err != nil {
		return 0, err
	}
	result, err := statement.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// script runs statements that are not worth keeping.
func (c *conn) script(statements string) error {
	_, err := c.ExecContext(context.Background(), statements)
	return err
}

// row reads the one row that a query answers.
func (c *conn) row(query string, args []any, into ...any) error {
	statement, err := c.prepare(query)
	if err != nil {
		return err
	}
	return statement.QueryRowContext(context.Background(), args...).Scan(into...)
}

// rows reads every row that a query answers.
func (c *conn) rows(query string, args []any, each func(scan func(into ...any) error) error) error {
	statement, err := c.prepare(query)
	if err != nil {
		return err
	}
	found, err := statement.QueryContext(context.Background(), args...)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		if err := each(found.Scan); err != nil {
			return err
		}
	}
	return found.Err()
}

// rollback undoes what is not committed. After some errors SQLite has done so
// already, and then this fails.
func (c *conn) rollback() { _ = c.exec("ROLLBACK") }

// list is the form in which ids go into a statement:
// id IN (SELECT value FROM json_each(?)).
func list(ids []int64) string {
	text, err := json.Marshal(ids)
	if err != nil {
		panic(err) // they are numbers
	}
	return string(text)
}
