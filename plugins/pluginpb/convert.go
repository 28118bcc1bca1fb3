package pluginpb

import (
	"fmt"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// FromTask writes a task for the wire.
func FromTask(run uint64, t tasks.Task) *Task {
	return &Task{
		Run:           run,
		Id:            t.ID,
		TaskClass:     t.Class,
		Data:          t.Data,
		Priority:      int64(t.Priority),
		FailureCount:  int64(t.FailureCount),
		ObjectPhid:    bytesOf(t.ObjectPHID),
		ContainerPhid: bytesOf(t.ContainerPHID),
		Traceparent:   t.Traceparent,
	}
}

// Vocabulary reads a task from the wire. What does not travel is zero.
func (t *Task) Vocabulary() tasks.Task {
	return tasks.Task{
		ID:            t.GetId(),
		Class:         t.GetTaskClass(),
		Data:          t.Data,
		Priority:      int(t.GetPriority()),
		FailureCount:  int(t.GetFailureCount()),
		ObjectPHID:    stringOf(t.ObjectPhid),
		ContainerPHID: stringOf(t.ContainerPhid),
		Traceparent:   t.GetTraceparent(),
	}
}

// FromOutcome writes an outcome for the wire. A handler can end a task only
// in the ways that Kind names; any other is a mistake of this package's
// caller, and panics.
func FromOutcome(run uint64, o tasks.Outcome) *Outcome {
	out := &Outcome{
		Run:        run,
		Kind:       fromKind(o.Kind),
		WaitMs:     o.Wait.Milliseconds(),
		Reason:     strings.ToValidUTF8(o.Reason, "\uFFFD"),
		DurationUs: o.Duration.Microseconds(),
	}
	for _, n := range o.FollowUps {
		out.FollowUps = append(out.FollowUps, &NewTask{
			TaskClass:     n.Class,
			Data:          n.Data,
			Priority:      int64Of(n.Priority),
			ObjectPhid:    n.ObjectPHID,
			ContainerPhid: n.ContainerPHID,
			DelayUntil:    n.DelayUntil,
			Traceparent:   n.Traceparent,
		})
	}
	return out
}

// Vocabulary reads an outcome from the wire, or answers an error when its
// kind is none that this version of the protocol knows.
func (o *Outcome) Vocabulary() (tasks.Outcome, error) {
	kind, ok := toKind(o.GetKind())
	if !ok {
		return tasks.Outcome{}, fmt.Errorf("the handler answered an outcome of unknown kind %d", o.GetKind())
	}
	out := tasks.Outcome{
		Kind:     kind,
		Wait:     time.Duration(o.GetWaitMs()) * time.Millisecond,
		Reason:   o.GetReason(),
		Duration: time.Duration(o.GetDurationUs()) * time.Microsecond,
	}
	for _, n := range o.GetFollowUps() {
		out.FollowUps = append(out.FollowUps, tasks.NewTask{
			Class:         n.GetTaskClass(),
			Data:          n.GetData(),
			Priority:      intOf(n.Priority),
			ObjectPHID:    n.ObjectPhid,
			ContainerPHID: n.ContainerPhid,
			DelayUntil:    n.GetDelayUntil(),
			Traceparent:   n.GetTraceparent(),
		})
	}
	return out, nil
}

func fromKind(kind tasks.Kind) Kind {
	switch kind {
	case tasks.Succeeded:
		return Kind_KIND_SUCCEEDED
	case tasks.Yielded:
		return Kind_KIND_YIELDED
	case tasks.Retry:
		return Kind_KIND_RETRY
	case tasks.Failed:
		return Kind_KIND_FAILED
	case tasks.Declined:
		return Kind_KIND_DECLINED
	}
	panic(fmt.Sprintf("pluginpb: a handler cannot end a task as %q", kind))
}

func toKind(kind Kind) (tasks.Kind, bool) {
	switch kind {
	case Kind_KIND_SUCCEEDED:
		return tasks.Succeeded, true
	case Kind_KIND_YIELDED:
		return tasks.Yielded, true
	case Kind_KIND_RETRY:
		return tasks.Retry, true
	case Kind_KIND_FAILED:
		return tasks.Failed, true
	case Kind_KIND_DECLINED:
		return tasks.Declined, true
	}
	return "", false
}

// The PHID columns are nullable and NULL is not "", so absence travels too.

func bytesOf(s *string) []byte {
	if s == nil {
		return nil
	}
	return []byte(*s)
}

func stringOf(b []byte) *string {
	if b == nil {
		return nil
	}
	s := string(b)
	return &s
}

func int64Of(n *int) *int64 {
	if n == nil {
		return nil
	}
	wide := int64(*n)
	return &wide
}

func intOf(n *int64) *int {
	if n == nil {
		return nil
	}
	narrow := int(*n)
	return &narrow
}
