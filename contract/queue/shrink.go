package queue

import (
	"context"
	"slices"
)

// Shrink answers a smaller sequence that differs as well, and where, of one that
// does. Nothing can be left out of it, and nothing in it be made plainer, without
// the copies being equal.
func (r *Runner) Shrink(ctx context.Context, ops []Op) (smallest *Difference, err error) {
	differs := func(ops []Op) bool {
		_, difference, failed := r.Run(ctx, ops)
		if failed != nil {
			err = failed
		}
		if difference != nil {
			smallest = difference
		}
		return difference != nil
	}
	if !differs(ops) {
		return nil, err
	}
	for before := -1; before != size(ops) && err == nil; {
		before = size(ops)
		// What follows the difference is gone, and what had nothing to act on.
		ops = performed(smallest.Steps)
		ops = shorten(ops, differs)
		for i := range ops {
			for _, plainer := range plainer(ops[i]) {
				try := slices.Clone(ops)
				try[i] = plainer
				if size(try) < size(ops) && differs(try) {
					ops = try
				}
			}
		}
	}
	return smallest, err
}

func performed(steps []Step) []Op {
	ops := make([]Op, len(steps))
	for i, step := range steps {
		ops[i] = step.Op
	}
	return ops
}

// size is what has to become less: the length of the script.
func size(ops []Op) int {
	n := 0
	for _, op := range ops {
		n += len(op.String()) + 1
	}
	return n
}

// fewOps is how many operations are few enough to try all pairs of them.
const fewOps = 12

// shorten leaves out runs of operations, long ones first, and pairs: a task and
// what is done to it.
func shorten(ops []Op, differs func([]Op) bool) []Op {
	for n := len(ops) / 2; n > 0; n /= 2 {
		for from := len(ops) - n; from >= 0; from -= n {
			if try := slices.Delete(slices.Clone(ops), from, from+n); differs(try) {
				ops = try
				from = min(from, len(ops)) // what follows moved up
			}
		}
	}
	for i := 0; i < len(ops) && len(ops) <= fewOps; i++ {
		for j := i + 1; j < len(ops); j++ {
			try := slices.Delete(slices.Clone(ops), j, j+1)
			if try = slices.Delete(try, i, i+1); differs(try) {
				ops, j = try, i
			}
		}
	}
	return ops
}

// plainer answers operations that are like this one, each without something.
func plainer(op Op) (all []Op) {
	add := func(change func(*Op)) {
		try := op
		change(&try)
		all = append(all, try)
	}
	for i := range op.New {
		add(func(try *Op) { try.New = slices.Delete(slices.Clone(op.New), i, i+1) })
		for _, n := range plainerTask(op.New[i]) {
			add(func(try *Op) { try.New = slices.Clone(op.New); try.New[i] = n })
		}
	}
	for i := range op.Tasks {
		add(func(try *Op) { try.Tasks = slices.Delete(slices.Clone(op.Tasks), i, i+1) })
	}
	add(func(try *Op) { try.Repeat = false })
	add(func(try *Op) { try.Retry = false })
	if op.Outcome == nil {
		return slices.DeleteFunc(all, empty)
	}
	outcome := func(change func(*Outcome)) {
		o := *op.Outcome
		change(&o)
		add(func(try *Op) { try.Outcome = &o })
	}
	outcome(func(o *Outcome) { *o = Outcome{End: Succeed} })
	outcome(func(o *Outcome) { o.FollowUps = nil })
	outcome(func(o *Outcome) { o.Retries = nil })
	outcome(func(o *Outcome) { o.Required = nil })
	outcome(func(o *Outcome) { o.NoWait = false })
	if op.Outcome.End != Yield {
		outcome(func(o *Outcome) { o.Wait = nil })
	}
	for i := range op.Outcome.FollowUps {
		outcome(func(o *Outcome) { o.FollowUps = slices.Delete(slices.Clone(o.FollowUps), i, i+1) })
		for _, n := range plainerTask(op.Outcome.FollowUps[i]) {
			outcome(func(o *Outcome) { o.FollowUps = slices.Clone(o.FollowUps); o.FollowUps[i] = n })
		}
	}
	return slices.DeleteFunc(all, empty)
}

func empty(op Op) bool {
	return op.Do == Schedule && len(op.New) == 0 ||
		op.Outcome != nil && op.Outcome.FollowUps != nil && len(op.Outcome.FollowUps) == 0
}

func plainerTask(n New) (all []New) {
	for _, change := range []func(*New){
		func(n *New) { n.Object = "" },
		func(n *New) { n.Container = "" },
		func(n *New) { n.Priority = nil },
		func(n *New) { n.Null = false },
		func(n *New) { n.Delay = nil },
		func(n *New) { n.Data = noData },
		func(n *New) { n.Class = Class },
	} {
		try := n
		change(&try)
		all = append(all, try)
	}
	return all
}
