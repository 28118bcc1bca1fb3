package conduit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// protocol is the version of worker.execute that is spoken here.
const protocol = 1

// What a receipt says of a task.
const (
	stateDone    = "done"    // it has an outcome
	stateRunning = "running" // its process lives
	stateDead    = "dead"    // its process died with it
	stateAbsent  = "absent"  // it was not begun and will not be
	stateRefused = "refused" // it was not begun, as things are
)

// receipt is what worker.execute answers for one task.
type receipt struct {
	ID         integer         `json:"id"`
	LeaseOwner string          `json:"leaseOwner"`
	State      string          `json:"state"`
	Outcome    json.RawMessage `json:"outcome"`
	Code       string          `json:"code"` // why it was refused
	Reason     string          `json:"reason"`
}

// outcome is a GantryTaskOutcome.
type outcome struct {
	Kind       string         `json:"kind"`
	Wait       integer        `json:"wait"` // seconds
	Category   string         `json:"category"`
	Reason     string         `json:"reason"`
	DurationUs integer        `json:"durationUs"`
	FollowUps  list[followUp] `json:"followUps"`
}

// followUp is one task that PhabricatorWorker::queueTask gathered.
type followUp struct {
	TaskClass     string   `json:"taskClass"`
	Data          string   `json:"data"` // JSON, as Phorge would have stored it
	Priority      *integer `json:"priority"`
	ObjectPHID    *string  `json:"objectPHID"`
	ContainerPHID *string  `json:"containerPHID"`
	DelayUntil    *integer `json:"delayUntil"`
}

// receipts are what came of tasks. One that is missing could not be read.
type receipts map[taskRef]*receipt

// parseReceipts answers the receipts of the tasks that were asked for. The error
// beside them says why some or all are missing.
func parseReceipts(result json.RawMessage, asked []taskRef) (receipts, error) {
	var answer struct {
		Protocol integer               `json:"protocol"`
		Tasks    list[json.RawMessage] `json:"tasks"`
	}
	switch err := unmarshal(result, &answer); {
	case err != nil:
		return nil, fmt.Errorf("the result cannot be read: %w", err)
	case answer.Protocol != protocol:
		return nil, fmt.Errorf("the result speaks protocol %d, not %d: install the library of this version", answer.Protocol, protocol)
	case len(answer.Tasks) != len(asked):
		return nil, fmt.Errorf("the result has %d tasks, asked were %d", len(answer.Tasks), len(asked))
	}
	found := receipts{}
	var problem error
	for i, raw := range answer.Tasks {
		r, err := parseReceipt(raw, asked[i])
		if err != nil {
			problem = fmt.Errorf("the result for task %d cannot be read: %w", asked[i].ID, err)
			continue
		}
		found[asked[i]] = r
	}
	return found, problem
}

func parseReceipt(raw json.RawMessage, asked taskRef) (*receipt, error) {
	r := &receipt{}
	if err := unmarshal(raw, r); err != nil {
		return nil, err
	}
	if int64(r.ID) != asked.ID || r.LeaseOwner != asked.LeaseOwner {
		return nil, fmt.Errorf("it is for task %d of %.64q", r.ID, r.LeaseOwner)
	}
	switch r.State {
	case stateDone, stateRunning, stateDead, stateAbsent, stateRefused:
		return r, nil
	}
	return nil, fmt.Errorf("its state is %.32q", r.State)
}

// parseOutcome answers what an execution came to.
func parseOutcome(raw json.RawMessage) (tasks.Outcome, error) {
	var o outcome
	if err := unmarshal(raw, &o); err != nil {
		return tasks.Outcome{}, err
	}
	answer := tasks.Outcome{
		Kind:     tasks.Kind(o.Kind),
		Wait:     span(o.Wait, time.Second),
		Category: o.Category,
		Reason:   o.Reason,
		Duration: max(0, span(o.DurationUs, time.Microsecond)),
	}
	switch answer.Kind {
	case tasks.Succeeded, tasks.Yielded, tasks.Retry, tasks.Failed:
	default:
		return tasks.Outcome{}, fmt.Errorf("its kind is %.32q", o.Kind)
	}
	for _, f := range o.FollowUps {
		answer.FollowUps = append(answer.FollowUps, f.task())
	}
	return answer, nil
}

func (f followUp) task() tasks.NewTask {
	t := tasks.NewTask{
		Class:         f.TaskClass,
		Data:          []byte(f.Data),
		ObjectPHID:    f.ObjectPHID,
		ContainerPHID: f.ContainerPHID,
	}
	if f.Priority != nil {
		priority := int(*f.Priority)
		t.Priority = &priority
	}
	if f.DelayUntil != nil {
		t.DelayUntil = int64(*f.DelayUntil)
	}
	return t
}

// span answers n units, or the longest time there is.
func span(n integer, unit time.Duration) time.Duration {
	most := integer(math.MaxInt64 / unit)
	return time.Duration(max(-most, min(n, most))) * unit
}

// unmarshal decodes an object. PHP writes an empty one as [].
func unmarshal(raw json.RawMessage, into any) error {
	switch text := bytes.TrimSpace(raw); {
	case bytes.HasPrefix(text, []byte("{")):
		return json.Unmarshal(raw, into)
	case emptyList(text):
		return nil
	}
	return fmt.Errorf("it is %.32q, not an object", raw)
}

// list is a list that may come as {}, when it is empty, or null.
type list[T any] []T

// UnmarshalJSON decodes a list.
func (l *list[T]) UnmarshalJSON(raw []byte) error {
	if text := bytes.TrimSpace(raw); len(text) > 1 && text[0] == '{' && len(bytes.TrimSpace(text[1:len(text)-1])) == 0 {
		*l = nil
		return nil
	}
	return json.Unmarshal(raw, (*[]T)(l))
}

func emptyList(text []byte) bool {
	return len(text) > 1 && text[0] == '[' && text[len(text)-1] == ']' && len(bytes.TrimSpace(text[1:len(text)-1])) == 0
}

// integer is a whole number that PHP may have written as 13, 13.0 or "13". Null
// is 0.
type integer int64

// UnmarshalJSON decodes a whole number.
func (n *integer) UnmarshalJSON(raw []byte) error {
	text := string(raw)
	if unquoted, ok := strings.CutPrefix(text, `"`); ok {
		text = strings.TrimSuffix(unquoted, `"`)
	} else if text == "null" {
		*n = 0
		return nil
	}
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
		*n = integer(whole)
		return nil
	}
	// Up to 2^53 a float is exact.
	if number, err := strconv.ParseFloat(text, 64); err == nil && number == math.Trunc(number) && math.Abs(number) <= 1<<53 {
		*n = integer(number)
		return nil
	}
	return fmt.Errorf("%.40s is no whole number", raw)
}
