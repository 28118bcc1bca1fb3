package queue

import (
	"cmp"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
)

// leasePattern matches the owner of a task that a Gantry leased.
var leasePattern = regexp.MustCompile(`^lease \d+$`)

// allowed are the deviations that this run allows.
func (r *Runner) allowed() iter.Seq[Deviation] {
	return func(yield func(Deviation) bool) {
		for _, d := range Deviations {
			if d.Stock != r.Without && !yield(d) {
				return
			}
		}
	}
}

// queries answers the queries by which stock Phorge takes a lease: one for all
// tasks, unless deviations say otherwise.
func (s *sequence) queries(limit int) []query {
	var left, owned []int
	passed := false
	for n := 1; n <= s.state.tasks(); n++ {
		row, inQueue := s.state[active(n)]
		if !inQueue {
			continue
		}
		if s.passesOver(row) {
			passed = true
			continue
		}
		left = append(left, n)
		if _, leasedBefore := row.owner(); leasedBefore {
			owned = append(owned, n)
		}
	}
	first := 0
	for d := range s.allowed() {
		if d.share != nil && len(owned) > 0 {
			first = d.share(limit)
		}
	}
	for d := range s.allowed() {
		if !d.byID {
			continue
		}
		for _, n := range s.cut(left, owned, first, limit) {
			passed = true
			left = slices.DeleteFunc(left, func(left int) bool { return left == n })
			owned = slices.DeleteFunc(owned, func(left int) bool { return left == n })
		}
	}
	all := query{limit: limit}
	if passed {
		all.tasks = append([]int{}, left...)
	}
	if first == 0 {
		return []query{all}
	}
	return []query{{first, owned}, all}
}

// cut answers the tasks that are not leased because others, whose leases ended in
// the same second, have lower ids.
func (s *sequence) cut(left, owned []int, first, limit int) []int {
	expires := func(n int) int64 { e, _ := s.state[active(n)].epoch("leaseExpires"); return e }
	due := slices.DeleteFunc(slices.Clone(owned), func(n int) bool { return expires(n) >= s.now })
	slices.SortStableFunc(due, func(a, b int) int { return cmp.Compare(expires(a), expires(b)) })
	first = min(first, len(due))
	unowned := min(len(left)-len(owned), limit-first)
	leased := min(limit-unowned, len(due))
	if leased == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(due[leased:]), func(n int) bool { return expires(n) != expires(due[leased-1]) })
}

func (s *sequence) passesOver(row Row) bool {
	for d := range s.allowed() {
		if d.passOver != nil && d.passOver(row, s.now) {
			return true
		}
	}
	return false
}

func (s *sequence) revives(o Outcome, h *held) bool {
	row := s.state[active(h.task)]
	for d := range s.allowed() {
		if d.revives != nil && row["leaseOwner"] == h.owner() && d.revives(o, row, s.now) {
			return true
		}
	}
	return false
}

// expect answers the rows that are expected where stock Phorge has those after.
func (s *sequence) expect(a ask, after State) State {
	if a.op.foreign() {
		return after
	}
	c := &change{ask: a, now: s.now, before: s.state, after: after.clone()}
	for d := range s.allowed() {
		if d.expect != nil {
			d.expect(c)
		}
	}
	return c.after
}

// change is what stock Phorge made of an operation.
type change struct {
	ask
	now           int64
	before, after State // after is to be changed
}

// row answers the row of the executed task as it was before, when it carried
// the lease that the task is executed under; nil otherwise.
func (c *change) row() Row {
	if c.op.Do != Execute {
		return nil
	}
	if row := c.before[active(c.held.task)]; row["leaseOwner"] == c.held.owner() {
		return row
	}
	return nil
}

// exhausted reports whether the executed task has failed too often to be run.
func (c *change) exhausted() bool {
	failures, _ := strconv.Atoi(c.row()["failureCount"])
	return c.op.Outcome.Retries != nil && failures > *c.op.Outcome.Retries
}

// waiting answers the row of an executed task that stays in the queue.
func (c *change) waiting() Row {
	if c.row() == nil {
		return nil
	}
	return c.after[active(c.held.task)]
}

// archived answers the row of an executed task that went to the archive.
func (c *change) archived() Row {
	if c.row() == nil {
		return nil
	}
	return c.after[archive(c.held.task)]
}

// followUps answers the rows of the tasks that an execution queued, and as what.
func (c *change) followUps() iter.Seq2[Row, New] {
	return func(yield func(Row, New) bool) {
		if c.row() == nil {
			return
		}
		first := c.before.tasks() + 1
		for i, n := range c.op.Outcome.FollowUps {
			if row := c.after[active(first+i)]; row != nil && !yield(row, n) {
				return
			}
		}
	}
}

// of answers the rows of the tasks in the queue that an operation names.
func (c *change) of(do string) (rows []Row) {
	if c.op.Do != do {
		return nil
	}
	for _, n := range c.op.Tasks {
		if row := c.after[active(n)]; row != nil {
			rows = append(rows, row)
		}
	}
	return rows
}

func namesItsOwner(c *change) {
	if c.op.Do != Execute {
		return
	}
	if c.row() == nil {
		c.after = c.before.clone()
		return
	}
	priority := c.row()["priority"]
	if priority == c.held.priority {
		return
	}
	for _, row := range []Row{c.waiting(), c.archived()} {
		if row != nil {
			row["priority"] = priority
		}
	}
	for row, n := range c.followUps() {
		if n.Priority == nil && !n.Null {
			row["priority"] = priority
		}
	}
}

func waitsFromNow(c *change) {
	row := c.waiting()
	if row == nil || row["failureCount"] == c.row()["failureCount"] && row["leaseOwner"] == c.held.owner() {
		return
	}
	wait := int64(300) // PhabricatorWorkerLeaseQuery::getDefaultWaitBeforeRetry
	if c.op.Outcome.Wait != nil {
		wait = *c.op.Outcome.Wait
	}
	if c.op.Outcome.End == Yield {
		wait = max(wait, 5)
	}
	row["leaseExpires"] = at(c.now + wait)
}

// keepsExpiry has the archive say what the row said, where stock Phorge was told
// that the lease began now.
func keepsExpiry(c *change) {
	row := c.archived()
	if row == nil || !c.revive {
		return
	}
	row["leaseExpires"] = c.row()["leaseExpires"]
	required, expires := c.op.Outcome.Required, int64(0)
	if required == nil || c.exhausted() {
		return
	}
	expires, _ = c.row().epoch("leaseExpires")
	if seconds(*required) > leaseTime && seconds(expires-c.now) < seconds(*required)/3*2 {
		row["leaseExpires"] = at(c.now + *required)
	}
}

func noWait(c *change) {
	row := c.waiting()
	if row == nil || !c.op.Outcome.NoWait || c.op.Outcome.End != Temporary {
		return
	}
	failures, _ := strconv.Atoi(c.row()["failureCount"])
	row["failureCount"], row["failureTime"] = fmt.Sprint(failures+1), at(c.now)
	row["leaseExpires"], row["dateModified"] = at(c.now+int64(leaseTime.Seconds())), at(c.now)
}
