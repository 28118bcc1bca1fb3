package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/tasks"
)

// compareHistories asks a store and the model the same random questions and
// compares every answer and, after each, every row. What a store is free to
// choose, the model is told: ids, and the fence, the nonce and the host in the
// owners. The clock stands, so nothing else is left to chance, except that a
// store may overlook for a while what changed behind its back: an empty answer
// is asked for again until patience is at its end.
func compareHistories(t rapid.TB, patience time.Duration, open func() Subject) {
	rapid.Check(t, func(r *rapid.T) {
		m := newMachine(r, open())
		m.patience = patience
		defer m.Close()
		m.run(r, m.lease, m.sameRows)
	})
}

// run lets random things happen, with a check after each. What a runtime does
// happens more often than what people do.
func (m *machine) run(r *rapid.T, lease, check func(*rapid.T)) {
	actions := map[string]func(*rapid.T){"": check}
	for _, a := range []struct {
		often int
		name  string
		do    func(*rapid.T)
	}{
		{3, "enqueue", m.enqueue},
		{6, "lease", lease},
		{2, "renew", m.renew},
		{6, "settle", m.settle},
		{1, "cancel", m.cancel},
		{1, "free", m.free},
		{1, "delay", m.delay},
		{1, "priority", m.priority},
		{1, "retry", m.retry},
		{1, "awaken", m.awaken},
		{1, "look", m.look},
		{2, "age", m.age},
		{1, "sweep", m.sweep},
		{1, "place", m.placeRow},
		{1, "insert", m.insertRow},
	} {
		for n := range a.often {
			actions[fmt.Sprint(a.name, " ", n)] = a.do
		}
	}
	r.Repeat(actions)
}

// machine is a store and the model side by side.
type machine struct {
	Subject
	model  *Memory
	now    int64
	ids    []int64
	held   []tasks.Task // every lease that was ever answered, also those that ended
	fence  int64
	filler int64 // ids up to this one only make the queue long

	patience time.Duration
}

func newMachine(r *rapid.T, s Subject) *machine {
	now, err := s.Operator.Now(r.Context())
	if err != nil {
		r.Fatalf("Now: %v", err)
	}
	return &machine{Subject: s, now: now, model: NewMemory(func() int64 { return now })}
}

// same compares what the store answered with what the model answered. Errors
// are the same when they wrap the same sentinels.
func same(r *rapid.T, what string, got, want any) {
	r.Helper()
	if reflect.DeepEqual(got, want) {
		return // cmp takes far longer to say so
	}
	if diff := cmp.Diff(want, got, emptyLists, sameErrors); diff != "" {
		r.Fatalf("%s: the store and the model differ (-model +store):\n%s", what, diff)
	}
}

var sameErrors = cmp.Comparer(func(a, b error) bool { return slices.Equal(sentinels(a), sentinels(b)) })

func sentinels(err error) (wrapped []string) {
	for _, sentinel := range []error{
		tasks.ErrLeaseLost, tasks.ErrUnavailable, tasks.ErrInvalid, tasks.ErrTooLarge, tasks.ErrNotFound, tasks.ErrArchived,
		tasks.ErrActive, tasks.ErrLeased, tasks.ErrNotLeased, tasks.ErrSucceeded, tasks.ErrUnchanged,
	} {
		if errors.Is(err, sentinel) {
			wrapped = append(wrapped, sentinel.Error())
		}
	}
	if err != nil && wrapped == nil {
		return []string{"no sentinel: " + err.Error()}
	}
	return wrapped
}

// answer is what a call gave back.
type answer[A any] struct {
	A   A
	Err error
}

func said[A any](a A, err error) answer[A] { return answer[A]{a, err} }

func (m *machine) sameRows(r *rapid.T) { same(r, "rows", said(m.Rows.All()), said(m.model.All())) }

func (m *machine) enqueue(r *rapid.T) {
	news := rapid.SliceOfN(m.aNewTask(), 0, 8).Draw(r, "tasks")
	got, err := m.Store.Enqueue(r.Context(), news)
	m.follow(r, got)
	same(r, "Enqueue", said(got, err), said(m.model.Enqueue(r.Context(), news)))
}

// follow tells the model which ids the store gave out. They must be new and
// ascend.
func (m *machine) follow(r *rapid.T, ids []int64) {
	for i, id := range ids {
		if id < 1 || slices.Contains(m.ids, id) || i > 0 && id <= ids[i-1] {
			r.Fatalf("the store gave out the ids %v, after %v", ids, m.ids)
		}
	}
	m.ids = append(m.ids, ids...)
	m.model.given = slices.Clone(ids)
}

func (m *machine) lease(r *rapid.T) {
	req, got, err := m.leased(r, m.patience)
	same(r, "Lease", said(got, err), said(m.model.Lease(r.Context(), req)))
	m.held = append(m.held, got...)
}

// leased asks the store for random tasks, again as long as it overlooks all of
// them, and tells the model the fence and who got it.
func (m *machine) leased(r *rapid.T, patience time.Duration) (req tasks.LeaseRequest, got []tasks.Task, err error) {
	req = aRequest().Draw(r, "request")
	store := m.Store
	if rapid.Bool().Draw(r, "by the other process") {
		store = m.Other
	}
	due := m.model.choose(req)
	for end := time.Now().Add(patience); ; {
		got, err = leaseFully(r.Context(), store, req)
		if len(got) > 0 || len(due) == 0 || err != nil || time.Now().After(end) {
			m.followFence(r, got)
			return req, got, err
		}
	}
}

