package main

import (
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// The taskClass says by which route a task is executed.
const (
	class        = "GantryFaultsPluginWorker"
	poolClass    = "GantryFaultsPoolWorker"
	conduitClass = "GantryFaultsConduitWorker"
)

// work is the data of a task. No two tasks have the same.
type work struct {
	class  string
	N      int     `json:"n"`
	Child  int     `json:"child,omitempty"` // which follow-up of N it is
	Do     deed    `json:"do"`
	Millis float64 `json:"ms"`
	Until  int64   `json:"until,omitempty"` // epoch at which it stops yielding
}

// deed is what a task comes to in the end.
type deed string

const (
	succeed deed = "succeed"
	retry   deed = "retry" // fails twice, then succeeds
	yield   deed = "yield" // yields for a while, then succeeds
	follow  deed = "follow"
	fail    deed = "fail"
)

const (
	// failures is how often a task fails that is to be tried again.
	failures = 2

	// followUps is how many follow-ups a task queues.
	followUps = 2

	// fullDrain is how long one undisturbed runtime works on a round of full
	// length: long enough for most of the faults to come while it does.
	fullDrain = 10 * time.Second

	// yielding is how long tasks yield, from the beginning of the round, as a
	// share of the drain.
	yielding = 0.8
)

// makeWork makes so many tasks of a class, which together keep so many slots
// busy for about the time of the drain. They are numbered after those that there
// are.
func makeWork(rng *rand.Rand, class string, slots, n, after int, now time.Time, drain time.Duration) []work {
	mean := float64(drain.Milliseconds()) * float64(slots) / float64(n)
	all := make([]work, n)
	for i := range all {
		all[i] = work{class: class, N: after + i + 1, Do: succeed, Millis: rng.ExpFloat64() * mean}
		switch rng.IntN(20) {
		case 0, 1:
			all[i].Do = retry
		case 2:
			all[i].Do, all[i].Until = yield, now.Add(time.Duration(yielding*float64(drain))).Unix()
		case 3, 4, 5:
			all[i].Do = follow
		case 6:
			all[i].Do = fail
		}
	}
	return all
}

// children are the follow-ups of a task.
func (w work) children() []work {
	if w.Do != follow {
		return nil
	}
	children := make([]work, followUps)
	for i := range children {
		children[i] = work{class: w.class, N: w.N, Child: i + 1, Do: succeed, Millis: w.Millis}
	}
	return children
}

// kind is what a run of the task comes to that has failed so often.
func (w work) kind(failureCount int, now time.Time) tasks.Kind {
	switch {
	case w.Do == retry && failureCount < failures:
		return tasks.Retry
	case w.Do == yield && now.Unix() < w.Until:
		return tasks.Yielded
	case w.Do == fail:
		return tasks.Failed
	}
	return tasks.Succeeded
}

// takes is how long a run takes.
func (w work) takes() time.Duration { return time.Duration(w.Millis * float64(time.Millisecond)) }

// result is how the task is to be archived.
func (w work) result() int {
	if w.Do == fail {
		return tasks.ResultFailure
	}
	return tasks.ResultSuccess
}

func (w work) task() tasks.NewTask {
	data, err := json.Marshal(w)
	if err != nil {
		panic(err) // numbers and words
	}
	return tasks.NewTask{Class: w.class, Data: data}
}
