package storetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// Op is what an Event tells of.
type Op string

// The calls of tasks.Store, the execution of one task, and what a test did to
// the queue behind the store's back.
const (
	OpEnqueue Op = "enqueue"
	OpLease   Op = "lease"
	OpRenew   Op = "renew"
	OpSettle  Op = "settle"
	OpExecute Op = "execute"
	OpDisturb Op = "disturb"
)

// Event is one line of a history: the beginning of a call, or its answer.
type Event struct {
	Process string `json:"process"` // one Recorder; random
	Call    int64  `json:"call"`    // pairs a beginning with its answer
	At      int64  `json:"at"`      // nanoseconds of the machine's monotonic clock
	Op      Op     `json:"op"`
	Answer  bool   `json:"answer,omitempty"`

	// Failed is the error of an answer as a whole. Refused means that the error
	// says that nothing was done; after any other the call may have taken effect.
	Failed  string `json:"failed,omitempty"`
	Refused bool   `json:"refused,omitempty"`

	Items []Item `json:"items,omitempty"`
}

// Item is one task of a call or of its answer. Which fields are set depends on
// the operation.
type Item struct {
	ID        int64         `json:"id,omitempty"`
	Class     string        `json:"taskClass,omitempty"`
	Data      string        `json:"data,omitempty"`
	Delayed   bool          `json:"delayed,omitempty"`
	Owner     string        `json:"leaseOwner,omitempty"`
	Lease     *tasks.Lease  `json:"lease,omitempty"`
	LeaseTime time.Duration `json:"leaseTime,omitempty"`
	Expires   int64         `json:"leaseExpires,omitempty"`
	Kind      tasks.Kind    `json:"kind,omitempty"`
	Wait      time.Duration `json:"wait,omitempty"`
	FollowUps []Item        `json:"followUps,omitempty"`
	Lost      bool          `json:"lost,omitempty"`    // answered with ErrLeaseLost
	Refused   string        `json:"refused,omitempty"` // answered with another error: nothing was done

	// Caller means that tasks.Service was asked for a caller: the answer of a
	// lease does not tell what it was taken from, and an outcome is refused once
	// the lease is over.
	Caller bool `json:"caller,omitempty"`
}

// OpenHistory opens a file that a history is appended to. Each process needs a
// file of its own, because a line that was cut off must be the last one.
func OpenHistory(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the history: %w", err)
	}
	return f, nil
}

// ReadHistory reads the lines that Recorders wrote. A last line that was cut
// off, because its process was killed while it wrote, counts as not written.
func ReadHistory(r io.Reader) ([]Event, error) {
	var history []Event
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return history, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read line %d of the history: %w", len(history)+1, err)
		}
		var event Event
		if err := json.Unmarshal(bytes.TrimSpace(line), &event); err != nil {
			return nil, fmt.Errorf("read line %d of the history: %w", len(history)+1, err)
		}
		history = append(history, event)
	}
}
