package embedded

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

// classRows is how many classes a call looks at in one lane when it wants
// classes that it does not name. The next call goes on behind them.
const classRows = 1000

// search finds due tasks on one snapshot of the file.
type search struct {
	*conn
	req  tasks.LeaseRequest
	now  int64
	left map[string]int // of the limits of the classes

	// Of very many classes those behind after are looked at. When that is not
	// all of them, until is the last one.
	after, until string
}

// classesSQL jumps from class to class in an index, so that its cost is the
// number of classes.
var classesSQL = map[lane]string{
	fresh:  jump("fresh", "0"),
	unripe: jump("unripeClass", "1"),
	parked: jump("parked", "2"),
	held:   jump("held", "3"),
}

func jump(index, lane string) string {
	next := func(after string) string {
		return `(SELECT taskClass FROM task INDEXED BY ` + index + ` WHERE lane = ` + lane + ` AND taskClass > ` + after +
			` ORDER BY taskClass LIMIT 1)`
	}
	return `WITH RECURSIVE class (name) AS (SELECT ` + next("?1") + ` UNION ALL SELECT ` + next("name") +
		` FROM class WHERE name IS NOT NULL LIMIT ?2) SELECT name FROM class WHERE name IS NOT NULL`
}

// classes answers classes of a lane, by name, and whether there may be more.
func (c *conn) classes(l lane, after string) (names []string, more bool, err error) {
	err = c.rows(classesSQL[l], []any{after, classRows}, func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		names = append(names, name)
		return err
	})
	return names, len(names) == classRows, err
}

// wanted answers the classes that a request wants of some lanes. Of very many
// it looks at a part, which is the same one in every lane.
func (sr *search) wanted(lanes []lane) (map[lane][]string, error) {
	names := map[lane][]string{}
	for _, l := range lanes {
		if sr.req.Others.Limit <= 0 {
			names[l] = slices.Collect(maps.Keys(sr.req.Classes))
			continue
		}
		found, more, err := sr.classes(l, sr.after)
		if err != nil {
			return nil, err
		}
		if last := len(found) - 1; more && (sr.until == "" || found[last] < sr.until) {
			sr.until = found[last]
		}
		names[l] = found
	}
	for l := range names {
		names[l] = slices.DeleteFunc(names[l], func(name string) bool {
			return sr.req.Want(name).Limit <= 0 || sr.until != "" && name > sr.until
		})
	}
	return names, nil
}

// Where a lane is read on: behind a row of the same key, and behind a key. Two
// statements, because SQLite reads all the rows of one key for a comparison of
// pairs. The rows come with what they hold: most of them are leased.
const (
	freshAtSQL = `SELECT ` + activeColumns + ` FROM task INDEXED BY fresh
WHERE lane = 0 AND taskClass = ? AND priority = ? AND id > ? ORDER BY id LIMIT ?`
	freshBehindSQL = `SELECT ` + activeColumns + ` FROM task INDEXED BY fresh
WHERE lane = 0 AND taskClass = ? AND priority > ? ORDER BY priority, id LIMIT ?`

	parkedAtSQL = `SELECT ` + activeColumns + ` FROM task INDEXED BY parked
WHERE lane = 2 AND taskClass = ? AND leaseExpires = ? AND id > ? ORDER BY id LIMIT ?`
	parkedBehindSQL = `SELECT ` + activeColumns + ` FROM task INDEXED BY parked
WHERE lane = 2 AND taskClass = ? AND leaseExpires > ? AND leaseExpires < ? ORDER BY leaseExpires, id LIMIT ?`

	heldAtSQL = `SELECT ` + activeColumns + ` FROM task INDEXED BY held
WHERE lane = 3 AND taskClass = ? AND leaseExpires = ? AND id > ? ORDER BY id LIMIT ?`
	heldBehindSQL = `SELECT ` + activeColumns + ` FROM task INDEXED BY held
WHERE lane = 3 AND taskClass = ? AND leaseExpires > ? AND leaseExpires < ? ORDER BY leaseExpires, id LIMIT ?`
)

// stream is the due tasks of one class in one lane, in their order.
type stream struct {
	*search
	lane  lane
	class string
	rows  []tasks.Task // read and not taken yet
	key   int64        // of the last row that was read: priority or leaseExpires
	id    int64
	all   bool // there are no more than rows
}

func keyOf(l lane, t tasks.Task) int64 {
	if l == fresh {
		return int64(t.Priority)
	}
	return *t.Expires
}

// fill reads up to n rows more, unless there are some.
func (st *stream) fill(n int) error {
	for len(st.rows) == 0 && !st.all {
		if err := st.readOn(n); err != nil {
			return err
		}
	}
	return nil
}

