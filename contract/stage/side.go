package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// Side runs the task of a case: PHP or Go.
type Side interface {
	tasks.Executor

	// Configure has the cases that follow find these options, and no others, in
	// Phorge's configuration.
	Configure(ctx context.Context, options map[string]any) error

	Close() error
}

// options is what a side was configured with last, and tells whether that is
// what the next case wants. Starting a process anew is most of what a case costs.
type options struct{ encoded string }

// change reports whether the options are others than before.
func (o *options) change(options map[string]any) (encoded map[string]json.RawMessage, changed bool, err error) {
	encoded = map[string]json.RawMessage{}
	for key, value := range options {
		if encoded[key], err = json.Marshal(value); err != nil {
			return nil, false, fmt.Errorf("option %s: %w", key, err)
		}
	}
	all, err := json.Marshal(encoded)
	if err != nil {
		return nil, false, err
	}
	return encoded, string(all) != o.encoded, nil
}

// keep remembers options that are in force.
func (o *options) keep(encoded map[string]json.RawMessage) error {
	all, err := json.Marshal(encoded)
	o.encoded = string(all)
	return err
}

var errNotConfigured = errors.New("the side was not configured; Configure starts it")

// readyTime is how long a process may take to be back after it died. Starting
// PHP on a busy machine takes seconds.
const readyTime = 30 * time.Second

// awaitReady waits until an executor takes tasks of a class.
func awaitReady(ctx context.Context, ready func() bool, problem func() string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New(problem())
		}
	}
	return nil
}
