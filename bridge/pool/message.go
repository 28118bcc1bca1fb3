package pool

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/phorge-gantry/gantry/bridge/engine"
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

	Protocol  int                 `json:"protocol"` // ready
	Phorge    string              `json:"phorge"`
	PHP       string              `json:"php"`
	Namespace string              `json:"namespace"`
	ReadOnly  bool                `json:"readOnly"`
	Classes   engine.List[string] `json:"classes"`

	Publishers engine.List[string] `json:"publishers"` // ready; concrete subclasses of DoorkeeperFeedWorker

	Lease engine.Integer `json:"lease"` // started; seconds

	Outcome json.RawMessage `json:"outcome"` // outcome; see engine.DecodeOutcome
	Leaving string          `json:"leaving"`
	Memory  int64           `json:"memory"`

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
