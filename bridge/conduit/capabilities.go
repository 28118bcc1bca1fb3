package conduit

import (
	"context"
	"fmt"
	"slices"

	"github.com/phorge-gantry/gantry/bridge/engine"
)

// Capabilities is what worker.capabilities answers.
type Capabilities struct {
	Namespace    string
	TaskClasses  []string // gantry.task-classes: what may be executed, by exact spelling
	Publishers   []string // concrete subclasses of DoorkeeperFeedWorker, of every library
	KeyIDs       []string
	Phorge, PHP  string // versions
	DatabaseTime int64  // epoch
	MaxTasks     int    // in a call
	MaxBody      int64  // bytes
}

// Check asks the Phorge what it offers. Its error says what to mend: the
// address, the certificate, the key, the clock, the library.
func (e *Executor) Check(ctx context.Context) (Capabilities, error) {
	result, err := e.client.call(ctx, e.client.asks, "worker.capabilities", struct{}{})
	if err != nil {
		return Capabilities{}, err
	}
	var answer struct {
		Protocol     engine.Integer      `json:"protocol"`
		Namespace    string              `json:"namespace"`
		TaskClasses  engine.List[string] `json:"taskClasses"`
		Publishers   engine.List[string] `json:"publishers"`
		KeyIDs       engine.List[string] `json:"keyIDs"`
		Phorge       string              `json:"phorge"`
		PHP          string              `json:"php"`
		DatabaseTime engine.Integer      `json:"databaseTime"`
		MaxTasks     engine.Integer      `json:"maxTasks"`
		MaxBody      engine.Integer      `json:"maxBody"`
	}
	switch err := engine.Unmarshal(result, &answer); {
	case err != nil:
		return Capabilities{}, fmt.Errorf("conduit: worker.capabilities: the result cannot be read: %w", err)
	case answer.Protocol != protocol:
		return Capabilities{}, fmt.Errorf("conduit: the library of Phorge speaks protocol %d, not %d: install the one of this version", answer.Protocol, protocol)
	case answer.Namespace != e.config.Namespace:
		return Capabilities{}, fmt.Errorf("conduit: the Phorge has the storage namespace %.64q, not %q", answer.Namespace, e.config.Namespace)
	case answer.MaxTasks < 1:
		return Capabilities{}, fmt.Errorf("conduit: worker.capabilities: maxTasks is %d", answer.MaxTasks)
	}
	slices.Sort(answer.TaskClasses)
	return Capabilities{
		Namespace:    answer.Namespace,
		TaskClasses:  answer.TaskClasses,
		Publishers:   answer.Publishers,
		KeyIDs:       answer.KeyIDs,
		Phorge:       answer.Phorge,
		PHP:          answer.PHP,
		DatabaseTime: int64(answer.DatabaseTime),
		MaxTasks:     int(answer.MaxTasks),
		MaxBody:      int64(answer.MaxBody),
	}, nil
}
