package plugins

import (
	"errors"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// verdict is an error that decides what becomes of a task.
type verdict struct {
	kind tasks.Kind
	wait time.Duration
	text string
	err  error // what Fail was given, so that errors.Is sees it
}

func (v *verdict) Error() string { return v.text }
func (v *verdict) Unwrap() error { return v.err }

// Yield answers an error that makes a task wait without counting a failure, as
// PhabricatorWorkerYieldException. A wait of less than tasks.MinYield becomes
// that.
func Yield(wait time.Duration) error {
	return &verdict{kind: tasks.Yielded, wait: wait, text: "yielded for " + wait.String()}
}

// Fail answers an error that makes a task fail for good, as
// PhabricatorWorkerPermanentFailureException.
func Fail(err error) error {
	if err == nil {
		err = errors.New("failed permanently")
	}
	return &verdict{kind: tasks.Failed, text: err.Error(), err: err}
}

// Decline answers an error that hands a task to the fallback of its class, for
// instance to PHP, because this handler cannot take it. Nothing of it may have
// been done.
func Decline(reason string) error {
	return &verdict{kind: tasks.Declined, text: reason}
}

// outcomeOf answers the outcome that an error stands for, wrapped or not.
func outcomeOf(err error) tasks.Outcome {
	if err == nil {
		return tasks.Outcome{Kind: tasks.Succeeded}
	}
	outcome := tasks.Outcome{Kind: tasks.Retry, Reason: reasonOf(err)}
	var v *verdict
	if errors.As(err, &v) {
		outcome.Kind, outcome.Wait = v.kind, v.wait
	}
	return outcome
}

// maxReason is how many bytes of a reason travel: enough for a message and the
// stack of a panic.
const maxReason = 4096

func reasonOf(err error) string {
	reason := err.Error()
	if len(reason) > maxReason {
		reason = reason[:maxReason] + "…"
	}
	return reason
}