func (m *machine) followFence(r *rapid.T, got []tasks.Task) {
	if len(got) == 0 || got[0].Lease == nil {
		return
	}
	owner, ok := tasks.ParseOwner(got[0].Lease.Owner)
	if !ok || owner.Fence <= m.fence || len(got[0].Lease.Owner) > 64 {
		r.Fatalf("the owner %q does not follow fence %d", got[0].Lease.Owner, m.fence)
	}
	m.fence = owner.Fence
	m.model.fence, m.model.nonce, m.model.host = owner.Fence-1, owner.Nonce, owner.Host
}

func (m *machine) renew(r *rapid.T) {
	// Whoever holds a task holds it under one lease and wants one lease time.
	once := func(r tasks.Renewal) int64 { return r.ID }
	renewals := rapid.SliceOfNDistinct(m.aRenewal(r), 1, 6, once).Draw(r, "renewals")
	same(r, "Renew", said(m.Store.Renew(r.Context(), renewals)), said(m.model.Renew(r.Context(), renewals)))
}

func (m *machine) settle(r *rapid.T) {
	settlements := rapid.SliceOfN(m.aSettlement(r), 1, 8).Draw(r, "settlements")
	got, err := m.Store.Settle(r.Context(), settlements)
	var children []int64
	for _, answer := range got {
		children = append(children, answer.FollowUps...)
	}
	m.follow(r, children)
	same(r, "Settle", said(got, err), said(m.model.Settle(r.Context(), settlements)))
}

// change asks the operators of both the same.
func (m *machine) change(r *rapid.T, what string, ask func(o tasks.Operator, ids []int64) ([]tasks.Changed, error)) {
	ids := rapid.SliceOfN(m.anID(), 0, 5).Draw(r, "ids")
	same(r, what, said(ask(m.Operator, ids)), said(ask(m.model, ids)))
}

func (m *machine) cancel(r *rapid.T) {
	m.change(r, "Cancel", func(o tasks.Operator, ids []int64) ([]tasks.Changed, error) { return o.Cancel(r.Context(), ids) })
}

func (m *machine) free(r *rapid.T) {
	m.change(r, "Free", func(o tasks.Operator, ids []int64) ([]tasks.Changed, error) { return o.Free(r.Context(), ids) })
}

func (m *machine) delay(r *rapid.T) {
	until := m.anEpoch().Draw(r, "until")
	m.change(r, "Delay", func(o tasks.Operator, ids []int64) ([]tasks.Changed, error) { return o.Delay(r.Context(), ids, until) })
}

func (m *machine) priority(r *rapid.T) {
	priority := aPriority().Draw(r, "priority")
	m.change(r, "Priority", func(o tasks.Operator, ids []int64) ([]tasks.Changed, error) {
		return o.Priority(r.Context(), ids, priority)
	})
}

func (m *machine) retry(r *rapid.T) {
	repeat := rapid.Bool().Draw(r, "repeat")
	m.change(r, "Retry", func(o tasks.Operator, ids []int64) ([]tasks.Changed, error) { return o.Retry(r.Context(), ids, repeat) })
}

func (m *machine) awaken(r *rapid.T) {
	ids := rapid.SliceOfNDistinct(m.anID(), 0, 5, rapid.ID).Draw(r, "ids")
	same(r, "Awaken", said(m.Operator.Awaken(r.Context(), ids)), said(m.model.Awaken(r.Context(), ids)))
}

func (m *machine) look(r *rapid.T) {
	id, filter := m.anID().Draw(r, "id"), m.aFilter().Draw(r, "filter")
	same(r, "Get", said(m.Operator.Get(r.Context(), id)), said(m.model.Get(r.Context(), id)))
	same(r, "List", said(listAll(r.Context(), m.Operator, filter)), said(listAll(r.Context(), m.model, filter)))
	same(r, "Stats", said(m.Operator.Stats(r.Context())), said(m.model.Stats(r.Context())))
}

// both does the same to both behind their backs.
func (m *machine) both(r *rapid.T, what string, do func(Rows) error) {
	for _, rows := range []Rows{m.Rows, m.model} {
		if err := do(rows); err != nil {
			r.Fatalf("%s: %v", what, err)
		}
	}
}

func (m *machine) age(r *rapid.T) {
	seconds := rapid.SampledFrom([]int64{1, 5, 6, 7, 30, 66, 4000}).Draw(r, "seconds")
	m.both(r, "age", func(rows Rows) error { return rows.Age(seconds) })
}

// sweep does what `phd start` does.
func (m *machine) sweep(r *rapid.T) {
	for _, id := range m.ids {
		task, active := m.model.active[id]
		if active && task.Expires != nil && *task.Expires > m.now {
			swept := tasks.Place{Owner: task.Owner, Expires: &m.now}
			m.both(r, "sweep", func(rows Rows) error { return rows.Place(id, swept) })
		}
	}
}

func (m *machine) placeRow(r *rapid.T) {
	id, place := m.anID().Draw(r, "id"), m.aPlace().Draw(r, "place")
	if _, active := m.model.active[id]; !active {
		return
	}
	m.both(r, "place", func(rows Rows) error { return rows.Place(id, place) })
}

func (m *machine) insertRow(r *rapid.T) {
	task := m.aRow().Draw(r, "row")
	got, err := m.Rows.Insert(task)
	m.follow(r, []int64{got})
	same(r, "insert", said(got, err), said(m.model.Insert(task)))
}
