package storetest

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// pretending is a fault that leases from rows that look different.
func pretending(change func(b *broken, task *tasks.Task)) func(*broken) {
	return func(b *broken) {
		b.lease = func(req tasks.LeaseRequest) ([]tasks.Task, error) {
			return b.pretend(req, func(task *tasks.Task) { change(b, task) })
		}
	}
}

// asking is a fault that leases for another request.
func asking(change func(*tasks.LeaseRequest)) func(*broken) {
	return func(b *broken) {
		b.lease = func(req tasks.LeaseRequest) ([]tasks.Task, error) {
			req.Classes = maps.Clone(req.Classes)
			change(&req)
			return b.Memory.Lease(context.Background(), req)
		}
	}
}

func owned(task *tasks.Task) bool { return task.Owner != nil }

var leaseFaults = []fault{
	{
		name: "leases live leases", row: "a live lease is not taken, an expired one of stock Phorge is", rule: LeasedLive,
		store: pretending(func(b *broken, task *tasks.Task) {
			if leased(task.Place) && task.Expires != nil {
				task.Place = at(*task.Owner, 0)
			}
		}),
	},
	{
		name: "takes another Gantry's lease as soon as it expires", row: "the expired lease of another Gantry is left alone for five seconds and then counts as a crash", rule: LeasedLive,
		store: pretending(func(b *broken, task *tasks.Task) {
			if owned(task) && isGantry(*task.Owner) && task.Expires != nil {
				task.Place = at(*task.Owner, *task.Expires-grace)
			}
		}),
	},
	{
		name: "ignores the delay of rows without owner", row: "B04 rows written by bin/worker mean what they mean in Phorge",
		store: pretending(func(b *broken, task *tasks.Task) {
			if !owned(task) {
				task.Place = tasks.Place{}
			}
		}),
	},
	{
		name: "leases waiting tasks", row: "B05 a failed task keeps an owner and nobody leases it before its wait is over", rule: LeasedEarly,
		store: pretending(func(b *broken, task *tasks.Task) {
			if owned(task) && tasks.Nobody(*task.Owner) && task.Expires != nil {
				task.Place = at(*task.Owner, 0)
			}
		}),
	},
	{
		name: "leases a second early", row: "rows that are not due stay as they are", rule: LeasedLive,
		store: pretending(func(b *broken, task *tasks.Task) {
			if task.Expires != nil {
				task.Expires = ptr(max(*task.Expires-1, 0))
			}
		}),
	},
	{
		name: "leases a second late", row: "rows that have just become due are leased",
		store: pretending(func(b *broken, task *tasks.Task) {
			if task.Expires != nil && *task.Expires > 0 {
				task.Expires = ptr(*task.Expires + 1)
			}
		}),
	},
	{
		name: "leases owners without expiry", row: "rows that are not due stay as they are",
		store: pretending(func(b *broken, task *tasks.Task) {
			if owned(task) && task.Expires == nil {
				task.Expires = ptr(int64(0))
			}
		}),
	},
	{
		name: "takes retried and freed rows for expired ones", row: "B04 rows written by bin/worker mean what they mean in Phorge",
		store: pretending(func(b *broken, task *tasks.Task) {
			if !owned(task) && task.Expires != nil {
				task.Owner = ptr("")
			}
		}),
	},
	{
		name: "orders by id alone", row: "never leased tasks come by priority and id",
		store: pretending(func(b *broken, task *tasks.Task) { task.Priority = 0 }),
	},
	{
		name: "orders expired tasks by priority", row: "B06 expired tasks come by expiry, whatever their priority",
		store: pretending(func(b *broken, task *tasks.Task) {
			if owned(task) && due(task.Place, b.clock()) {
				task.Expires = ptr(int64(min(task.Priority, 100_000)))
			}
		}),
	},
	{
		name: "keeps no share for expired tasks", row: "an eighth of a batch is kept for expired tasks",
		store: func(b *broken) {
			b.lease = func(req tasks.LeaseRequest) ([]tasks.Task, error) {
				fresh, err := b.pretend(req, func(task *tasks.Task) {
					if owned(task) {
						task.Expires = nil
					}
				})
				if len(fresh) > 0 || err != nil {
					return fresh, err
				}
				return b.Memory.Lease(context.Background(), req)
			}
		},
	},
	{
		name: "leases expired tasks first", row: "B07 fresh mail passes many hopeless retries",
		store: func(b *broken) {
			b.lease = func(req tasks.LeaseRequest) ([]tasks.Task, error) {
				expired, err := b.pretend(req, func(task *tasks.Task) {
					if !owned(task) {
						task.Expires = ptr(int64(latest))
					}
				})
				if len(expired) > 0 || err != nil {
					return expired, err
				}
				return b.Memory.Lease(context.Background(), req)
			}
		},
	},
	{
		name: "leases more than the limit", row: "an eighth of a batch is kept for expired tasks",
		store: asking(func(req *tasks.LeaseRequest) { req.Limit++ }),
	},
	{
		name: "answers at most one task", row: "what one kind leaves of a batch the other one takes",
		store: asking(func(req *tasks.LeaseRequest) { req.Limit = 1 }),
	},
	{
		name: "leases every class", row: "only classes that are asked for are leased",
		store: asking(func(req *tasks.LeaseRequest) {
			req.Others.Limit = max(req.Others.Limit, 1)
			req.Others.LeaseTime = max(req.Others.LeaseTime, minute)
		}),
	},
	{
		name: "takes limit 0 for no limit", row: "a class with limit 0 is passed over",
		store: asking(func(req *tasks.LeaseRequest) {
			for class, want := range req.Classes {
				if want.Limit == 0 {
					want.Limit = req.Limit
					req.Classes[class] = want
				}
			}
		}),
	},
	{
		name: "ignores the limits of classes", row: "a class gets no more than its limit and all together no more than the limit",
		store: asking(func(req *tasks.LeaseRequest) {
			for class, want := range req.Classes {
				want.Limit = req.Limit
				req.Classes[class] = want
			}
			req.Others.Limit = req.Limit
		}),
	},
	{
		name: "does not count expired tasks of a class", row: "limits count expired tasks as well",
		store: func(b *broken) {
			b.lease = func(req tasks.LeaseRequest) ([]tasks.Task, error) {
				fresh, err := b.pretend(req, func(task *tasks.Task) {
					if owned(task) {
						task.Expires = nil
					}
				})
				if req.Limit -= len(fresh); req.Limit == 0 || err != nil {
					return fresh, err
				}
				expired, err := b.Memory.Lease(context.Background(), req)
				return append(fresh, expired...), err
			}
		},
	},
	{
		name: "starves expired tasks of a class that new work fills", row: "new work that keeps a class at its limit does not starve its expired tasks",
		store: pretending(func(b *broken, expired *tasks.Task) {
			for _, fresh := range b.active {
				if owned(expired) && fresh.Class == expired.Class && fresh.Owner == nil {
					expired.Expires = nil
				}
			}
		}),
	},
	{
		name: "leases every class for the same time", row: "B17 each class has its own lease time",
		store: asking(func(req *tasks.LeaseRequest) {
			for class, want := range req.Classes {
				want.LeaseTime = minute
				req.Classes[class] = want
			}
			req.Others.LeaseTime = minute
		}),
	},
	{
		name: "compares classes as a case-insensitive column does", row: "classes are told apart by their exact spelling",
		unseen: "their classes differ by letter",
		store: func(b *broken) {
			fold := func(class string) string { return strings.TrimRight(strings.ToLower(class), " ") }
			b.lease = func(req tasks.LeaseRequest) ([]tasks.Task, error) {
				folded := map[string]tasks.ClassRequest{}
				for class, want := range req.Classes {
					folded[fold(class)] = want
				}
				req.Classes = folded
				return b.pretend(req, func(task *tasks.Task) { task.Class = fold(task.Class) })
			}
		},
	},
	{
		name: "loses sight of what it once leased", row: "what is put back is leased again whatever was asked for in between",
		store: func(b *broken) {
			passed := map[int64]bool{}
			b.lease = func(req tasks.LeaseRequest) ([]tasks.Task, error) {
				leased, err := b.pretend(req, func(task *tasks.Task) {
					if !owned(task) && passed[task.ID] {
						task.Expires = ptr(int64(latest))
					}
				})
				for _, task := range leased {
					passed[task.ID] = true
				}
				return leased, err
			}
		},
	},
	{
		name: "answers a task that is not there", row: "an empty queue answers nothing", rule: TaskFromNowhere,
		store: func(b *broken) {
			b.lease = func(req tasks.LeaseRequest) ([]tasks.Task, error) {
				leased, err := b.Memory.Lease(context.Background(), req)
				if len(leased) == 0 {
					owner := gantry(b.fence, 0)
					leased = []tasks.Task{{ID: 1 << 20, Place: at(owner, b.clock()), Lease: &tasks.Lease{Owner: owner, Expires: b.clock()}}}
				}
				return leased, err
			}
		},
	},
	{
		name: "calls a lease a change of the row", row: "a lease is a place of its own and changes nothing else",
		store: func(b *broken) {
			b.lease = func(req tasks.LeaseRequest) ([]tasks.Task, error) {
				leased, err := b.Memory.Lease(context.Background(), req)
				for i := range leased {
					leased[i].DateModified = 1
					b.row(leased[i].ID, func(task *tasks.Task) { task.DateModified = 1 })
				}
				return leased, err
			}
		},
	},
	{
		name: "uses a fence twice", row: "an owner is unique to its lease and tells fence and crashes", rule: OwnerReused,
		store: func(b *broken) {
			b.lease = func(req tasks.LeaseRequest) ([]tasks.Task, error) {
				b.fence = max(0, b.fence-1)
				return b.Memory.Lease(context.Background(), req)
			}
		},
	},
	{
		name: "takes a fence for each task", row: "a batch with different crash counts is one lease of one fence",
		store: func(b *broken) {
			b.lease = func(req tasks.LeaseRequest) (leased []tasks.Task, err error) {
				for _, task := range b.choose(req) {
					b.fence++
					leased = append(leased, b.take(task, req.Want(task.Class).LeaseTime))
				}
				return leased, nil
			}
		},
	},
	{
		name: "does not count the crash of another Gantry", row: "the expired lease of another Gantry is left alone for five seconds and then counts as a crash",
		store: pretending(func(b *broken, task *tasks.Task) {
			if owned(task) && isGantry(*task.Owner) && due(task.Place, b.clock()) {
				task.Owner = ptr(tasks.BackOwner(1, tasks.Crashes(*task.Owner)))
			}
		}),
	},
	{
		name: "counts its own lost leases as crashes", row: "a process that takes its own expired lease again has not crashed",
		store: pretending(func(b *broken, task *tasks.Task) {
			if owned(task) && isGantry(*task.Owner) {
				task.Owner = ptr(gantry(1, tasks.Crashes(*task.Owner)))
			}
		}),
	},
	{
		name: "forgets the crashes of waiting tasks", row: "crashes are carried through waiting owners",
		store: pretending(func(b *broken, task *tasks.Task) {
			if owned(task) && tasks.Nobody(*task.Owner) {
				task.Owner = ptr(tasks.YieldOwner)
			}
		}),
	},
	{
		name: "answers empty data for none", row: "a task without data has none, which is not the empty string",
		store: func(b *broken) {
			b.lease = func(req tasks.LeaseRequest) ([]tasks.Task, error) {
				leased, err := b.Memory.Lease(context.Background(), req)
				for i := range leased {
					leased[i].Data = append([]byte{}, leased[i].Data...)
				}
				return leased, err
			}
		},
	},
	{
		name: "ignores the pickup delay", row: "a task is left alone for its pickup delay", unseen: "they ask for none",
		store: asking(func(req *tasks.LeaseRequest) { req.Others.PickupDelay = 0 }),
	},
	{
		name: "leases nothing under a pickup delay", row: "a task is leased after its pickup delay", unseen: "they ask for none",
		store: asking(func(req *tasks.LeaseRequest) {
			if req.Others.PickupDelay > 0 {
				req.Others.PickupDelay = time.Hour
			}
		}),
	},
	{
		name: "reads the clock of the host", row: "a lease is a place of its own and changes nothing else",
		store: func(b *broken) {
			b.lease = func(req tasks.LeaseRequest) ([]tasks.Task, error) {
				leased, err := b.Memory.Lease(context.Background(), req)
				for i := range leased {
					expires := time.Now().Unix() + leaseSeconds(req.Want(leased[i].Class).LeaseTime)
					leased[i].Lease.Expires, leased[i].Expires = expires, &expires
					b.row(leased[i].ID, func(task *tasks.Task) { task.Expires = &expires })
				}
				return leased, err
			}
		},
	},
}
