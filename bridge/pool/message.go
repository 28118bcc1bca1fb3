package pool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/phorge-gantry/gantry/tasks"
)

// protocol is the version of what the two sides say to each other.
const protocol = 1

// order is the header of a frame to PHP: run, with the bytes of the task's data
// as the body, or leased.
type order struct {
	Type    string  `json:"type"`
	Request string  `json:"request"`
	Task    *fields `json:"task,omitempty"`
}

// fields are the columns of the task's row, for PhabricatorWorkerActiveTask.
type fields struct {
	ID            int64   `json:"id"`
	Class         string  `json:"taskClass"`
	Owner         *string `json:"leaseOwner"`
	Expires       *int64  `json:"leaseExpires"`
	FailureCount  int     `json:"failureCount"`
	FailureTime   *int64  `json:"failureTime"`
	Priority      int     `json:"priority"`
	ObjectPHID    *string `json:"objectPHID"`
	ContainerPHID *string `json:"containerPHID"`
	DateCreated   int64   `json:"dateCreated"`
	DateModified  int64   `json:"dateModified"`
	HasData       bool    `json:"hasData"` // the data row exists, be it empty
}

func fieldsOf(t tasks.Task) *fields {
	f := &fields{
		ID: t.ID, Class: t.Class, Owner: t.Owner, Expires: t.Expires,
		FailureCount: t.FailureCount, FailureTime: t.FailureTime, Priority: t.Priority,
		ObjectPHID: t.ObjectPHID, ContainerPHID: t.ContainerPHID,
		DateCreated: t.DateCreated, DateModified: t.DateModified,
		HasData: t.Data != nil,
	}
	if t.Lease != nil {
		f.Owner, f.Expires = &t.Lease.Owner, &t.Lease.Expires
	}
	return f
}

// answer is the header of a frame from PHP. Which fields it has depends on its
// type: ready, started, outcome or leaving.
type answer struct {
	Type    string `json:"type"`
	Request string `json:"request"` // started, outcome

	Protocol  int          `json:"protocol"` // ready
	Phorge    string       `json:"phorge"`
	PHP       string       `json:"php"`
	Namespace string       `json:"namespace"`
	ReadOnly  bool         `json:"readOnly"`
	Classes   list[string] `json:"classes"`

	Lease int64 `json:"lease"` // started; seconds

	Outcome *outcome `json:"outcome"` // outcome
	Leaving string   `json:"leaving"`
	Memory  int64    `json:"memory"`

	Reason string `json:"reason"` // leaving
}

// decodeAnswer reads a header. It insists on UTF-8, because the decoder would
// put other bytes in the place of those that are none.
func decodeAnswer(header []byte) (answer, error) {
	var a answer
	if !utf8.Valid(header) {
		return a, fmt.Errorf("%w: the header %.200q is not UTF-8", errFrame, header)
	}
	if err := json.Unmarshal(header, &a); err != nil {
		return a, fmt.Errorf("%w: read the header %.200q: %w", errFrame, header, err)
	}
	return a, nil
}

// list is a JSON list. PHP has one type for lists and maps, so an empty one may
// be written either way.
type list[T any] []T

func (l *list[T]) UnmarshalJSON(text []byte) error {
	if inner, isMap := bytes.CutPrefix(text, []byte("{")); isMap && string(bytes.TrimSpace(inner)) == "}" {
		*l = nil
		return nil
	}
	return json.Unmarshal(text, (*[]T)(l))
}

// outcome is what PHP says that an execution came to: GantryTaskOutcome.
type outcome struct {
	Kind       tasks.Kind     `json:"kind"`
	Wait       int64          `json:"wait"` // seconds
	Category   string         `json:"category"`
	Reason     string         `json:"reason"`
	DurationUs int64          `json:"durationUs"`
	FollowUps  list[followUp] `json:"followUps"`
	Uncaught   bool           `json:"uncaught"`
}

type followUp struct {
	Class         string  `json:"taskClass"`
	Data          string  `json:"data"` // the JSON as it is to be stored
	Priority      *int    `json:"priority"`
	ObjectPHID    *string `json:"objectPHID"`
	ContainerPHID *string `json:"containerPHID"`
	DelayUntil    *int64  `json:"delayUntil"`
}

// vocabulary answers the outcome in the words of package tasks.
func (o *outcome) vocabulary() (tasks.Outcome, error) {
	if o == nil {
		return tasks.Outcome{}, errors.New("it answered no outcome")
	}
	out := tasks.Outcome{
		Kind:     o.Kind,
		Wait:     seconds(o.Wait),
		Reason:   o.Reason,
		Category: o.Category,
		Duration: time.Duration(min(max(o.DurationUs, 0), math.MaxInt64/1000)) * time.Microsecond,
	}
	switch o.Kind {
	case tasks.Succeeded:
		for _, f := range o.FollowUps {
			out.FollowUps = append(out.FollowUps, f.newTask())
		}
	case tasks.Yielded, tasks.Retry, tasks.Failed:
	default:
		return tasks.Outcome{}, fmt.Errorf("it answered the unknown outcome %.40q", o.Kind)
	}
	return out, nil
}

func (f followUp) newTask() tasks.NewTask {
	n := tasks.NewTask{
		Class: f.Class, Data: []byte(f.Data), Priority: f.Priority,
		ObjectPHID: f.ObjectPHID, ContainerPHID: f.ContainerPHID,
	}
	if f.DelayUntil != nil {
		n.DelayUntil = *f.DelayUntil
	}
	return n
}

// seconds answers n seconds, or the longest time there is in its direction.
func seconds(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Second)
	return time.Duration(min(max(n, -most), most)) * time.Second
}
