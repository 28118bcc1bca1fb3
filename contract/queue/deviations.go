package queue

import (
	"slices"
	"strconv"

	"github.com/phorge-gantry/gantry/tasks"
)

// Deviation is a difference on purpose, and what is expected instead: functions
// that change what stock Phorge is asked, or its rows afterwards.
type Deviation struct {
	// Stock is the first column of its row in DEVIATIONS.md, which gives the
	// reason at length.
	Stock string

	// Reason says why, and Expected what is to be seen instead.
	Reason, Expected string

	// Needs is a sequence whose last operation differs without it. ByChance says
	// that it can also be equal, as the server likes.
	Needs    []Op
	ByChance bool

	// passOver reports whether a row of the queue that stock Phorge may lease is
	// left alone at t+now. Stock Phorge is then asked for the others.
	passOver func(row Row, now int64) bool

	// share answers how many of a lease are taken first from those that were
	// leased before.
	share func(limit int) int

	// byID has those of which the leases ended in the same second leased by id.
	byID bool

	// revives reports whether an execution counts as one whose lease began now.
	revives func(o Outcome, row Row, now int64) bool

	// expect changes the rows after an operation.
	expect func(c *change)
}

// Deviations are all of them, in the order in which they apply.
var Deviations = []Deviation{
	{
		Stock:    "Runs a task that was delayed (`delayUntil`, `bin/worker delay`) at once: it looks at the owner alone.",
		Reason:   "It is what Phorge's documentation says.",
		Expected: "A row without an owner is not leased before the second after its leaseExpires.",
		Needs:    []Op{schedule(New{Delay: ptr[int64](60)}), {Do: Free, Tasks: []int{1}}, lease(1)},
		passOver: func(row Row, now int64) bool {
			_, owned := row.owner()
			expires, waits := row.epoch("leaseExpires")
			return !owned && waits && expires >= now
		},
	},
	{
		Stock:    "A task whose class does not exist fails every 300 s, for ever.",
		Reason:   "Not to run a task is no failure of it.",
		Expected: "A task of such a class is not leased.",
		Needs:    []Op{schedule(New{Class: UnknownClass}), lease(1)},
		passOver: func(row Row, _ int64) bool { return row["taskClass"] == UnknownClass },
	},
	{
		Stock:    "Class names are case-insensitive.",
		Reason:   "A manifest says what may run.",
		Expected: "A task of a class that is spelled otherwise is not leased.",
		Needs:    []Op{schedule(New{Class: OddClass}), lease(1)},
		passOver: func(row Row, _ int64) bool { return row["taskClass"] == OddClass },
	},
	{
		Stock:    "Leases last 2 hours.",
		Reason:   "A Gantry whose leases were swept revives them within that time.",
		Expected: "The expired lease of a Gantry is left alone for five seconds more. (Here leases last two hours too: it is what the request asks for.)",
		Needs:    []Op{schedule(New{}), lease(1), pass(7205), lease(1)},
		passOver: func(row Row, now int64) bool {
			owner, _ := row.owner()
			expires, _ := row.epoch("leaseExpires")
			return leasePattern.MatchString(owner) && expires >= now-5
		},
	},
	{
		Stock:    "New work always goes before tasks that were leased before; a steady stream of it starves retries and yields.",
		Reason:   "Nothing starves.",
		Expected: "An eighth of the batch, at least one task, is leased from those that were leased before, as far as there are any; the rest as in Phorge.",
		Needs:    []Op{schedule(New{Delay: ptr[int64](-1)}, New{}), lease(1)},
		share:    func(limit int) int { return min(limit, max(1, limit/8)) },
	},
	{
		Stock:    "Leaves it to the server which of the tasks goes first whose leases ended in the same second.",
		Reason:   "An order is better than none.",
		Expected: "The one with the lowest id.",
		Needs: []Op{
			schedule(New{}, New{Class: UnknownClass}, New{Delay: ptr[int64](1)}, New{}, New{}, New{}, New{}),
			lease(4), pass(7206), lease(4),
		},
		ByChance: true,
		byID:     true,
	},
	{
		Stock:    "Refuses to settle under an expired lease; the task runs again.",
		Reason:   "The work is done; repeating it is the greater harm.",
		Expected: "As if the lease had not ended, when the row still carries it; the archive keeps the leaseExpires of the row.",
		Needs:    []Op{schedule(New{}), lease(1), pass(7200), execute(Outcome{End: Succeed})},
		revives: func(_ Outcome, row Row, now int64) bool {
			expires, _ := row.epoch("leaseExpires")
			return expires <= now
		},
		expect: keepsExpiry,
	},
	{
		Stock:    "Saves the whole row whoever holds it now: a late failure overwrites a cancellation, a new lease or a changed priority.",
		Reason:   "No task is settled twice.",
		Expected: "Nothing changes when the row carries another owner; and a priority that was changed meanwhile stays, also for follow-ups.",
		Needs:    []Op{schedule(New{}), lease(1), {Do: Free, Tasks: []int{1}}, execute(Outcome{End: Succeed})},
		expect:   namesItsOwner,
	},
	{
		Stock:    "Counts waits from the moment the task was leased.",
		Reason:   "A task that takes longer than its wait would be retried at once.",
		Expected: "Waits count from now.",
		Needs:    []Op{schedule(New{}), lease(1), pass(1), execute(Outcome{End: Yield, Wait: ptr[int64](15)})},
		expect:   waitsFromNow,
	},
	{
		Stock:    "Sets the lease to what getRequiredLeaseTime says, counted from the moment the task was leased, also when that is sooner than it would have ended.",
		Reason:   "A lease is renewed while the task runs, so none has to be shortened.",
		Expected: "A required lease that is longer than the one of the class counts from now, once less than two thirds of it are left; others change nothing.",
		Needs:    []Op{schedule(New{}), lease(1), execute(Outcome{End: Succeed, Required: ptr[int64](60)})},
		revives:  func(o Outcome, _ Row, _ int64) bool { return o.Required != nil },
		expect:   keepsExpiry,
	},
	{
		Stock:    "When getWaitBeforeRetry throws, nothing is written and the lease of 2 hours stays.",
		Reason:   "A failed attempt is settled.",
		Expected: "The failure is counted, and the task waits for two hours from now.",
		Needs:    []Op{schedule(New{}), lease(1), execute(Outcome{End: Temporary, NoWait: true})},
		expect:   noWait,
	},
	{
		Stock:    "A failed task keeps the owner of the taskmaster that ran it.",
		Reason:   "A late heartbeat cannot touch it.",
		Expected: "Its owner is (retry), with the fence of its lease.",
		Needs:    []Op{schedule(New{}), lease(1), execute(Outcome{End: Temporary})},
		expect: func(c *change) {
			if row := c.waiting(); row != nil && row["leaseOwner"] == c.held.owner() {
				row["leaseOwner"] = retried(c.held.lease)
			}
		},
	},
	{
		Stock:    "A follow-up with an explicit priority of null gets 2000.",
		Reason:   "It is what the caller means.",
		Expected: "It gets the priority of its parent.",
		Needs: []Op{
			schedule(New{Priority: ptr(1000)}), lease(1),
			execute(Outcome{End: Succeed, FollowUps: []New{{Class: Class, Data: noData, Null: true}}}),
		},
		expect: func(c *change) {
			for row, n := range c.followUps() {
				if n.Null {
					row["priority"] = c.row()["priority"]
				}
			}
		},
	},
	{
		Stock:    "Delays leave leaseOwner NULL.",
		Reason:   "Then stock Phorge heeds the delay too.",
		Expected: "The owner of a task that is delayed, and had none, is (delay).",
		Needs:    []Op{schedule(New{Delay: ptr[int64](60)})},
		expect: func(c *change) {
			for _, name := range c.after.names() {
				row := c.after[name]
				_, owned := row.owner()
				_, waits := row["leaseExpires"]
				isNew := c.before[name] == nil && c.op.Do != Retry
				delayed := c.op.Do == Delay && slices.Contains(c.op.Tasks, numberIn(name))
				if name == active(numberIn(name)) && !owned && waits && (isNew || delayed) {
					row["leaseOwner"] = tasks.DelayOwner
				}
			}
		},
	},
	{
		Stock:    "`bin/worker delay` refuses every task with an owner.",
		Reason:   "Nobody works on them.",
		Expected: "A task that waits, with an owner in parentheses, waits until then.",
		Needs: []Op{
			schedule(New{}), lease(1), execute(Outcome{End: Yield, Wait: ptr[int64](15)}),
			{Do: Delay, Tasks: []int{1}, Until: 60},
		},
		expect: func(c *change) {
			for _, row := range c.of(Delay) {
				if row.nobody() {
					row["leaseExpires"], row["dateModified"] = at(c.now+c.op.Until), at(c.now)
				}
			}
		},
	},
	{
		Stock:    "`bin/worker priority` throws on a task whose lease has expired.",
		Reason:   "Nothing speaks against it.",
		Expected: "Its priority is changed, and those of the tasks named behind it.",
		Needs:    []Op{schedule(New{}), lease(1), pass(7200), {Do: Prioritize, Tasks: []int{1}, Priority: 1000}},
		expect: func(c *change) {
			priority := strconv.Itoa(c.op.Priority)
			for _, row := range c.of(Prioritize) {
				if row["priority"] != priority {
					row["priority"], row["dateModified"] = priority, at(c.now)
				}
			}
		},
	},
}

const noData = `{"n":1}`

func schedule(news ...New) Op {
	for i := range news {
		news[i].Data = noData
		if news[i].Class == "" {
			news[i].Class = Class
		}
	}
	return Op{Do: Schedule, New: news}
}

func lease(limit int) Op    { return Op{Do: Lease, Limit: limit} }
func pass(seconds int64) Op { return Op{Do: Pass, Seconds: seconds} }
func execute(o Outcome) Op  { return Op{Do: Execute, Held: 1, Outcome: &o} }
