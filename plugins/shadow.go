package plugins

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
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
	*session
	application string
	db          *sql.DB
	fixed       map[string]string // by name, why a shadow run must leave it alone; nil: not asked for yet
	points      int               // savepoints that were made
}

// Shadow runs a task as ExecuteAt does, and leaves no trace: requests through
// Task.Transport are noted and answered with 200 and no body, writes happen in
// a transaction that is rolled back, and a lock is looked at and not taken. It
// answers what the outcome would be and what the run would have done. What the
// handler does past its Task, it does.
//
// Ids that a table gave to rows stay used up, and the rows that were written
// are locked until the run ends. A run that loses a deadlock loses all that it
// wrote to that database; what it does after that is noted, and undone too.
func (h Handler) Shadow(ctx context.Context, site *Site, task tasks.Task) (tasks.Outcome, Effects) {
	leave, err := site.enterShadow(ctx)
	if err != nil {
		return tasks.Outcome{Kind: tasks.Retry, Wait: DefaultWait, Reason: err.Error()}, Effects{}
	}
	defer leave()
	s := &shadow{site: site, databases: map[string]*shadowed{}}
	defer s.end()
	outcome := h.execute(ctx, &attempt{site: site, handler: h, shadow: s}, task, nil)
	return outcome, s.end()
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

// end undoes everything, and answers what the run would have done. A
// connection is closed and not kept, so that whatever state it is in, nothing
// of it remains.
func (s *shadow) end() Effects {
	s.calls.Lock()
	defer s.calls.Unlock()
	s.mu.Lock()
	databases := s.databases
	s.databases = nil
	s.mu.Unlock()
	for _, d := range databases {
		d.turn.Lock()
		d.goesOn() // or a write is noted that the server has undone
		d.session.run("ROLLBACK")
		d.discard()
		d.db.Close()
		d.turn.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effects
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
	// What the shadow run wants to write may be what the real one writes now.
	// Not under the context of a call: the session outlives it.
	session, err := openSession(context.Background(), db, ", innodb_lock_wait_timeout = 5")
	if err != nil {
		db.Close()
		return nil, err
	}
	session.lost = func() { s.keep(application, 0) }
	d := &shadowed{session: session, application: application, db: db}
	s.databases[application] = d
	return d, nil
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

// writes answers how many writes to a database are noted.
func (s *shadow) writes(application string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.effects.Writes {
		if w.Database == application {
			n++
		}
	}
	return n
}

// keep drops the writes to a database but the first n: they were undone.
func (s *shadow) keep(application string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.effects.Writes = slices.DeleteFunc(s.effects.Writes, func(w Written) bool {
		if w.Database == application {
			n--
		}
		return w.Database == application && n < 0
	})
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
