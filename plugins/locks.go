package plugins

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// lockPulse is how often the connection that holds locks is looked at: the
	// loss of a lock is known so much later at most, and the time that the
	// server takes to answer.
	lockPulse = time.Second

	// lockTimeout bounds a try to take a lock: its turn, a connection and an
	// answer. A connection whose server is silent for longer counts as dead.
	lockTimeout = 10 * time.Second
)

// locks are the locks that a process holds, all on one connection: the servers
// that Phorge runs on have let a connection hold many since MySQL 5.7 and
// MariaDB 10.0.2. Who loses a race for one leaves nothing behind.
//
// When the connection dies, all of them are lost at once. More connections
// would bound that for a KILL of one, which is rare; the restart of a server,
// which is not, takes them all however many there are. Nor are the locks taken
// anew behind the back of their tasks: somebody else may have had one between.
// So every holder is told, and finishes what is under way (see Task.Lock),
// which makes the loss cost a task an attempt at most, and repeat nothing.
//
// No statement on that connection is under the context of a task, because the
// driver ends one by cutting the connection, and with it the locks of all.
type locks struct {
	db *sql.DB

	turn chan struct{} // held by who uses conn
	conn *sql.Conn     // nil while no lock is held; guarded by turn
	stop func()        // ends the watch over conn

	mu    sync.Mutex
	taken map[string]*lock
}

// lock is a lock that is held, or being taken.
type lock struct {
	all  *locks
	name string
	conn *sql.Conn // that holds it; nil before
	lost func(why error)
}

// lock takes a lock by the name that GET_LOCK knows. lost is called when it
// ends without having been released.
func (s *Site) lock(ctx context.Context, name string, lost func(why error)) (*lock, error) {
	all, err := s.lockKeeper()
	if err != nil {
		return nil, err
	}
	return all.take(ctx, name, lost)
}

func (s *Site) lockKeeper() (*locks, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errSiteClosed
	}
	if s.locks == nil {
		connector, err := s.connector(lockApplication)
		if err != nil {
			return nil, err
		}
		db := sql.OpenDB(connector)
		db.SetMaxOpenConns(1)
		db.SetConnMaxIdleTime(idleTime)
		s.locks = &locks{db: db, turn: make(chan struct{}, 1), taken: map[string]*lock{}}
	}
	return s.locks, nil
}

func (l *locks) take(ctx context.Context, name string, lost func(why error)) (*lock, error) {
	this := &lock{all: l, name: name, lost: lost}
	l.mu.Lock()
	if l.taken[name] != nil {
		l.mu.Unlock()
		return nil, ErrLocked
	}
	l.taken[name] = this
	l.mu.Unlock()

	if err := l.get(ctx, this); err != nil {
		l.forget(this)
		return nil, err
	}
	return this, nil
}

func (l *locks) get(ctx context.Context, this *lock) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockTimeout)
	defer cancel()
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-limited.Done():
		return errors.New("the server of the locks does not answer")
	}
	defer func() { <-l.turn }()
	if l.conn == nil {
		conn, err := l.db.Conn(limited)
		if err != nil {
			return err
		}
		l.conn = conn
		l.watch(conn)
	}
	var got sql.NullBool
	if err := l.conn.QueryRowContext(limited, "SELECT GET_LOCK(?, 0)", this.name).Scan(&got); err != nil {
		l.drop(err)
		return err
	}
	if !got.Bool {
		l.rest()
		return ErrLocked
	}
	this.conn = l.conn
	return nil
}

// release gives a lock back. When that fails, its connection ends, and that
// releases it too.
func (k *lock) release() {
	l := k.all
	l.turn <- struct{}{} // who has it is done within lockTimeout
	defer func() { <-l.turn }()
	conn := k.conn
	l.forget(k)
	if conn != l.conn {
		return // lost
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	if _, err := conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", k.name); err != nil {
		l.drop(err)
		return
	}
	l.rest()
}

func (l *locks) forget(this *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.taken, this.name)
}

// held answers the locks that a connection holds.
func (l *locks) held(conn *sql.Conn) []*lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	var held []*lock
	for _, this := range l.taken {
		if this.conn == conn {
			held = append(held, this)
		}
	}
	return held
}

// rest gives the connection back when it holds nothing, so that it is looked
// at before it is used again.
func (l *locks) rest() {
	if len(l.held(l.conn)) > 0 {
		return
	}
	l.stop()
	l.conn.Close()
	l.conn = nil
}

// drop ends the connection and tells everybody whose lock it held.
func (l *locks) drop(why error) {
	l.stop()
	l.conn.Raw(func(any) error { return driver.ErrBadConn }) // or it would be used again
	for _, this := range l.held(l.conn) {
		this.lost(why)
	}
	l.conn = nil
}

// watch looks after a connection while it holds locks. That its server closes
// it does not show by itself.
func (l *locks) watch(conn *sql.Conn) {
	watching, stop := context.WithCancel(context.Background())
	l.stop = stop
	go func() {
		pulse := time.NewTicker(lockPulse)
		defer pulse.Stop()
		for {
			select {
			case <-watching.Done():
				return
			case <-pulse.C:
			}
			l.look(watching, conn)
		}
	}()
}

func (l *locks) look(watching context.Context, conn *sql.Conn) {
	select {
	case l.turn <- struct{}{}:
	case <-watching.Done():
		return
	}
	defer func() { <-l.turn }()
	if watching.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	if err := conn.PingContext(ctx); err != nil {
		l.drop(fmt.Errorf("the connection that held it died: %w", err))
	}
}

// close ends the connection. What it held is lost.
func (l *locks) close() {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if l.conn != nil {
		l.drop(errSiteClosed)
	}
	l.db.Close()
}
