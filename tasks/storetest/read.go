package storetest

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// read turns a call into operations on its tasks.
func (c *checker) read(call call) {
	if call.refused || !c.readable(call) {
		return
	}
	switch call.Op {
	case OpEnqueue:
		c.readEnqueue(call)
	case OpLease:
		c.readLease(call)
	case OpRenew:
		c.readRenew(call)
	case OpSettle:
		c.readSettle(call)
	case OpDisturb:
		c.readDisturb(call)
	}
}

// readable reports whether each item of an answer is about the item of the
// call in its place.
func (c *checker) readable(call call) bool {
	if !call.answered || call.Op == OpLease || call.Op == OpDisturb || call.Op == OpExecute {
		return true
	}
	if len(call.Items) != len(call.answers) {
		c.violate(AnswerMisplaced, 0, "%s of %d tasks answered %d", call.Op, len(call.Items), len(call.answers))
		return false
	}
	for i, asked := range call.Items {
		if answer := call.answers[i]; call.Op != OpEnqueue && asked.ID != answer.ID {
			c.violate(AnswerMisplaced, asked.ID, "%s answered task %d instead", call.Op, answer.ID)
			return false
		}
	}
	return true
}

func (c *checker) add(id int64, call call, apply func(row) (row, *refusal)) {
	c.ops[id] = append(c.ops[id], op{start: call.At, end: call.end, optional: !call.answered, apply: apply})
}

func (c *checker) readEnqueue(call call) {
	if !call.answered {
		return // no id is known; claim looks for the rows
	}
	for i, item := range call.answers {
		c.queued(item.ID, call, call.Items[i])
	}
}

// queued is a task, or a follow-up, whose id was answered.
func (c *checker) queued(id int64, call call, asked Item) {
	c.known[id] = asked
	c.add(id, call, func(r row) (row, *refusal) {
		if r.is != absent && r.is != wild {
			return r, refuse(TaskFromNowhere, "it was queued while it was %s", r)
		}
		if asked.Delayed {
			return row{is: active, owner: tasks.DelayOwner, expires: unknown}, nil
		}
		return row{is: active, unowned: true, expires: never}, nil
	})
}

func (c *checker) readLease(call call) {
	if !call.answered {
		c.leasedUnknown = min(c.leasedUnknown, call.At)
		return
	}
	for _, item := range call.answers {
		if at, seen := c.owners[item.Lease.Owner]; seen && at != call.At {
			c.violate(OwnerReused, item.ID, "two calls of Lease answered %s", item.Lease.Owner)
		}
		c.owners[item.Lease.Owner] = call.At
		if !c.sweptDuring(call) {
			c.clock = min(c.clock, (item.Lease.Expires-leaseSeconds(item.LeaseTime)+1)*int64(time.Second)-call.At)
		}
		c.add(item.ID, call, func(r row) (row, *refusal) { return c.leased(r, item, call) })
	}
}

// sweptDuring reports whether a disturbance of all expiries may have come in the
// midst of a call. A store that is asked again, because its answer was lost, can
// answer the end of a lease as it stands by then.
func (c *checker) sweptDuring(during call) bool {
	return slices.ContainsFunc(c.swept, func(sweep call) bool { return sweep.At < during.end && sweep.end > during.At })
}

// leased checks a lease against the row it was taken from. The database's time
// at the lease follows from its end.
func (c *checker) leased(r row, item Item, call call) (row, *refusal) {
	now := item.Lease.Expires - leaseSeconds(item.LeaseTime)
	prior, taken := placed(item.Lease.Prior), placed(place(item.Lease.Owner, item.Lease.Expires))
	if c.sweptDuring(call) {
		now, taken.expires = c.latest(call.end), unknown
	}
	switch {
	case r.is == absent:
		return r, refuse(TaskFromNowhere, "it was leased before it was queued")
	case r.is == archived:
		return r, refuse(LeasedEnded, "%s leased it while it was %s", item.Lease.Owner, r)
	case r.is == active && item.Caller:
		if !c.couldEnd(r, now, call.end) {
			return r, refuse(overtaken(r, LeasedEarly), "%s took it at %d while it was %s", item.Lease.Owner, now, r)
		}
		return taken, nil
	case r.is == active && (r.unowned != prior.unowned || r.owner != prior.owner):
		if c.stranger(prior.owner, call.end) && c.couldEnd(r, now, call.end) {
			break
		}
		return r, refuse(overtaken(r, PlaceUnexplained), "%s took it from a row that was %s, while it was %s", item.Lease.Owner, prior, r)
	case r.is == active && r.expires != unknown && r.expires != prior.expires && !c.renewedUnanswered(r.owner, call.end):
		return r, refuse(PlaceUnexplained, "%s took it from a row that was %s, while it was %s", item.Lease.Owner, prior, r)
	}
	if !due(item.Lease.Prior, now) {
		return r, refuse(overtaken(prior, LeasedEarly), "%s took it at %d from a row that was %s", item.Lease.Owner, now, prior)
	}
	return taken, nil
}

