package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// grace is how long, in seconds, the expired lease of a Gantry is left
	// alone: `phd start` expires every lease at once, and whoever lives revives
	// its own within that time.
	grace = 5

	// share is the part of a batch that is kept for expired rows, at least one
	// row, so that a steady stream of new work cannot starve retries.
	share = 8
)

// Lease implements tasks.Store.
func (m *Memory) Lease(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
	return m.lease(ctx, req, m.owner)
}

func (m *Memory) owner(fence int64, crashes int) string {
	return tasks.Owner{Fence: fence, Crashes: crashes, Nonce: m.nonce, Host: m.host}.String()
}

// lease leases tasks; owner answers the owner of those that crashed so often.
func (m *Memory) lease(ctx context.Context, req tasks.LeaseRequest, owner func(fence int64, crashes int) string) ([]tasks.Task, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	chosen := m.choose(req)
	if len(chosen) == 0 {
		return nil, nil
	}
	m.fence++
	for i, task := range chosen {
		chosen[i] = m.takeAs(task, req.Want(task.Class).LeaseTime, owner)
	}
	return chosen, nil
}

// choose answers the rows to be leased: never-leased ones by (priority, id),
// then expired ones, oldest first. Expired ones choose first within their
// share, or they would starve behind a class that new work keeps at its limit.
func (m *Memory) choose(req tasks.LeaseRequest) []tasks.Task {
	var fresh, expired []tasks.Task
	now := m.clock()
	for _, task := range m.active {
		age := time.Duration(now-m.made[task.ID]) * time.Second
		if !due(task.Place, now) || age < req.Want(task.Class).PickupDelay {
			continue
		}
		if task.Owner == nil {
			fresh = append(fresh, task)
		} else {
			expired = append(expired, task)
		}
	}
	slices.SortFunc(fresh, byPriority)
	slices.SortFunc(expired, byExpiry)

	left := map[string]int{} // of the limit of each class
	pick := func(from *[]tasks.Task, limit int) (picked []tasks.Task) {
		*from = slices.DeleteFunc(*from, func(task tasks.Task) bool {
			if _, seen := left[task.Class]; !seen {
				left[task.Class] = req.Want(task.Class).Limit
			}
			if len(picked) >= limit || left[task.Class] <= 0 {
				return false
			}
			left[task.Class]--
			picked = append(picked, task)
			return true
		})
		return picked
	}
	kept := pick(&expired, min(max(1, req.Limit/share), req.Limit))
	picked := pick(&fresh, req.Limit-len(kept))
	picked = append(picked, kept...)
	return append(picked, pick(&expired, req.Limit-len(picked))...)
}

// due reports whether a row can be leased. Rows without an owner wait for
// their expiry when they have one, which stock Phorge does not heed. An owner
// without an expiry holds its row for ever, as in Phorge.
func due(p tasks.Place, now int64) bool {
	switch {
	case p.Expires == nil:
		return p.Owner == nil
	case p.Owner != nil && isGantry(*p.Owner):
		return *p.Expires < now-grace
	}
	return *p.Expires < now
}

func isGantry(owner string) bool {
	_, ok := tasks.ParseOwner(owner)
	return ok
}

// take leases a row under the current fence.
func (m *Memory) take(task tasks.Task, leaseTime time.Duration) tasks.Task {
	return m.takeAs(task, leaseTime, m.owner)
}

func (m *Memory) takeAs(task tasks.Task, leaseTime time.Duration, owner func(fence int64, crashes int) string) tasks.Task {
	if holder, dead := tasks.DeadHolder(task.Owner, m.nonce); dead {
		m.remember(tasks.LostAttempt(task, holder, m.clock()))
	}
	lease := tasks.Lease{
		Fence:   m.fence,
		Crashes: m.crashes(task.Place),
		Expires: m.clock() + leaseSeconds(leaseTime),
		Prior:   task.Place,
	}
	lease.Owner = owner(m.fence, lease.Crashes)
	task.Place = place(lease.Owner, lease.Expires)
	m.active[task.ID] = task
	task = copied(task)
	task.Lease = &lease
	return task
}

// crashes counts how often whoever held the row died with it. The process
// whose lease ran out is dead, unless it is the one that asks.
func (m *Memory) crashes(p tasks.Place) int {
	if p.Owner == nil {
		return 0
	}
	crashes := tasks.Crashes(*p.Owner)
	if holder, ok := tasks.ParseOwner(*p.Owner); ok && holder.Nonce != m.nonce {
		crashes++
	}
	return crashes
}

// Renew implements tasks.Store.
func (m *Memory) Renew(ctx context.Context, renewals []tasks.Renewal) ([]tasks.Renewed, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	answers := make([]tasks.Renewed, len(renewals))
	for i, r := range renewals {
		answers[i] = m.renew(r)
	}
	return answers, nil
}

func (m *Memory) renew(r tasks.Renewal) tasks.Renewed {
	task, held := m.held(r.ID, r.Owner)
	if !held {
		return tasks.Renewed{ID: r.ID, Err: lost(r.ID, r.Owner)}
	}
	now := m.clock()
	answer := tasks.Renewed{ID: r.ID, Revived: task.Expires == nil || *task.Expires <= now}
	if task.Expires == nil || time.Duration(*task.Expires-now)*time.Second < r.LeaseTime*2/3 {
		task.Place = place(r.Owner, now+leaseSeconds(r.LeaseTime))
		m.active[r.ID] = task
	}
	answer.Expires = *task.Expires
	return answer
}

// leaseSeconds rounds up: no lease is shorter than asked.
func leaseSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// held answers the active row when it carries the owner.
func (m *Memory) held(id int64, owner string) (tasks.Task, bool) {
	task, ok := m.active[id]
	return task, ok && task.Owner != nil && *task.Owner == owner
}

func lost(id int64, owner string) error {
	return fmt.Errorf("task %d is no longer held by %s: %w", id, owner, tasks.ErrLeaseLost)
}
