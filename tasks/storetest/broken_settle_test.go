package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// leaving is a fault in the row that a settlement of some kinds leaves.
func leaving(change func(*broken, tasks.Settlement, *tasks.Task), kinds ...tasks.Kind) func(*broken) {
	return func(b *broken) {
		b.afterSettling(func(s tasks.Settlement, _ *tasks.Settled) {
			if slices.Contains(kinds, s.Outcome.Kind) {
				b.row(s.ID, func(task *tasks.Task) { change(b, s, task) })
			}
		})
	}
}

// archiving is a fault in the archived row.
func archiving(change func(*broken, *tasks.Record)) func(*broken) {
	return func(b *broken) {
		b.afterSettling(func(s tasks.Settlement, _ *tasks.Settled) {
			if record, ok := b.archived[s.ID]; ok {
				archive := *record.Archive
				record.Archive = &archive
				change(b, &record)
				b.archived[s.ID] = record
			}
		})
	}
}

// settling is a fault in what is settled.
func settling(change func(*broken, *tasks.Settlement)) func(*broken) {
	return func(b *broken) {
		b.settle = func(settlements []tasks.Settlement) []tasks.Settled {
			changed := slices.Clone(settlements)
			for i := range changed {
				change(b, &changed[i])
			}
			return b.settled(changed)
		}
	}
}

// refusing is a fault that calls some leases lost without looking at them.
func refusing(lost func(*broken, tasks.Settlement) bool) func(*broken) {
	return func(b *broken) {
		b.settle = func(settlements []tasks.Settlement) (answers []tasks.Settled) {
			for _, s := range settlements {
				if lost(b, s) {
					answers = append(answers, tasks.Settled{ID: s.ID, Err: tasks.ErrLeaseLost})
				} else {
					answers = append(answers, b.settled([]tasks.Settlement{s})...)
				}
			}
			return answers
		}
	}
}

