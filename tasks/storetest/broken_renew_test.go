package storetest

import (
	"maps"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

var renewFaults = []fault{
	{
		name: "takes zero changed rows for a lost lease", row: "B26 renewing twice within a second succeeds twice", rule: HeldRefused,
		store: func(b *broken) {
			b.renew = func(renewals []tasks.Renewal) []tasks.Renewed {
				answers := make([]tasks.Renewed, len(renewals))
				for i, r := range renewals {
					before := b.active[r.ID].Expires
					answers[i] = b.renewed(renewals[i : i+1])[0]
					if before != nil && *before == b.clock()+leaseSeconds(r.LeaseTime) {
						answers[i] = tasks.Renewed{ID: r.ID, Err: tasks.ErrLeaseLost}
					}
				}
				return answers
			}
		},
	},
	{
		name: "answers the end that was asked for without writing it", row: "B26 a renewal that changes nothing is no lost lease", rule: PlaceUnexplained,
		store: func(b *broken) {
			b.renew = func(renewals []tasks.Renewal) []tasks.Renewed {
				before := maps.Clone(b.active)
				answers := b.renewed(renewals)
				maps.Copy(b.active, before)
				return answers
			}
		},
	},
	{
		name: "renews a lost lease as if it were ours", row: "lost leases are named and the others renewed", rule: RenewedUnheld,
		store: renewing(func(b *broken, r tasks.Renewal, answer *tasks.Renewed) {
			answer.Err = nil
		}),
	},
	{
		name: "calls an expired lease lost", row: "a lease that expired or was swept and that nobody took is revived", rule: HeldRefused,
		store: renewing(func(b *broken, r tasks.Renewal, answer *tasks.Renewed) {
			if answer.Revived {
				*answer = tasks.Renewed{ID: r.ID, Err: tasks.ErrLeaseLost}
			}
		}),
	},
	{
		name: "extends every lease at every look", row: "a lease is extended once less than two thirds of it are left",
		store: renewing(func(b *broken, r tasks.Renewal, answer *tasks.Renewed) {
			if answer.Err == nil {
				answer.Expires = b.clock() + leaseSeconds(r.LeaseTime)
				b.row(r.ID, func(task *tasks.Task) { task.Expires = &answer.Expires })
			}
		}),
	},
	{
		name: "writes the priority of the lease back", row: "a renewal touches nothing but the end of the lease",
		store: renewing(func(b *broken, r tasks.Renewal, answer *tasks.Renewed) {
			b.row(r.ID, func(task *tasks.Task) { task.Priority = tasks.PriorityDefault })
		}),
	},
	{
		name: "gives every renewal the lease time of the first", row: "each renewal has its own lease time",
		store: func(b *broken) {
			b.renew = func(renewals []tasks.Renewal) []tasks.Renewed {
				renewals = slices.Clone(renewals)
				for i := range renewals {
					renewals[i].LeaseTime = renewals[0].LeaseTime
				}
				return b.renewed(renewals)
			}
		},
	},
	{
		name: "renews under any owner", row: "a late heartbeat cannot touch a task after its settlement", rule: RenewedUnheld,
		store: func(b *broken) {
			b.renew = func(renewals []tasks.Renewal) []tasks.Renewed {
				for _, r := range renewals {
					b.row(r.ID, func(task *tasks.Task) { task.Owner = ptr(r.Owner) })
				}
				return b.renewed(renewals)
			}
		},
	},
}

// renewing is a fault in the answer to each renewal.
func renewing(change func(*broken, tasks.Renewal, *tasks.Renewed)) func(*broken) {
	return func(b *broken) {
		b.renew = func(renewals []tasks.Renewal) []tasks.Renewed {
			answers := b.renewed(renewals)
			for i := range answers {
				change(b, renewals[i], &answers[i])
			}
			return answers
		}
	}
}
