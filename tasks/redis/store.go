// Package redis is the task store on Redis, version 7.0 or later, alone, behind
// Sentinel or as a cluster. Any number of hosts may work on one queue.
//
// # Keys
//
// A queue is named by its instance, and all of its keys begin with
// {gantry:<instance>}: which puts them in one slot of a cluster. A task is one
// hash, task:<id>, with Phorge's column names as fields and the exact bytes of its
// data; it stays where it is when the task is archived, and is deleted when the
// archive forgets it. What is due, and in which order, stands in indexes: sorted
// sets, one for each lane of a class (lua/places.lua), so that a lease looks at the
// ends of a few sets, whatever is in them. The hash is the truth, an index only
// says where to look: whoever comes upon an entry that the hash does not confirm
// mends it, and mend.go looks for the others, a few each second.
//
// # Calls
//
// Every call that changes something is one script, and nobody sees half of it.
// Time is the clock of the server. Settlements and renewals name the owner that
// they hold a task under, so repeating them is harmless; the other calls carry a
// number, by which the server tells a call that it has answered before, and are
// repeated until it is known what became of them (call.go).
//
// # What is lost when
//
// What a call answered survives whatever happens to the clients. On the side of
// the server that is up to its configuration. With appendonly yes and appendfsync
// always it survives kill -9 of the server and a power failure, if the disk keeps
// what fsync reported as written. With appendfsync everysec, the default, up to two
// seconds can be lost: tasks that were queued in them are gone, and those that were
// settled in them run again. Without an append-only file everything since the last
// snapshot is lost, so Open refuses such a server unless Config.Volatile is set. A
// replica that takes over lacks what had not reached it; min-replicas-to-write
// bounds how much that is. No eviction policy but noeviction is accepted, whether
// there is a maxmemory or not, because a task that was evicted is lost without a
// trace, and maxmemory can be set at any time.
//
// Slots of a running cluster should not be moved while tasks are queued: a script
// that meets a task on another node stops halfway. Nothing is lost or settled twice
// by that, but indexes have to be mended.
package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/tasks"
)

// Config says which queue a Store works on, and how.
type Config struct {
	// URL of the server: redis://user:password@host:6379/0, rediss:// with TLS, or
	// unix:///path/to/socket?db=0. Of a cluster one node is enough; more are named
	// by ?addr=host:port, which may be repeated. ?volatile=true is Volatile.
	URL string

	// Options say more than a URL can, such as the Sentinels of a master. When they
	// are set, URL is ignored.
	Options *goredis.UniversalOptions

	// Instance names the queue: letters, digits and ._- . Default "default".
	Instance string

	// Host stands in owner strings, for people who ask who holds a task.
	// Default: the host name.
	Host string

	// Volatile accepts a server without an append-only file, which loses tasks when
	// it ends.
	Volatile bool

	// ArchiveAge is how long archived tasks are kept with their data, counted from
	// the end of their last attempt. Default 14 days, as Phorge's collector
	// worker.tasks; negative: for ever.
	ArchiveAge time.Duration

	// ArchiveRows is how many archived tasks are kept at most. Default 0: no bound.
	ArchiveRows int64

	// Repeated is told each time that a server is asked again because its answer was
	// lost, with the reason connection. It must be quick. Nil: nobody is told.
	Repeated func(reason string)

	// Log says what a server that was accepted can lose, and what was mended.
	// Default: nothing.
	Log zerolog.Logger

	clock func() int64 // of tests; nil is the clock of the server
}

// Store is one queue. It implements tasks.Service and is safe for concurrent use.
type Store struct {
	config Config
	client goredis.UniversalClient
	place  string // of the server and the queue, for errors
	root   string // how every key begins
	nonce  string // tells this handle from every other in owner strings

	calls     calls
	gatherer  gatherer
	mender    mender
	opened    time.Time
	upkeepDue atomic.Int64 // when the queue is to be looked after, as time since opened

	mu    sync.Mutex
	after string // the class behind which the next Lease looks on, of very many
}

var _ tasks.Service = (*Store)(nil)

var instances = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Open opens a queue, or creates it. Its errors wrap tasks.ErrUnavailable when
// trying again later may help.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.Instance == "" {
		c.Instance = "default"
	}
	if !instances.MatchString(c.Instance) {
		return nil, fmt.Errorf("instance %q must be 1 to 64 letters, digits, dots, dashes or underscores", c.Instance)
	}
	if c.Host == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("ask for the host name: %w", err)
		}
		c.Host = host
	}
	if c.Repeated == nil {
		c.Repeated = func(string) {}
	}
	if c.ArchiveAge == 0 {
		c.ArchiveAge = 14 * 24 * time.Hour
	}
	s := &Store{
		config: c,
		root:   "{gantry:" + c.Instance + "}:",
		opened: time.Now(),
		nonce:  strings.ToLower(rand.Text()[:8]),
	}
	s.gatherer.turn = make(chan struct{}, gatherTurns)
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// layout is the version of the keys that this program reads and writes.
const layout = "1"

func (s *Store) open(ctx context.Context) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	version, err := s.run(ctx, openScript, layout)
	if err != nil {
		return err
	}
	if version != layout {
		return fmt.Errorf("%s: another Gantry has upgraded it to version %v, and this one knows %s; use the newer one", s.place, version, layout)
	}
	return nil
}

// Close ends the connections. It must not be called while other calls run.
// Leases stay as they are.
func (s *Store) Close() error {
	if s.client == nil {
		return nil
	}
	client := s.client
	s.client = nil
	return client.Close()
}

// key answers the name of a key of the queue.
func (s *Store) key(name string) string { return s.root + name }

// archiveBounds are the rows and the seconds that the archive keeps, as scripts
// want them: negative when there is no bound.
func (s *Store) archiveBounds() (rows, age int64) {
	if rows = s.config.ArchiveRows; rows <= 0 {
		rows = -1
	}
	if age = int64(s.config.ArchiveAge / time.Second); s.config.ArchiveAge < 0 {
		age = -1
	}
	return rows, age
}
