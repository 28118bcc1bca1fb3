package plugins

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync"

	"github.com/phorge-gantry/gantry/tasks"
)

// shadow is what a shadow run keeps to itself. A nil one is no shadow run.
type shadow struct {
	site *Site

	calls sync.Mutex // one call at a time: each database has one connection

	mu        sync.Mutex
	effects   Effects
	databases map[string]*shadowed
}

// shadowed is a database within a shadow run.
type shadowed struct {
	*sql.Tx
	db     *sql.DB
	fixed  map[string]bool // tables that cannot be rolled back; nil: not asked for yet
	points int             // savepoints that were made
}

// Shadow runs a task as ExecuteAt does, and leaves no trace: requests through
// Task.Transport are noted and answered with 200 and no body, writes happen in
// a transaction that is rolled back, and a lock is looked at and not taken. It
// answers what the outcome would be and what the run would have done. What the
// handler does past its Task, it does.
//
// Ids that a table gave to rows stay used up, and the rows that were written
// are locked until the run ends.
func (h Handler) Shadow(ctx context.Context, site *Site, task tasks.Task) (tasks.Outcome, Effects) {
	leave, err := site.enterShadow(ctx)
	if err != nil {
		return tasks.Outcome{Kind: tasks.Retry, Wait: DefaultWait, Reason: err.Error()}, Effects{}
	}
	defer leave()
	s := &shadow{site: site, databases: map[string]*shadowed{}}
	defer s.end()
	outcome := h.execute(ctx, &attempt{site: site, handler: h, shadow: s}, task, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	return outcome, s.effects
}

// enterShadow waits until few enough shadow runs are under way.
func (s *Site) enterShadow(ctx context.Context) (leave func(), err error) {
	if s == nil {
		return func() {}, nil
	}
	s.mu.Lock()
	if s.shadows == nil {
		s.shadows = make(chan struct{}, maxShadows)
	}
	places := s.shadows
	s.mu.Unlock()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// end undoes everything. A connection is closed and not kept, so that whatever
// state it is in, nothing of it remains.
func (s *shadow) end() {
	s.calls.Lock()
	defer s.calls.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.databases {
		d.Rollback()
		d.db.Close()
	}
	s.databases = nil
}

// alone waits until no other call of the run is under way.
func (s *shadow) alone() (leave func()) {
	if s == nil {
		return func() {}
	}
	s.calls.Lock()
	return s.calls.Unlock
}

// database answers the transaction in the database of an application.
func (s *shadow) database(application string) (*shadowed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.databases == nil {
		return nil, errOver
	}
	if d := s.databases[application]; d != nil {
		return d, nil
	}
	connector, err := s.site.connector(application)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	// Not under the context of a call: its end would end the transaction.
	tx, err := db.BeginTx(context.Background(), nil)
	if err == nil {
		// What the shadow run wants to write may be what the real one writes now.
		_, err = tx.Exec("SET SESSION innodb_lock_wait_timeout = 5")
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	d := &shadowed{Tx: tx, db: db}
	s.databases[application] = d
	return d, nil
}

// mayWrite refuses what a rollback would not undo.
func (s *shadow) mayWrite(ctx context.Context, application string, statement statement) error {
	if s == nil {
		return nil
	}
	d, err := s.database(application)
	if err != nil {
		return err
	}
	if d.fixed == nil {
		if d.fixed, err = fixedTables(ctx, d); err != nil {
			return err
		}
	}
	for _, name := range statement.names {
		if d.fixed[name] {
			return fmt.Errorf("the table %s has no transactions, so that a shadow run cannot undo what it writes there", name)
		}
	}
	return nil
}

func fixedTables(ctx context.Context, on querier) (map[string]bool, error) {
	rows, err := on.QueryContext(ctx, `SELECT TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE = 'BASE TABLE' AND COALESCE(ENGINE, '') <> 'InnoDB'`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	tables := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		tables[strings.ToLower(name)] = true
	}
	return tables, rows.Err()
}

// wrote notes a write.
func (s *shadow) wrote(application, query string, args []any, result sql.Result) error {
	if s == nil {
		return nil
	}
	changed, err := result.RowsAffected()
	if err != nil {
		return err
	}
	w := Written{Database: application, Query: query, Rows: changed}
	for _, arg := range args {
		w.Args = append(w.Args, text(arg))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.effects.Writes = append(s.effects.Writes, w)
	return nil
}

// text answers an argument as a person reads it.
func text(arg any) string {
	value, err := driver.DefaultParameterConverter.ConvertValue(arg)
	if err != nil {
		value = arg // the driver took it
	}
	switch v := value.(type) {
	case nil:
		return "NULL"
	case []byte:
		return string(v)
	}
	return fmt.Sprint(value)
}

// lookAtLock answers ErrLocked when somebody holds a lock.
func (a *attempt) lookAtLock(ctx context.Context, name string) error {
	server := &database{attempt: a, application: lockApplication, internal: true}
	var free sql.NullBool
	if err := server.QueryRow(ctx, "SELECT IS_FREE_LOCK(?)", name).Scan(&free); err != nil {
		return err
	}
	if !free.Bool {
		return ErrLocked
	}
	return nil
}
