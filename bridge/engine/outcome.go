// Package engine reads what the PHP library says in JSON, above all what its
// task engine says that an execution came to. It knows nothing of the way on
// which that came: a pipe to a resident process, or an answer of Conduit.
package engine

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/phorge-gantry/gantry/tasks"
)

// outcome is GantryTaskOutcome::toDictionary.
type outcome struct {
	Kind       tasks.Kind     `json:"kind"`
	Wait       Integer        `json:"wait"` // seconds
	Category   string         `json:"category"`
	Reason     string         `json:"reason"`
	DurationUs Integer        `json:"durationUs"`
	FollowUps  List[followUp] `json:"followUps"`
	Uncaught   bool           `json:"uncaught"`
}

// followUp is one task that PhabricatorWorker::queueTask gathered.
type followUp struct {
	Class         string   `json:"taskClass"`
	Data          string   `json:"data"` // the JSON as it is to be stored
	Priority      *Integer `json:"priority"`
	ObjectPHID    *string  `json:"objectPHID"`
	ContainerPHID *string  `json:"containerPHID"`
	DelayUntil    *Integer `json:"delayUntil"` // epoch
}

// DecodeOutcome reads the JSON of a GantryTaskOutcome. Its kind is Succeeded,
// Yielded, Retry or Failed, its duration is not negative, and only a success has
// follow-ups. Times that are too long to say are cut.
//
// Uncaught says that something came out of the worker which a taskmaster would
// not have outlived, so that its process wants to be replaced.
//
// The error quotes what makes no sense: other JSON than an object, a value of a
// wrong type, an unknown kind, bytes that are not UTF-8. Then the task ran, and
// what it came to is not known.
func DecodeOutcome(text []byte) (decoded tasks.Outcome, uncaught bool, err error) {
	// The decoder would put other bytes in the place of those that are none.
	if !utf8.Valid(text) {
		return tasks.Outcome{}, false, fmt.Errorf("%.200q is not UTF-8", text)
	}
	var o outcome
	if err := Unmarshal(text, &o); err != nil {
		return tasks.Outcome{}, false, fmt.Errorf("%.200q: %w", text, err)
	}
	decoded = tasks.Outcome{
		Kind:     o.Kind,
		Wait:     o.Wait.Times(time.Second),
		Category: o.Category,
		Reason:   o.Reason,
		Duration: max(0, o.DurationUs.Times(time.Microsecond)),
	}
	switch o.Kind {
	case tasks.Succeeded:
		for _, f := range o.FollowUps {
			decoded.FollowUps = append(decoded.FollowUps, f.newTask())
		}
	case tasks.Yielded, tasks.Retry, tasks.Failed:
	default:
		return tasks.Outcome{}, false, fmt.Errorf("its kind is %.40q, which is unknown: use the php library of this Gantry", o.Kind)
	}
	return decoded, o.Uncaught, nil
}

func (f followUp) newTask() tasks.NewTask {
	n := tasks.NewTask{
		Class: f.Class, Data: []byte(f.Data),
		ObjectPHID: f.ObjectPHID, ContainerPHID: f.ContainerPHID,
	}
	if f.Priority != nil {
		n.Priority = new(int(*f.Priority))
	}
	if f.DelayUntil != nil {
		n.DelayUntil = int64(*f.DelayUntil)
	}
	return n
}