var settleFaults = []fault{
	{
		name: "ignores the owner", row: "B03 after another owner took the task nothing its first owner says takes effect", rule: SettledUnheld,
		store: settling(func(b *broken, s *tasks.Settlement) {
			b.row(s.ID, func(task *tasks.Task) { task.Owner = &s.Lease.Owner })
		}),
	},
	{
		name: "settles by fence alone", row: "a settlement under another owner of the same fence is lost", unseen: "they settle under owners that were answered",
		store: settling(func(b *broken, s *tasks.Settlement) {
			b.row(s.ID, func(task *tasks.Task) {
				if task.Owner != nil {
					if o, ok := tasks.ParseOwner(*task.Owner); ok && o.Fence == s.Lease.Fence {
						s.Lease.Owner = *task.Owner
					}
				}
			})
		}),
	},
	{
		name: "lets a late finish overwrite the archive", row: "B16 a late finish does not overwrite a cancellation", rule: SettledTwice,
		store: func(b *broken) {
			b.settle = func(settlements []tasks.Settlement) []tasks.Settled {
				for _, s := range settlements {
					if record, ok := b.archived[s.ID]; ok && resultOf(s.Outcome.Kind) >= 0 {
						delete(b.archived, s.ID)
						record.Owner = &s.Lease.Owner
						b.active[s.ID] = record.Task
					}
				}
				return b.settled(settlements)
			}
		},
	},
	{
		name: "lets a late yield revive an archived task", row: "another outcome for a settled task is refused", rule: SettledTwice,
		store: func(b *broken) {
			b.settle = func(settlements []tasks.Settlement) []tasks.Settled {
				for _, s := range settlements {
					if record, ok := b.archived[s.ID]; ok && resultOf(s.Outcome.Kind) < 0 {
						delete(b.archived, s.ID)
						record.Owner = &s.Lease.Owner
						b.active[s.ID] = record.Task
					}
				}
				return b.settled(settlements)
			}
		},
	},
	{
		name: "loses follow-ups", row: "follow-ups are queued in their order with the priority of their parent", rule: FollowUpLost,
		store: settling(func(b *broken, s *tasks.Settlement) { s.Outcome.FollowUps = nil }),
	},
	{
		name: "loses follow-ups and answers their ids", row: "follow-ups are queued in their order with the priority of their parent", rule: TaskLost,
		store: func(b *broken) {
			b.afterSettling(func(_ tasks.Settlement, answer *tasks.Settled) {
				for _, id := range answer.FollowUps {
					delete(b.active, id)
				}
			})
		},
	},
	{
		name: "doubles follow-ups", row: "follow-ups are queued in their order with the priority of their parent", rule: TaskFromNowhere,
		store: func(b *broken) {
			b.afterSettling(func(s tasks.Settlement, answer *tasks.Settled) {
				if len(answer.FollowUps) > 0 {
					_, _ = b.insert(s.Outcome.FollowUps, tasks.PriorityDefault)
				}
			})
		},
	},
	{
		name: "doubles the follow-ups of a repeated settlement", row: "a repeated settlement is answered as done and does nothing", rule: TaskFromNowhere,
		store: func(b *broken) {
			b.afterSettling(func(s tasks.Settlement, answer *tasks.Settled) {
				if s.Outcome.Kind == tasks.Succeeded && len(answer.FollowUps) == 0 {
					answer.FollowUps, _ = b.insert(s.Outcome.FollowUps, tasks.PriorityDefault)
				}
			})
		},
	},
	{
		name: "queues follow-ups of failed tasks", row: "follow-ups are dropped unless the task succeeded", rule: TaskFromNowhere,
		store: func(b *broken) {
			b.afterSettling(func(s tasks.Settlement, answer *tasks.Settled) {
				if s.Outcome.Kind != tasks.Succeeded {
					_, _ = b.insert([]tasks.NewTask{task("A")}, tasks.PriorityDefault)
				}
			})
		},
	},
	{
		name: "gives follow-ups the default priority", row: "follow-ups are queued in their order with the priority of their parent",
		store: settling(func(b *broken, s *tasks.Settlement) {
			s.Outcome.FollowUps = slices.Clone(s.Outcome.FollowUps)
			for i, n := range s.Outcome.FollowUps {
				if n.Priority == nil {
					s.Outcome.FollowUps[i].Priority = ptr(tasks.PriorityDefault)
				}
			}
		}),
	},
	{
		name: "drops the row of a success", row: "success archives what Phorge archives", rule: TaskLost,
		store: func(b *broken) {
			b.afterSettling(func(s tasks.Settlement, _ *tasks.Settled) { delete(b.archived, s.ID) })
		},
	},
	{
		name: "archives and stays active", row: "success archives what Phorge archives", rule: PlaceUnexplained,
		store: archiving(func(b *broken, record *tasks.Record) {
			record.Place = unowned(latest)
			b.active[record.ID] = record.Task
		}),
	},
	{
		name: "does not settle and says it did", row: "success archives what Phorge archives", rule: RanTwice,
		store: func(b *broken) {
			b.settle = func(settlements []tasks.Settlement) []tasks.Settled {
				answers := make([]tasks.Settled, len(settlements))
				for i, s := range settlements {
					answers[i].ID = s.ID
				}
				return answers
			}
		},
	},
	{
		name: "archives without owner", row: "a permanent failure archives without counting", rule: PlaceUnexplained,
		store: archiving(func(b *broken, record *tasks.Record) { record.Owner = nil }),
	},
	{
		name: "archives failures as successes", row: "a permanent failure archives without counting", rule: PlaceUnexplained,
		store: archiving(func(b *broken, record *tasks.Record) { record.Result = tasks.ResultSuccess }),
	},
	{
		name: "counts milliseconds of work", row: "success archives what Phorge archives",
		store: archiving(func(b *broken, record *tasks.Record) { record.Duration /= 1000 }),
	},
	{
		name: "counts permanent failures", row: "B09 each lease tells how often the task failed before",
		store: archiving(func(b *broken, record *tasks.Record) { record.FailureCount++ }),
	},
	{
		name: "leaves no owner after a temporary failure", row: "a temporary failure counts and waits under (retry) with its fence", rule: PlaceUnexplained,
		store: leaving(func(b *broken, _ tasks.Settlement, task *tasks.Task) { task.Owner = nil }, tasks.Retry),
	},
	{
		name: "leaves its own owner after a temporary failure", row: "a settlement after the lease expired takes effect when nobody took the task", rule: PlaceUnexplained,
		store: leaving(func(b *broken, s tasks.Settlement, task *tasks.Task) { task.Owner = &s.Lease.Owner }, tasks.Retry),
	},
	{
		name: "does not count temporary failures", row: "a temporary failure counts and waits under (retry) with its fence",
		store: leaving(func(b *broken, _ tasks.Settlement, task *tasks.Task) { task.FailureCount-- }, tasks.Retry),
	},
	{
		name: "does not count crashes", row: "a crash counts as a failure and as a crash", rule: PlaceUnexplained,
		store: leaving(func(b *broken, s tasks.Settlement, task *tasks.Task) {
			task.Owner = ptr(tasks.RetryOwner(s.Lease.Fence, s.Lease.Crashes))
		}, tasks.Crashed),
	},
	{
		name: "counts yields as failures", row: "B05 a yield waits at least five seconds as (yield) and counts nothing",
		store: leaving(func(b *broken, _ tasks.Settlement, task *tasks.Task) { task.FailureCount++ }, tasks.Yielded),
	},
	{
		name: "yields for as long as it is told", row: "B05 a yield waits at least five seconds as (yield) and counts nothing",
		store: leaving(func(b *broken, s tasks.Settlement, task *tasks.Task) {
			task.Expires = ptr(later(b.clock(), s.Outcome.Wait))
		}, tasks.Yielded),
	},
	{
		name: "lets waits run over", row: "a wait leads as far as the column goes and no further",
		store: leaving(func(b *broken, s tasks.Settlement, task *tasks.Task) {
			task.Expires = ptr(int64(uint32(b.clock() + int64(s.Outcome.Wait/time.Second))))
		}, tasks.Retry, tasks.Crashed),
	},
	{
		name: "takes a negative wait for none", row: "a wait leads as far as the column goes and no further",
		store: settling(func(b *broken, s *tasks.Settlement) { s.Outcome.Wait = max(s.Outcome.Wait, 0) }),
	},
	{
		name: "puts what is given back at the end of the line", row: "a task that is given back stands where it stood", rule: PlaceUnexplained,
		store: leaving(func(b *broken, s tasks.Settlement, task *tasks.Task) {
			task.Place = at(tasks.BackOwner(s.Lease.Fence, s.Lease.Crashes), b.clock())
		}, tasks.Released),
	},
	{
		name: "revives the lease before when it gives back", row: "a task given back revives no lease that ended before", rule: PlaceUnexplained,
		store: leaving(func(b *broken, s tasks.Settlement, task *tasks.Task) {
			if s.Outcome.Wait <= 0 {
				task.Place = s.Lease.Prior
			}
		}, tasks.Released),
	},
	{
		name: "counts what it gives back as failed", row: "a task given back for later waits and counts nothing",
		store: leaving(func(b *broken, s tasks.Settlement, task *tasks.Task) { task.FailureCount++ }, tasks.Released),
	},
	{
		name: "writes the priority of the lease back", row: "a priority changed while the task ran is kept",
		store: func(b *broken) {
			priority := map[int64]int{}
			b.lease = func(req tasks.LeaseRequest) ([]tasks.Task, error) {
				chosen := b.choose(req)
				b.fence++
				for i, task := range chosen {
					priority[task.ID] = task.Priority
					chosen[i] = b.take(task, req.Want(task.Class).LeaseTime)
				}
				return chosen, nil
			}
			b.settle = func(settlements []tasks.Settlement) []tasks.Settled {
				for _, s := range settlements {
					if _, held := b.held(s.ID, s.Lease.Owner); held {
						b.row(s.ID, func(task *tasks.Task) { task.Priority = priority[s.ID] })
					}
				}
				return b.settled(settlements)
			}
		},
	},
	{
		name: "calls an expired lease lost though nobody took it", row: "a settlement after the lease expired takes effect when nobody took the task", rule: HeldRefused,
		store: refusing(func(b *broken, s tasks.Settlement) bool {
			task, held := b.held(s.ID, s.Lease.Owner)
			return held && value(task.Expires) < b.clock()
		}),
	},
	{
		name: "calls a repeated settlement lost", row: "a repeated settlement is answered as done and does nothing", rule: HeldRefused,
		store: refusing(func(b *broken, s tasks.Settlement) bool { return b.settledBefore(s) }),
	},
	{
		name: "settles a row that was freed", row: "a task that was freed while it ran is lost to whoever ran it", rule: SettledUnheld,
		store: settling(func(b *broken, s *tasks.Settlement) {
			b.row(s.ID, func(task *tasks.Task) {
				if task.Owner == nil {
					task.Owner = &s.Lease.Owner
				}
			})
		}),
	},
	{
		name: "lets one lost lease fail its batch", row: "a batch with lost leases settles all the others", rule: HeldRefused,
		store: func(b *broken) {
			b.settle = func(settlements []tasks.Settlement) []tasks.Settled {
				lost := slices.ContainsFunc(settlements, func(s tasks.Settlement) bool {
					_, held := b.held(s.ID, s.Lease.Owner)
					return !held && !b.settledBefore(s)
				})
				if !lost {
					return b.settled(settlements)
				}
				answers := make([]tasks.Settled, len(settlements))
				for i, s := range settlements {
					answers[i] = tasks.Settled{ID: s.ID, Err: tasks.ErrLeaseLost}
				}
				return answers
			}
		},
	},
	{
		name: "lets the last of two outcomes count", row: "of two outcomes for a task in one batch the first counts",
		store: func(b *broken) {
			b.settle = func(settlements []tasks.Settlement) []tasks.Settled {
				reversed := slices.Clone(settlements)
				slices.Reverse(reversed)
				answers := b.settled(reversed)
				slices.Reverse(answers)
				return answers
			}
		},
	},
	{
		name: "answers by ascending id", row: "a large batch in any order is answered in its order", rule: AnswerMisplaced,
		store: func(b *broken) {
			b.settle = func(settlements []tasks.Settlement) []tasks.Settled {
				answers := b.settled(settlements)
				slices.SortStableFunc(answers, func(a, b tasks.Settled) int { return int(a.ID - b.ID) })
				return answers
			}
		},
	},
	{
		name: "settles what no store settles", row: "an outcome that cannot be stored leaves the lease as it is",
		store: settling(func(b *broken, s *tasks.Settlement) {
			if s.Outcome.Kind == tasks.Declined {
				s.Outcome.Kind = tasks.Released
			}
		}),
	},
	{
		name: "archives a task whose follow-ups cannot be stored", row: "an outcome that cannot be stored leaves the lease as it is",
		store: func(b *broken) {
			b.settle = func(settlements []tasks.Settlement) []tasks.Settled {
				answers := b.settled(settlements)
				for i, answer := range answers {
					if errors.Is(answer.Err, tasks.ErrInvalid) && settlements[i].Outcome.Kind == tasks.Succeeded {
						s := settlements[i]
						s.Outcome.FollowUps = nil
						b.settled([]tasks.Settlement{s})
					}
				}
				return answers
			}
		},
	},
}