// overtaken names what leasing a row that is not due means.
func overtaken(r row, otherwise Rule) Rule {
	if !r.unowned && leased(tasks.Place{Owner: &r.owner}) {
		return LeasedLive
	}
	return otherwise
}

// stranger reports whether an owner can come of a lease call that was never
// answered: it is its owner, or what is left where nobody was there to take the
// answer and the lease was given back.
func (c *checker) stranger(owner string, before int64) bool {
	_, named := c.owners[owner]
	_, caller := tasks.ParseCaller(owner)
	back := strings.HasPrefix(owner, "(back):")
	return (isGantry(owner) || caller || back) && !named && c.leasedUnknown < before
}

// couldEnd reports whether a row may have become due by a time of the
// database, in a call that ended before a time of the machine.
func (c *checker) couldEnd(r row, now, before int64) bool {
	return r.expires == unknown || c.renewedUnanswered(r.owner, before) || due(r.place(), now)
}

// latest is what the database's clock shows at most at a time of the machine,
// by what it showed in the leases.
func (c *checker) latest(at int64) int64 {
	if at == math.MaxInt64 || c.clock == math.MaxInt64 {
		return math.MaxInt64
	}
	return (c.clock + at) / int64(time.Second)
}

func (c *checker) renewedUnanswered(owner string, before int64) bool {
	since, ok := c.renewedUnknown[owner]
	return ok && since < before
}

func (c *checker) readRenew(call call) {
	for i, asked := range call.Items {
		if !call.answered {
			if since, ok := c.renewedUnknown[asked.Owner]; !ok || call.At < since {
				c.renewedUnknown[asked.Owner] = call.At
			}
			continue
		}
		answer := call.answers[i]
		c.add(asked.ID, call, func(r row) (row, *refusal) {
			if answer.Lost {
				return c.calledLost(r, asked, call)
			}
			if r.is != wild && !r.heldBy(asked.Owner) {
				return r, refuse(RenewedUnheld, "%s renewed it while it was %s", asked.Owner, r)
			}
			return row{is: active, owner: asked.Owner, expires: answer.Expires}, nil
		})
	}
}

// calledLost checks an answer that says that a lease is lost.
func (c *checker) calledLost(r row, asked Item, call call) (row, *refusal) {
	if !r.heldBy(asked.Owner) || c.inSettling(asked, call) {
		return r, nil
	}
	if taken, may := c.takenUnseen(r, call); may {
		return taken, nil
	}
	return r, refuse(HeldRefused, "the lease %s was called lost while it held the task", asked.Owner)
}

// noteSettling keeps when leases were being settled.
func (c *checker) noteSettling(call call) {
	if call.Op != OpSettle {
		return
	}
	for _, asked := range call.Items {
		key := held{asked.ID, asked.Owner}
		c.settling[key] = append(c.settling[key], call)
	}
}

// inSettling reports whether another call was settling the lease while this one
// found it lost. Databases show a commit before the disk has it: when the server
// dies between the two, what was seen has never been.
func (c *checker) inSettling(asked Item, lost call) bool {
	return slices.ContainsFunc(c.settling[held{asked.ID, asked.Owner}], func(other call) bool {
		return (other.Process != lost.Process || other.Call != lost.Call) && other.At < lost.end && other.end > lost.At
	})
}

// takenUnseen answers the row as it is when a lease call without an answer took
// it, and whether that may have happened before a call ended.
func (c *checker) takenUnseen(r row, call call) (row, bool) {
	may := r.is == active && c.leasedUnknown < call.end && c.couldEnd(r, c.latest(call.end), call.end)
	return row{is: active, owner: someStranger, expires: unknown}, may
}

func (c *checker) readSettle(call call) {
	for i, asked := range call.Items {
		if call.answered && call.answers[i].Refused != "" {
			continue
		}
		if !call.answered && c.unansweredBefore(asked) {
			continue
		}
		if call.answered && call.answers[i].Lost {
			c.readSettledLost(asked, call)
			continue
		}
		c.add(asked.ID, call, func(r row) (row, *refusal) { return settled(r, asked) })
		if call.answered {
			c.readFollowUps(asked, call.answers[i], call)
		}
	}
}

// readSettledLost reads an answer that says that the lease was lost. It may
// have been lost to the settlement itself: a store that gets no answer to its
// COMMIT looks at the row again, and when somebody leased the row meanwhile it
// no longer shows what was settled. That somebody may have got no answer either.
func (c *checker) readSettledLost(asked Item, call call) {
	c.ops[asked.ID] = append(c.ops[asked.ID], op{start: call.At, end: call.end, optional: true, apply: func(r row) (row, *refusal) {
		if resultOf(asked.Kind) >= 0 || !r.heldBy(asked.Owner) {
			return r, refuse(SettledUnheld, "%s did not settle it while it was %s", asked.Owner, r)
		}
		next := left(asked)
		next.doubted = asked.Owner
		return next, nil
	}})
	c.add(asked.ID, call, func(r row) (row, *refusal) {
		return c.settledLost(r, asked, call)
	})
}

