package queue

import (
	"slices"

	"pgregory.net/rapid"
)

// Sequences draws operations. They draw few distinct values on purpose: tasks,
// leases and epochs have to meet to matter.
//
// Rapid draws short lists far more often than long ones; lists of lists come out
// long enough, and shrink as well.
func Sequences() *rapid.Generator[[]Op] {
	parts := rapid.SliceOfN(rapid.SliceOfN(anOp(), 1, 10), 1, 8)
	return rapid.Map(parts, func(parts [][]Op) []Op { return slices.Concat(parts...) })
}

// often is how often each operation is drawn. What a runtime does happens more
// often than what people do.
var often = []struct {
	times int
	do    string
}{
	{5, Schedule}, {6, Lease}, {8, Execute}, {5, Pass}, {1, Awaken}, {1, Cancel}, {1, Free}, {1, Delay},
	{1, Prioritize}, {1, Retry}, {1, RunNow}, {1, Taskmaster},
}

func anOp() *rapid.Generator[Op] {
	var kinds []string
	for _, kind := range often {
		for range kind.times {
			kinds = append(kinds, kind.do)
		}
	}
	return rapid.Custom(func(r *rapid.T) Op {
		op := Op{Do: rapid.SampledFrom(kinds).Draw(r, "do")}
		switch op.Do {
		case Schedule:
			op.New = rapid.SliceOfN(aNew(), 1, 3).Draw(r, "tasks")
			for i := range op.New {
				op.New[i].Null = false // scheduleTask gives both the default
			}
			return op
		case Lease:
			op.Limit = rapid.SampledFrom([]int{1, 2, 3, 4, 20}).Draw(r, "limit")
			return op
		case Execute:
			op.Held = rapid.IntRange(1, 8).Draw(r, "held")
			op.Outcome = anOutcome().Draw(r, "outcome")
			return op
		case Taskmaster:
			op.Outcome = anOutcome().Draw(r, "outcome")
			return op
		case Pass:
			op.Seconds = rapid.SampledFrom([]int64{1, 2, 5, 6, 60, 301, 3600, 7199, 7200, 7201, 7206}).Draw(r, "seconds")
			return op
		case RunNow:
			op.Tasks = []int{rapid.IntRange(1, 12).Draw(r, "task")}
			op.Outcome = anOutcome().Draw(r, "outcome")
			op.Retry = rapid.Bool().Draw(r, "retry")
			op.Repeat = op.Retry && rapid.Bool().Draw(r, "repeat")
			return op
		case Delay:
			op.Until = rapid.SampledFrom([]int64{60, 1, 0, -1, 3600}).Draw(r, "until")
		case Prioritize:
			op.Priority = rapid.SampledFrom([]int{1000, 2000, 3000}).Draw(r, "priority")
		case Retry:
			op.Repeat = rapid.Bool().Draw(r, "repeat")
		}
		op.Tasks = rapid.SliceOfN(rapid.IntRange(1, 12), 1, 3).Draw(r, "tasks")
		return op
	})
}

func aNew() *rapid.Generator[New] {
	classes := []string{Class, Class, Class, Class, OtherClass, OtherClass, UnknownClass, OddClass}
	return rapid.Custom(func(r *rapid.T) New {
		n := New{
			Class:     rapid.SampledFrom(classes).Draw(r, "class"),
			Data:      rapid.SampledFrom([]string{`{"n":1}`, `{"n":2}`, `{"list":[1,"two",null]}`}).Draw(r, "data"),
			Object:    rapid.SampledFrom([]string{"", "", "PHID-X-1"}).Draw(r, "object"),
			Container: rapid.SampledFrom([]string{"", "", "PHID-Y-1"}).Draw(r, "container"),
			Priority:  rapid.SampledFrom([]*int{nil, nil, nil, ptr(1000), ptr(2000), ptr(4000)}).Draw(r, "priority"),
			Delay:     rapid.SampledFrom([]*int64{nil, nil, nil, nil, ptr[int64](60), ptr[int64](0), ptr[int64](-10), ptr[int64](1)}).Draw(r, "delay"),
		}
		n.Null = n.Priority == nil && rapid.IntRange(0, 7).Draw(r, "null") == 7
		return n
	})
}

func anOutcome() *rapid.Generator[*Outcome] {
	return rapid.Custom(func(r *rapid.T) *Outcome {
		o := &Outcome{End: rapid.SampledFrom([]string{Succeed, Succeed, Temporary, Temporary, Yield, Permanent}).Draw(r, "end")}
		if rapid.IntRange(0, 2).Draw(r, "with follow-ups") == 2 {
			o.FollowUps = rapid.SliceOfN(aNew(), 1, 3).Draw(r, "follow-ups")
		}
		o.Retries = rapid.SampledFrom([]*int{nil, nil, nil, ptr(0), ptr(1)}).Draw(r, "retries")
		o.Required = rapid.SampledFrom([]*int64{nil, nil, nil, nil, ptr[int64](60), ptr[int64](7200), ptr[int64](9000), ptr[int64](86400)}).Draw(r, "required")
		switch o.End {
		case Yield:
			o.Wait = ptr(rapid.SampledFrom([]int64{15, 5, 1, 0, -5, 3600}).Draw(r, "wait"))
		case Temporary:
			o.Wait = rapid.SampledFrom([]*int64{nil, nil, ptr[int64](60), ptr[int64](0), ptr[int64](-5), ptr[int64](1)}).Draw(r, "wait")
			o.NoWait = rapid.IntRange(0, 9).Draw(r, "no wait") == 9
		}
		return o
	})
}

func ptr[T any](v T) *T { return &v }
