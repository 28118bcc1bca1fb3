package storetest

import (
	"math"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/tasks"
)

// The generators of random histories. They draw few distinct values on
// purpose: classes, owners and epochs have to meet to matter.

func aClass() *rapid.Generator[string] { return rapid.SampledFrom([]string{"A", "B", "C"}) }

func aPriority() *rapid.Generator[int] {
	return rapid.SampledFrom([]int{1, 1000, 2000, 4000, math.MaxUint32})
}

func aPHID() *rapid.Generator[*string] {
	return rapid.SampledFrom([]*string{nil, ptr("PHID-X-1"), ptr("PHID-X-2")})
}

// anEpoch is one that matters to a lease.
func (m *machine) anEpoch() *rapid.Generator[int64] {
	return rapid.SampledFrom([]int64{
		0, m.now - 3601, m.now - 3600, m.now - 61, m.now - 6, m.now - 5, m.now - 1, m.now, m.now + 1, m.now + 30, m.now + 4000, latest,
	})
}

func (m *machine) anID() *rapid.Generator[int64] {
	return newestFirst(append([]int64{math.MaxInt32}, m.ids...))
}

// newestFirst is for lists of which the last ones matter most: rapid draws the
// first ones more often.
func newestFirst[E any](list []E) *rapid.Generator[E] {
	list = slices.Clone(list)
	slices.Reverse(list)
	return rapid.SampledFrom(list)
}

func (m *machine) aNewTask() *rapid.Generator[tasks.NewTask] {
	return rapid.Custom(func(r *rapid.T) tasks.NewTask {
		n := tasks.NewTask{
			Class:         aClass().Draw(r, "class"),
			Data:          []byte(rapid.SampledFrom(payloads).Draw(r, "data")),
			ObjectPHID:    aPHID().Draw(r, "object"),
			ContainerPHID: aPHID().Draw(r, "container"),
		}
		if rapid.Bool().Draw(r, "prioritized") {
			n.Priority = ptr(aPriority().Draw(r, "priority"))
		}
		switch rapid.IntRange(0, 15).Draw(r, "special") {
		case 0:
			n.Data = []byte(`{"cut":`)
		case 1, 2:
			n.DelayUntil = m.anEpoch().Draw(r, "delay")
		}
		return n
	})
}

func aRequest() *rapid.Generator[tasks.LeaseRequest] {
	wanted := rapid.Custom(func(r *rapid.T) tasks.ClassRequest {
		return tasks.ClassRequest{
			Limit:     rapid.IntRange(0, 5).Draw(r, "limit"),
			LeaseTime: time.Duration(rapid.SampledFrom([]int{1, 60, 7200}).Draw(r, "lease time")) * time.Second,
		}
	})
	return rapid.Custom(func(r *rapid.T) tasks.LeaseRequest {
		return tasks.LeaseRequest{
			Limit:   rapid.IntRange(1, 20).Draw(r, "limit"),
			Classes: rapid.MapOfN(aClass(), wanted, 0, 3).Draw(r, "classes"),
			Others:  wanted.Draw(r, "others"),
		}
	})
}

// aLease is one that was answered, or skips the step when there is none.
func (m *machine) aLease(r *rapid.T) *rapid.Generator[tasks.Task] {
	if len(m.held) == 0 {
		r.Skip("nothing was leased yet")
	}
	return newestFirst(m.held)
}

func (m *machine) aRenewal(r *rapid.T) *rapid.Generator[tasks.Renewal] {
	lease := m.aLease(r)
	return rapid.Custom(func(r *rapid.T) tasks.Renewal {
		held := lease.Draw(r, "lease")
		return tasks.Renewal{
			ID: held.ID, Owner: held.Lease.Owner,
			LeaseTime: time.Duration(rapid.SampledFrom([]int{1, 60, 7200}).Draw(r, "lease time")) * time.Second,
		}
	})
}

func (m *machine) aSettlement(r *rapid.T) *rapid.Generator[tasks.Settlement] {
	lease := m.aLease(r)
	kinds := []tasks.Kind{tasks.Succeeded, tasks.Failed, tasks.Yielded, tasks.Retry, tasks.Crashed, tasks.Released, tasks.Declined}
	return rapid.Custom(func(r *rapid.T) tasks.Settlement {
		return settlement(lease.Draw(r, "lease"), tasks.Outcome{
			Kind:      rapid.SampledFrom(kinds).Draw(r, "kind"),
			Wait:      time.Duration(rapid.SampledFrom([]int64{0, -3, 3, 30, 600, -1 << 32, 1 << 32}).Draw(r, "wait")) * time.Second,
			Duration:  time.Duration(rapid.Int64Range(0, 1e10).Draw(r, "duration")),
			FollowUps: rapid.SliceOfN(m.aNewTask(), 0, 2).Draw(r, "follow-ups"),
		})
	})
}

func (m *machine) aPlace() *rapid.Generator[tasks.Place] {
	owners := []*string{
		nil, ptr(""), ptr("111:host"), ptr(tasks.YieldOwner), ptr(tasks.DelayOwner),
		ptr(gantry(5, 2)), ptr(tasks.RetryOwner(5, 2)), ptr(tasks.BackOwner(5, 1)),
	}
	return rapid.Custom(func(r *rapid.T) tasks.Place {
		p := tasks.Place{Owner: rapid.SampledFrom(owners).Draw(r, "owner")}
		if rapid.IntRange(0, 7).Draw(r, "expiry is NULL") > 0 {
			p.Expires = ptr(m.anEpoch().Draw(r, "expires"))
		}
		return p
	})
}

// aRow is one that another program inserts, some of which Gantry would not.
func (m *machine) aRow() *rapid.Generator[tasks.Task] {
	data := [][]byte{nil, {}, []byte("{"), []byte("0"), []byte(`"\ud800"`)}
	return rapid.Custom(func(r *rapid.T) tasks.Task {
		return tasks.Task{
			Class:        aClass().Draw(r, "class"),
			Data:         rapid.SampledFrom(data).Draw(r, "data"),
			Priority:     rapid.SampledFrom([]int{0, 2000, math.MaxUint32}).Draw(r, "priority"),
			FailureCount: rapid.SampledFrom([]int{0, 3, 250}).Draw(r, "failures"),
			FailureTime:  rapid.SampledFrom([]*int64{nil, ptr(m.now - 50)}).Draw(r, "failed at"),
			DateCreated:  m.now - 100,
			DateModified: m.now - 50,
			Place:        m.aPlace().Draw(r, "place"),
		}
	})
}

func (m *machine) aFilter() *rapid.Generator[tasks.Filter] {
	return rapid.Custom(func(r *rapid.T) tasks.Filter {
		f := tasks.Filter{
			State: rapid.SampledFrom([]tasks.State{tasks.Active, tasks.Archived}).Draw(r, "state"),
			Class: rapid.SampledFrom([]string{"", "A", "B"}).Draw(r, "class"),
			Limit: rapid.SampledFrom([]int{1, 3, 100}).Draw(r, "limit"),
			After: max(m.filler, m.anID().Draw(r, "after")%math.MaxInt32),
		}
		if rapid.Bool().Draw(r, "restricted") {
			f.MinFailures = rapid.IntRange(0, 2).Draw(r, "failures at least")
			f.MaxPriority = ptr(aPriority().Draw(r, "priority at most"))
			f.Objects = rapid.SampledFrom([][]string{nil, {"PHID-X-1"}, {"PHID-X-1", "PHID-X-2"}}).Draw(r, "objects")
		}
		return f
	})
}