// readFollowUps takes the follow-ups of an answer for queued. A repeated
// settlement may answer them again or not at all, but no others.
func (c *checker) readFollowUps(asked, answer Item, call call) {
	key := held{asked.ID, asked.Owner}
	before, again := c.children[key]
	switch {
	case len(answer.FollowUps) == 0 || again && reflect.DeepEqual(before, answer.FollowUps):
		return
	case again:
		c.violate(TaskFromNowhere, asked.ID, "%s answered the follow-ups %v and then %v", asked.Owner, before, answer.FollowUps)
	case len(answer.FollowUps) != len(asked.FollowUps):
		c.violate(AnswerMisplaced, asked.ID, "%s queued %d follow-ups and was answered %d", asked.Owner, len(asked.FollowUps), len(answer.FollowUps))
	default:
		c.children[key] = answer.FollowUps
		for n, child := range answer.FollowUps {
			c.queued(child.ID, call, asked.FollowUps[n])
		}
	}
}

// unansweredBefore reports whether the same settlement was asked before and
// not answered either. Whoever repeats it in vain adds nothing to explain.
func (c *checker) unansweredBefore(asked Item) bool {
	key := fmt.Sprint(asked.ID, asked.Owner, asked.Kind)
	before := c.settledUnknown[key]
	c.settledUnknown[key] = true
	return before
}

// settled checks a settlement that was accepted, also one that repeats what
// had taken effect.
func settled(r row, asked Item) (row, *refusal) {
	next := left(asked)
	switch {
	case r.is == wild, r.heldBy(asked.Owner):
		return next, nil
	case repeats(r, next):
		return r, nil
	case r.is == archived:
		return r, refuse(SettledTwice, "%s settled it as %s while it was %s", asked.Owner, asked.Kind, r)
	}
	return r, refuse(SettledUnheld, "%s settled it as %s while it was %s", asked.Owner, asked.Kind, r)
}

func (c *checker) settledLost(r row, asked Item, call call) (row, *refusal) {
	if r.doubted == asked.Owner || repeats(r, left(asked)) {
		if taken, may := c.takenUnseen(r, call); may {
			return taken, nil
		}
		return r, refuse(HeldRefused, "%s settled it as %s, which shows, and was called lost", asked.Owner, asked.Kind)
	}
	if asked.Caller && r.heldBy(asked.Owner) && c.couldEnd(r, c.latest(call.end), call.end) {
		return r, nil // it was over
	}
	return c.calledLost(r, asked, call)
}

// left is the row that a settlement leaves. When a wait begins, the history
// does not tell.
func left(asked Item) row {
	if result := resultOf(asked.Kind); result >= 0 {
		return row{is: archived, owner: asked.Owner, result: result}
	}
	r := placed(after(*asked.Lease, tasks.Outcome{Kind: asked.Kind, Wait: asked.Wait}, 0))
	if asked.Kind != tasks.Released || asked.Wait > 0 {
		r.expires = unknown
	}
	return r
}

// repeats reports whether a row carries the proof that a settlement took
// effect: the owner in the archive, or a fence.
func repeats(r, left row) bool {
	return r.is == left.is && r.owner == left.owner && r.result == left.result &&
		r.unowned == left.unowned && strings.Contains(left.owner, ":")
}

func (c *checker) readDisturb(call call) {
	for _, item := range call.Items {
		c.disturbed[item.ID] = true
		c.add(item.ID, call, func(row) (row, *refusal) { return row{is: wild}, nil })
	}
}

// sweeps are the disturbances of all expiries that may have come between the
// operations on one task.
func (c *checker) sweeps(between []op) []op {
	var ops []op
	for _, call := range c.swept {
		before := func(o op) bool { return o.start < call.end }
		after := func(o op) bool { return o.end > call.At }
		if !slices.ContainsFunc(between, before) || !slices.ContainsFunc(between, after) {
			continue
		}
		ops = append(ops, op{start: call.At, end: call.end, optional: !call.answered, sweep: true, apply: func(r row) (row, *refusal) {
			if r.is == active && r.expires != never {
				r.expires = unknown
			}
			return r, nil
		}})
	}
	return ops
}

// observed is the row as it was found in the end.
func (c *checker) observed(id int64) op {
	record, ok := c.final[id]
	found := row{is: absent}
	if ok {
		found = placed(record.Place)
		if record.Archive != nil {
			found.is, found.result = archived, record.Result
		}
	}
	return op{start: math.MaxInt64, end: math.MaxInt64, apply: func(r row) (row, *refusal) {
		switch {
		case r.is == wild:
			return r, nil
		case found.is == absent && r.is != absent:
			return r, refuse(TaskLost, "it is in neither table and was %s", r)
		case found.is == active && r.is == active && r.owner != found.owner && c.stranger(found.owner, math.MaxInt64):
			return r, nil
		case found.is == active && r.is == archived:
			return r, refuse(PlaceUnexplained, "it is %s and was %s", found, r)
		case found.is != r.is, found.owner != r.owner, found.unowned != r.unowned, found.result != r.result:
			return r, refuse(PlaceUnexplained, "it is %s and was %s", found, r)
		}
		return r, nil
	}}
}
