// Package embedded is the task store in one SQLite file: nothing to install,
// nothing to configure. Any number of processes of one host may work on the
// same file at the same time.
//
// The story of a task: enqueue.go inserts it, lease.go finds due tasks by the
// indexes of schema.go, whose cost does not grow with the queue, and takes
// them; renew.go keeps leases alive and settle.go ends them. Every settlement
// names the owner it holds the row under, and a row that carries another owner
// is left alone. inspect.go and operate.go are what a person does to the queue,
// service.go what callers of other processes want besides, attempts.go keeps why
// tasks failed, and archive.go forgets old tasks.
//
// # Writing
//
// SQLite has one writer at a time. Calls of one Store that write at the same
// moment share a transaction (write.go), and with it the wait for the disk;
// Stores of other processes are waited for, up to Config.Patience. A call has
// its answer only after its transaction was committed with synchronous=FULL to
// the write-ahead log: what was answered survives kill -9 of every process, and
// a power failure, if the disk keeps what fsync reported as written. A call
// that answers tasks.ErrUnavailable changed nothing, with one exception: when
// the disk reports an error in the middle of a commit, and the machine then
// goes down before anybody wrote again, the commit can come back with it.
//
// # Time
//
// The file has no clock of its own. Time is the clock of the host, which all
// the processes share, in whole seconds; and it never goes backwards within a
// file, because every transaction that writes leaves in it the latest time that
// was seen. When the clock of the host is set back, time stands still in the
// queue until the clock has caught up: waits last longer by as much, and
// nothing is run early or twice. When it is set forward, leases and waits end
// at once: tasks whose holders live are left alone for five more seconds, in
// which a holder that renews as it should revives them, and others run again.
// After a jump into the future by mistake the file remembers the mistake: Open
// refuses a file that has seen more than a day that is still to come, and says
// how to make it forget.
//
// # The file
//
// The file and the two that SQLite puts beside it (-wal, -shm) belong together:
// copy them with `sqlite3 queue.db ".backup copy.db"`, never one of them with
// cp while something runs. They are readable for their owner alone. WAL needs
// memory that all processes share, which network filesystems do not have, so
// those are refused. Space that the archive gave back is used again, but the
// file never shrinks by itself; VACUUM does that.
package embedded

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"

	"github.com/phorge-gantry/gantry/tasks"
)

// Config says which queue a Store works on, and how.
type Config struct {
	// Path of the file. It is created, with mode 0600, when there is none; its
	// directory must exist.
	Path string

	// Host stands in owner strings, for people who ask who holds a task.
	// Default: the host name.
	Host string

	// Patience is how long a call waits for other processes that write, before
	// it fails with tasks.ErrUnavailable. Default 10 s.
	Patience time.Duration

	// ArchiveAge is how long archived tasks are kept with their data, counted
	// from the end of their last attempt. Default 14 days, as Phorge's collector
	// worker.tasks; negative: for ever.
	ArchiveAge time.Duration

	// ArchiveRows is how many archived tasks are kept at most. Default 0: no
	// bound.
	ArchiveRows int64

	// Repeated is told each time that something has to be tried again because
	// another process works on the file, with the reason busy. It must be quick.
	// Nil: nobody is told.
	Repeated func(reason string)

	// Clock is the clock of the host. Default time.Now; others are for tests.
	// All the processes on a file must use the same.
	Clock func() time.Time
}

// Store is the queue in one file. It implements tasks.Service and is safe for
// concurrent use.
type Store struct {
	config Config
	path   string
	info   fs.FileInfo
	nonce  string // tells this handle from every other in owner strings

	db      [2]*sql.DB // for writing, for reading
	readers chan *conn // those that nobody uses
	writer  writer
	seen    atomic.Int64 // the latest time that this handle answered
	trimmed atomic.Int64 // when old archived tasks were last looked for

	mu    sync.Mutex
	after string // the class behind which the next Lease looks on, of very many
}

var _ tasks.Service = (*Store)(nil)

// readConns is how many calls read at the same time.
const readConns = 4

// Open opens a queue, or creates it. Its errors wrap tasks.ErrUnavailable when
// trying again later may help.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.Host == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("ask for the host name: %w", err)
		}
		c.Host = host
	}
	if c.Patience == 0 {
		c.Patience = 10 * time.Second
	}
	if c.ArchiveAge == 0 {
		c.ArchiveAge = 14 * 24 * time.Hour
	}
	if c.Repeated == nil {
		c.Repeated = func(string) {}
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", c.Path, err)
	}
	info, err := prepareFile(path)
	if err != nil {
		return nil, err
	}
	s := &Store{
		config:  c,
		path:    path,
		info:    info,
		nonce:   strings.ToLower(rand.Text()[:8]),
		readers: make(chan *conn, readConns),
	}
	s.writer.turn = make(chan struct{}, 1)
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(s.explain(err), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	// Switches of the process; an error means that the system has no such thing.
	// The first leaves out of a commit the times of the file, which are of no use
	// to anybody. With the second, whatever else in this process opens the file
	// and closes it cannot give up the locks on it.
	_, _ = sqlite.Fdatasync(true)
	_, _ = sqlite.OFDLocking(true)
	for i, pragmas := range [][]string{writerPragmas, readerPragmas} {
		db, err := sql.Open("sqlite", dsn(s.path, pragmas))
		if err != nil {
			return err
		}
		db.SetMaxIdleConns(0)
		s.db[i] = db
	}
	err := s.patiently(ctx, func() (err error) {
		s.writer.conn, err = connect(ctx, s.db[0])
		return err
	})
	if err != nil {
		return err
	}
	if err := s.upgrade(ctx); err != nil {
		return err
	}
	if err := s.checkClock(ctx); err != nil {
		return err
	}
	for range readConns {
		err := s.patiently(ctx, func() error {
			c, err := connect(ctx, s.db[1])
			if err == nil {
				s.readers <- c
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Close ends the connections. It must not be called while other calls run.
// Leases stay as they are.
func (s *Store) Close() error {
	var errs []error
	for len(s.readers) > 0 {
		errs = append(errs, (<-s.readers).close())
	}
	if s.writer.conn != nil {
		errs = append(errs, s.writer.conn.close())
		s.writer.conn = nil
	}
	for _, db := range s.db {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// ownerFor is the leaseOwner of tasks leased under a fence for a caller of that
// name, or for this Gantry when there is none.
func (s *Store) ownerFor(name string, fence int64, crashes int) string {
	if name != "" {
		return tasks.Caller{Name: name, Fence: fence}.String()
	}
	return tasks.Owner{Fence: fence, Crashes: crashes, Nonce: s.nonce, Host: s.config.Host}.String()
}
