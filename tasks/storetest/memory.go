package storetest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// Memory is the reference model: a queue in this process that states in plain
// Go what every tasks.Store and tasks.Operator does. The suite compares each
// answer of a real store with its answer, and the runtime's tests use it as a
// store. It is safe for concurrent use.
//
// A Memory is one Gantry process; Process answers another one on the same
// queue. As Rows it also does to the queue what programs do that do not know
// Gantry.
type Memory struct {
	*queue
	nonce, host string
}

// queue is what the processes share: the tables and the counters.
type queue struct {
	mu       sync.Mutex
	clock    func() int64
	active   map[int64]tasks.Task
	archived map[int64]tasks.Record
	made     map[int64]int64 // when an id came to be, for the pickup delay
	lastID   int64
	given    []int64 // ids that another store gave out and that this one follows
	fence    int64
	inbox    map[string]remembered // by idempotency key
	failed   map[int64][]tasks.Attempt
}

var (
	_ tasks.Service = (*Memory)(nil)
	_ Rows          = (*Memory)(nil)
)

// NewMemory answers an empty queue. The clock answers the epoch in seconds, as
// the database's clock does for a real store.
func NewMemory(clock func() int64) *Memory {
	return &Memory{nonce: "memory", host: "model", queue: &queue{
		clock:    clock,
		active:   map[int64]tasks.Task{},
		archived: map[int64]tasks.Record{},
		made:     map[int64]int64{},
		inbox:    map[string]remembered{},
		failed:   map[int64][]tasks.Attempt{},
	}}
}

// Process answers another Gantry process on the same queue. The nonce tells it
// from the others: lower-case letters and digits.
func (m *Memory) Process(nonce string) *Memory {
	return &Memory{queue: m.queue, nonce: nonce, host: m.host}
}

// enter begins a call: all calls happen one after the other.
func (m *Memory) enter(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	return m.mu.Unlock, nil
}

// Enqueue implements tasks.Store.
func (m *Memory) Enqueue(ctx context.Context, news []tasks.NewTask) ([]int64, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return m.insert(news, tasks.PriorityDefault)
}

// insert queues all or none.
func (m *Memory) insert(news []tasks.NewTask, priority int) ([]int64, error) {
	for _, n := range news {
		if err := n.Validate(); err != nil {
			return nil, err
		}
	}
	now := m.clock()
	var ids []int64
	for _, n := range news {
		task := tasks.Task{
			ID:            m.nextID(),
			Class:         n.Class,
			Data:          bytes.Clone(n.Data),
			Priority:      priority,
			ObjectPHID:    n.ObjectPHID,
			ContainerPHID: n.ContainerPHID,
			Traceparent:   n.Traceparent,
			DateCreated:   now,
			DateModified:  now,
		}
		if n.Priority != nil {
			task.Priority = *n.Priority
		}
		if n.DelayUntil > 0 {
			task.Place = place(tasks.DelayOwner, n.DelayUntil)
		}
		m.active[task.ID] = task
		m.made[task.ID] = now
		ids = append(ids, task.ID)
	}
	return ids, nil
}

func (m *Memory) nextID() int64 {
	m.lastID++
	if len(m.given) > 0 {
		m.lastID, m.given = m.given[0], m.given[1:]
	}
	return m.lastID
}

// place is the lease columns with both of them set. An epoch that the column
// cannot hold becomes the nearest one that it can.
func place(owner string, expires int64) tasks.Place {
	expires = min(max(expires, 0), math.MaxUint32)
	return tasks.Place{Owner: &owner, Expires: &expires}
}

// later answers the epoch a wait leads to. A negative wait leads into the
// past, so the task is due at once.
func later(now int64, wait time.Duration) int64 {
	return min(max(now+int64(wait/time.Second), 0), math.MaxUint32)
}

// copied is a row as it leaves the queue: the caller's to change.
func copied(task tasks.Task) tasks.Task {
	task.Data = bytes.Clone(task.Data)
	return task
}

// looked is a row as it leaves the queue for who only looks at it.
func looked(task tasks.Task) tasks.Task {
	task = copied(task)
	task.Traceparent = ""
	return task
}

// byID answers the rows of a table in the order of their ids.
func byID[R any](table map[int64]R) []R {
	rows := make([]R, 0, len(table))
	for _, id := range slices.Sorted(maps.Keys(table)) {
		rows = append(rows, table[id])
	}
	return rows
}

func missing(id int64) error { return fmt.Errorf("task %d: %w", id, tasks.ErrNotFound) }

// value orders NULL before everything else, as MySQL does.
func value(column *int64) int64 {
	if column == nil {
		return math.MinInt64
	}
	return *column
}

func byPriority(a, b tasks.Task) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.ID, b.ID))
}

func byExpiry(a, b tasks.Task) int {
	return cmp.Or(cmp.Compare(value(a.Expires), value(b.Expires)), cmp.Compare(a.ID, b.ID))
}
