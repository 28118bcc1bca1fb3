package storetest

import (
	"cmp"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
)

// executions proves that every execution ran under a lease of its own and that
// each repeated one had a reason. That its lease began rightly is what explain
// proves.
func (c *checker) executions() {
	runs := map[int64][]call{}
	for _, call := range c.calls {
		if call.Op == OpExecute {
			id := call.Items[0].ID
			runs[id] = append(runs[id], call)
			c.report.Executions++
		}
	}
	ends := c.settlements()
	for id, runs := range runs {
		slices.SortFunc(runs, func(a, b call) int { return cmp.Compare(a.At, b.At) })
		for i, run := range runs {
			c.execution(id, run, ends)
			if i > 0 {
				c.repeat(id, runs[:i], run, ends)
			}
		}
	}
	if c.report.Executions > 0 {
		c.neverRan(runs)
	}
}

// settlements answers the first accepted settlement of each lease.
func (c *checker) settlements() map[held]call {
	ends := map[held]call{}
	for _, call := range c.calls {
		if call.Op != OpSettle || !call.answered {
			continue
		}
		for i, asked := range call.Items {
			key := held{asked.ID, asked.Owner}
			if _, seen := ends[key]; !seen && !call.answers[i].Lost && call.answers[i].Refused == "" {
				end := call
				end.Items = []Item{asked}
				ends[key] = end
			}
		}
	}
	return ends
}

func (c *checker) execution(id int64, run call, ends map[held]call) {
	owner := run.Items[0].Owner
	if _, leased := c.owners[owner]; !leased {
		c.violate(RanUnleased, id, "it ran under %s, which no lease answered", owner)
	}
	if end, settled := ends[held{id, owner}]; settled && end.end < run.At {
		c.violate(RanUnleased, id, "it ran under %s after that lease was settled", owner)
	}
}

// repeat finds the reason why a task ran again.
func (c *checker) repeat(id int64, before []call, run call, ends map[held]call) {
	c.report.Repeats++
	last := before[len(before)-1]
	owner := last.Items[0].Owner
	if owner == run.Items[0].Owner {
		if declined := len(last.answers) == 1 && last.answers[0].Kind == tasks.Declined; !declined {
			c.violate(RanTwice, id, "it ran twice under %s", owner)
		}
		c.report.Asked++
		return
	}
	end, settled := ends[held{id, owner}]
	final := settled && resultOf(end.Items[0].Kind) >= 0 && !c.disturbed[id]
	switch {
	case final && c.owners[run.Items[0].Owner] > end.end:
		c.violate(RanTwice, id, "it was leased and ran under %s after %s had settled it as %s", run.Items[0].Owner, owner, end.Items[0].Kind)
	case final, !settled:
		// Either the lease before was lost, or this one was before it began to
		// run, without whoever held it knowing.
		c.report.Lost++
	default:
		c.report.Asked++
	}
}

// neverRan looks at the tasks that the archive calls successful.
func (c *checker) neverRan(runs map[int64][]call) {
	for id, record := range c.final {
		if record.Owner == nil || !c.succeeded(id, *record.Owner) {
			continue
		}
		if _, leased := c.owners[*record.Owner]; !leased {
			continue // somebody else settled it: stock PHP
		}
		ran := slices.ContainsFunc(runs[id], func(run call) bool {
			return run.Items[0].Owner == *record.Owner && len(run.answers) == 1
		})
		if !ran {
			c.violate(NeverRan, id, "%s settled it without an execution that ended", *record.Owner)
		}
	}
}
