package conduit

import (
	"encoding/json"
	"fmt"

	"github.com/phorge-gantry/gantry/bridge/engine"
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
	ID         engine.Integer  `json:"id"`
	LeaseOwner string          `json:"leaseOwner"`
	State      string          `json:"state"`
	Outcome    json.RawMessage `json:"outcome"` // see engine.DecodeOutcome
	Code       string          `json:"code"`    // why it was refused
	Reason     string          `json:"reason"`
}

// receipts are what came of tasks. One that is missing could not be read.
type receipts map[taskRef]*receipt

// parseReceipts answers the receipts of the tasks that were asked for. The error
// beside them says why some or all are missing.
func parseReceipts(result json.RawMessage, asked []taskRef) (receipts, error) {
	var answer struct {
		Protocol engine.Integer               `json:"protocol"`
		Tasks    engine.List[json.RawMessage] `json:"tasks"`
	}
	switch err := engine.Unmarshal(result, &answer); {
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
	if err := engine.Unmarshal(raw, r); err != nil {
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
