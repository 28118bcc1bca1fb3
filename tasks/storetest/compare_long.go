package storetest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/tasks"
)

// longQueue is more rows than a store looks at in one call.
const longQueue = 1200

// compareLongHistories is compareHistories with many rows in the queue that
// have to be passed over. A store may look at a bounded number of rows in a
// call, so for a while it may overlook rows that changed behind its back. Each
// answer must still be one that the model allows, and in the end every task
// that is due must have been found.
func compareLongHistories(t rapid.TB, open func() Subject) {
	rapid.Check(t, func(r *rapid.T) {
		m := newMachine(r, open())
		defer m.Close()
		m.fill(r)
		m.run(r, m.leaseSome, func(*rapid.T) {})
		m.findAll(r)
		m.sameRows(r)
	})
}

// fill queues tasks that wait and tasks of a class that is rarely wanted.
func (m *machine) fill(r *rapid.T) {
	filler := slices.Repeat([]tasks.NewTask{
		{Class: "filler", Data: []byte("1"), Priority: ptr(rapid.SampledFrom([]int{1, 2000, 4000}).Draw(r, "priority"))},
		{Class: "A", Data: []byte("2"), DelayUntil: latest},
	}, longQueue/2)
	got, err := m.Store.Enqueue(r.Context(), filler)
	m.model.given = slices.Clone(got)
	same(r, "Enqueue", said(got, err), said(m.model.Enqueue(r.Context(), filler)))
	m.filler = slices.Max(got)
}

// leaseSome takes what the store answers for right if it is due and wanted.
func (m *machine) leaseSome(r *rapid.T) {
	req, got, err := m.leased(r, 0)
	if err != nil {
		r.Fatalf("Lease: %v", err)
	}
	m.allow(r, req, got)
	m.held = append(m.held, got...)
}

// allow lets the model lease the same tasks.
func (m *machine) allow(r *rapid.T, req tasks.LeaseRequest, got []tasks.Task) {
	m.model.fence++
	byClass := map[string]int{}
	for _, answer := range got {
		task, active := m.model.active[answer.ID]
		want := req.Want(answer.Class)
		byClass[answer.Class]++
		if !active || !due(task.Place, m.now) || byClass[answer.Class] > want.Limit || len(got) > req.Limit {
			r.Fatalf("for %+v the store leased %d tasks, among them %+v", req, len(got), task)
		}
		same(r, "Lease", answer, m.model.take(task, want.LeaseTime))
	}
}

// findAll leases until nothing more is due, apart from the filler.
func (m *machine) findAll(r *rapid.T) {
	req := Any(500)
	req.Classes = map[string]tasks.ClassRequest{"filler": {}}
	patience := time.Now().Add(30 * time.Second)
	for {
		due := m.model.choose(req)
		if len(due) == 0 {
			return
		}
		got, err := leaseFully(r.Context(), m.Store, req)
		if err != nil || len(got) == 0 && time.Now().After(patience) {
			r.Fatalf("of %d tasks that are due, among them %+v, the store leased none (%v)", len(due), due[0], err)
		}
		m.followFence(r, got)
		m.allow(r, req, got)
	}
}