func (st *stream) readOn(n int) error {
	at, behind, until := freshAtSQL, freshBehindSQL, []any(nil)
	switch st.lane {
	case parked:
		at, behind, until = parkedAtSQL, parkedBehindSQL, []any{st.now}
	case held:
		at, behind, until = heldAtSQL, heldBehindSQL, []any{st.now - tasks.Grace}
	}
	if st.key >= 0 {
		if err := st.collect(at, st.class, st.key, st.id, n); err != nil {
			return err
		}
	}
	if missing := n - len(st.rows); missing > 0 {
		args := append(append([]any{st.class, st.key}, until...), missing)
		before := len(st.rows)
		if err := st.collect(behind, args...); err != nil {
			return err
		}
		st.all = len(st.rows)-before < missing
	}
	if len(st.rows) > 0 {
		last := st.rows[len(st.rows)-1]
		st.key, st.id = keyOf(st.lane, last), last.ID
		st.leaveYoung()
	}
	return nil
}

func (st *stream) collect(query string, args ...any) error {
	return st.conn.rows(query, args, func(scan func(...any) error) error {
		var t tasks.Task
		err := scan(fields(&t)...)
		st.rows = append(st.rows, t)
		return err
	})
}

// leaveYoung drops the tasks whose pickup delay is not over. Ids ascend in time,
// so behind a young one of a priority there are only younger ones, and they
// need not be read.
func (st *stream) leaveYoung() {
	delay := st.req.Want(st.class).PickupDelay
	if delay <= 0 {
		return
	}
	// The seconds of two epochs can differ by one when hardly any time passed.
	young := func(t tasks.Task) bool { return st.now-t.DateCreated <= tasks.WholeSeconds(delay) }
	if st.lane == fresh && young(st.rows[len(st.rows)-1]) {
		st.id = lastID
	}
	st.rows = slices.DeleteFunc(st.rows, young)
}

// lastID is behind every id.
const lastID = 1<<63 - 1

// merge is the due tasks of several classes and lanes, in their order.
type merge struct {
	streams []*stream // a heap
	rows    int       // how many rows of a class are read at once
}

// merge opens the lanes of the wanted classes.
func (sr *search) merge(lanes ...lane) (*merge, error) {
	names, err := sr.wanted(lanes)
	if err != nil {
		return nil, err
	}
	m := &merge{}
	for _, l := range lanes {
		for _, name := range names[l] {
			m.streams = append(m.streams, &stream{search: sr, lane: l, class: name, key: -1})
		}
	}
	// Each class may have to give all, and most give their part.
	m.rows = min(sr.req.Limit, 2+2*sr.req.Limit/max(1, len(m.streams)))
	for _, st := range m.streams {
		if err := st.fill(min(m.rows, sr.req.Want(st.class).Limit)); err != nil {
			return nil, err
		}
	}
	m.streams = slices.DeleteFunc(m.streams, func(st *stream) bool { return len(st.rows) == 0 })
	heap.Init(m)
	return m, nil
}

// next takes the first task of a class that may have one.
func (m *merge) next(may func(class string) bool) (task tasks.Task, ok bool, err error) {
	for len(m.streams) > 0 {
		st := m.streams[0]
		if !may(st.class) {
			heap.Pop(m)
			continue
		}
		if len(st.rows) == 0 { // the one before was its last
			if err := st.fill(m.rows); err != nil {
				return task, false, err
			}
			if len(st.rows) == 0 {
				heap.Pop(m)
			} else {
				heap.Fix(m, 0)
			}
			continue
		}
		task, st.rows = st.rows[0], st.rows[1:]
		if len(st.rows) > 0 {
			heap.Fix(m, 0)
		}
		return task, true, nil
	}
	return task, false, nil
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (m *merge) Len() int { return len(m.streams) }

func (m *merge) Less(i, j int) bool {
	a, b := m.streams[i], m.streams[j]
	return cmp.Or(cmp.Compare(keyOf(a.lane, a.rows[0]), keyOf(b.lane, b.rows[0])), cmp.Compare(a.rows[0].ID, b.rows[0].ID)) < 0
}

func (m *merge) Swap(i, j int) { m.streams[i], m.streams[j] = m.streams[j], m.streams[i] }
func (m *merge) Push(x any)    { m.streams = append(m.streams, x.(*stream)) }
func (m *merge) Pop() any {
	last := m.streams[len(m.streams)-1]
	m.streams = m.streams[:len(m.streams)-1]
	return last
}
