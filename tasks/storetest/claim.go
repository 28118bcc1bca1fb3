package storetest

import (
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

// content is what makes two tasks the same to whoever queued them.
type content struct{ class, data string }

// unclaimed holds the ids of rows whose origin no answer tells.
type unclaimed map[content][]int64

// claim proves that every row is there because somebody queued it, and that
// what was queued is there as it was given. A row whose id no answer told is
// claimed by the call that may have queued it: a success that is known to have
// taken effect claims each of its follow-ups, an enqueue without an answer
// claims all of its tasks or none.
func (c *checker) claim() {
	rows := unclaimed{}
	for id, record := range c.final {
		found := content{record.Class, string(record.Data)}
		asked, known := c.known[id]
		switch {
		case !known:
			rows[found] = append(rows[found], id)
		case found != asked.content() && !c.disturbed[id]:
			c.violate(TaskChanged, id, "%.200q was queued and %.200q is stored", asked.content(), found)
		}
	}
	c.claimFollowUps(rows)
	for _, call := range c.calls {
		if call.Op == OpEnqueue && !call.answered && !call.refused {
			rows.takeAll(call.Items)
		}
	}
	for found, ids := range rows {
		for _, id := range ids {
			if !c.disturbed[id] {
				c.violate(TaskFromNowhere, id, "nobody queued %.200q, or not so often", found)
			}
		}
	}
}

func (i Item) content() content { return content{i.Class, i.Data} }

// claimFollowUps looks at the successes whose follow-ups have no known ids:
// the settlement was not answered, or its answer repeats what had been done.
func (c *checker) claimFollowUps(rows unclaimed) {
	open := map[held][]Item{}
	for _, call := range c.calls {
		if call.Op != OpSettle || call.refused {
			continue
		}
		for i, asked := range call.Items {
			key := held{asked.ID, asked.Owner}
			if asked.Kind != tasks.Succeeded || len(asked.FollowUps) == 0 {
				continue
			}
			if call.answered && len(call.answers[i].FollowUps) == len(asked.FollowUps) {
				open[key] = nil
			} else if _, seen := open[key]; !seen {
				open[key] = asked.FollowUps
			}
		}
	}
	for key, followUps := range open {
		if !c.succeeded(key.id, key.owner) {
			continue
		}
		for _, followUp := range followUps {
			if !rows.take(followUp) {
				c.violate(FollowUpLost, key.id, "it succeeded under %s and its follow-up %.200q is not there", key.owner, followUp.content())
			}
		}
	}
}

// succeeded reports whether the archive says that a lease ended in success.
func (c *checker) succeeded(id int64, owner string) bool {
	record := c.final[id]
	return record.Archive != nil && record.Result == tasks.ResultSuccess && record.Owner != nil && *record.Owner == owner
}

func (u unclaimed) take(item Item) bool {
	ids := u[item.content()]
	if len(ids) == 0 {
		return false
	}
	u[item.content()] = ids[1:]
	return true
}

func (u unclaimed) takeAll(items []Item) {
	before := unclaimed{}
	for _, item := range items {
		before[item.content()] = slices.Clone(u[item.content()])
	}
	for _, item := range items {
		if !u.take(item) {
			for found, ids := range before {
				u[found] = ids
			}
			return
		}
	}
}
