package plugins

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
)

// attempt is one execution of a task: what it may reach, and what it has open.
type attempt struct {
	site    *Site
	handler Handler
	shadow  *shadow                 // nil: what it does, it does
	given   context.Context         // ends when the task is cancelled
	cancel  context.CancelCauseFunc // ends the context of the handler

	mu          sync.Mutex
	over        bool
	life        context.Context // ends with the task; nil until something needs it
	stop        context.CancelFunc
	transacting bool
	rows        []openRows
	locks       map[*lock]func() // how to unlock them
}

// reach answers what the task may reach. A Task that a test made by hand
// reaches nothing.
func (t *Task) reach() *attempt {
	if t.attempt == nil {
		return &attempt{}
	}
	return t.attempt
}

// during answers a context for a call to a database: it ends with the given one
// or with the task, whatever the handler passed and wherever it calls from.
func (a *attempt) during(ctx context.Context) (context.Context, context.CancelFunc) {
	a.mu.Lock()
	if a.life == nil {
		a.life, a.stop = context.WithCancel(context.Background())
		if a.over {
			a.stop()
		}
	}
	life := a.life
	a.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	detach := context.AfterFunc(life, cancel)
	return ctx, func() {
		detach()
		cancel()
	}
}

// openRows are rows that a handler may not have closed yet.
type openRows struct {
	*sql.Rows
	cancel context.CancelFunc
	on     querier
}

// done gives up what rows that are closed still have. What broke them off may
// have ended the transaction that they were read in.
func (r openRows) done() {
	if s, ok := r.on.(interface{ failed(error) }); ok {
		s.failed(r.Err())
	}
	r.cancel()
}

func (r openRows) closed() bool {
	_, err := r.Columns()
	return err != nil
}

var (
	errOver = errors.New("the task has ended; what it started must not go on without it")
	errRows = errors.New("the rows of an earlier query are still open; read them to the end or close them first")
	errNoTx = errors.New("the transaction has ended")
	errInTx = errors.New("a transaction is open; use the tx that Transact gives, and nothing else until it ends")
)

// free answers why a call to a database must not be made now.
func (a *attempt) free(inTransaction bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.busy(inTransaction)
}

func (a *attempt) busy(inTransaction bool) error {
	a.rows = slices.DeleteFunc(a.rows, func(r openRows) bool {
		if r.closed() {
			r.done()
			return true
		}
		return false
	})
	switch {
	case a.over:
		return errOver
	case a.site == nil:
		return errNoSite
	case a.transacting && !inTransaction:
		return errInTx
	case !a.transacting && inTransaction:
		return errNoTx
	case len(a.rows) > 0:
		return errRows
	}
	return nil
}

// opened notes rows that a handler was given.
func (a *attempt) opened(rows openRows) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		rows.cancel()
		return
	}
	a.rows = append(a.rows, rows)
}

// enter begins the one transaction that a task may have.
func (a *attempt) enter() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.busy(false); err != nil {
		return err
	}
	a.transacting = true
	return nil
}

func (a *attempt) leave() {
	a.mu.Lock()
	a.transacting = false
	a.mu.Unlock()
}

// end closes what the handler left open, so that nothing of a task outlives
// it.
func (a *attempt) end() {
	a.mu.Lock()
	a.over = true
	if a.stop != nil {
		a.stop()
	}
	held := a.locks
	a.locks = nil
	a.mu.Unlock()
	for _, r := range a.takeRows() {
		r.cancel() // or closing would read what the server has yet to send
		r.Close()
	}
	for _, unlock := range held {
		unlock()
	}
}

// closeRows closes what a transaction left open. A context that ends would cut
// its connection.
func (a *attempt) closeRows() {
	for _, r := range a.takeRows() {
		r.Close()
		r.done()
	}
}

func (a *attempt) takeRows() []openRows {
	a.mu.Lock()
	defer a.mu.Unlock()
	rows := a.rows
	a.rows = nil
	return rows
}
