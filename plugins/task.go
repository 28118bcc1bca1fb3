package plugins

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/phorge-gantry/gantry/tasks"
)

// Task is the task that a handler works on.
type Task struct {
	ID    int64
	Class string

	// Data is the exact stored bytes: JSON, normally. Nil when the row has
	// none, which PHP reads as null.
	Data []byte

	Priority      int
	FailureCount  int     // attempts that failed
	ObjectPHID    *string // what the task is about; nil when the column is NULL
	ContainerPHID *string

	attempt   *attempt
	followUps []tasks.NewTask
}

func newTask(t tasks.Task, a *attempt) *Task {
	return &Task{
		attempt:       a,
		ID:            t.ID,
		Class:         t.Class,
		Data:          t.Data,
		Priority:      t.Priority,
		FailureCount:  t.FailureCount,
		ObjectPHID:    t.ObjectPHID,
		ContainerPHID: t.ContainerPHID,
	}
}

// Decode reads the data into what v points to, as encoding/json does. Data
// that does not fit will not fit the next time either, so the error is a
// permanent failure: a handler returns it as it is.
//
// PHP writes an empty map as []; where v is a struct or a map, [] is read as
// {}. Within the data that is for the handler to expect: see Map.
func (t *Task) Decode(v any) error {
	if len(t.Data) == 0 {
		return Fail(errors.New("the task has no data"))
	}
	if err := unmarshal(t.Data, v); err != nil {
		return Fail(fmt.Errorf("the task's data is not what is expected: %w", err))
	}
	return nil
}

// unmarshal reads JSON that PHP wrote: where v is a struct or a map, [] is {}.
func unmarshal(data []byte, v any) error {
	if isEmptyList(data) && holdsMap(v) {
		data = []byte("{}")
	}
	return json.Unmarshal(data, v)
}

func isEmptyList(data []byte) bool {
	data = bytes.TrimSpace(data)
	return len(data) >= 2 && data[0] == '[' && data[len(data)-1] == ']' &&
		len(bytes.TrimSpace(data[1:len(data)-1])) == 0
}

func holdsMap(v any) bool {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer {
		return false
	}
	kind := t.Elem().Kind()
	return kind == reflect.Struct || kind == reflect.Map
}

// Map is a map in a task's data that PHP may have written: [] when empty.
type Map[V any] map[string]V

// UnmarshalJSON reads a JSON object, or [] as an empty one.
func (m *Map[V]) UnmarshalJSON(data []byte) error {
	if isEmptyList(data) {
		*m = Map[V]{}
		return nil
	}
	return json.Unmarshal(data, (*map[string]V)(m))
}

// Queue gives a follow-up, as PhabricatorWorker::queueTask: it is queued in
// the transaction that archives this task, when this task succeeds, and
// dropped otherwise. Its priority is this task's when it has none. A follow-up
// that cannot be queued makes the attempt fail.
func (t *Task) Queue(followUp tasks.NewTask) {
	t.followUps = append(t.followUps, followUp)
}

func (t *Task) checkFollowUps() error {
	for i, followUp := range t.followUps {
		if err := followUp.Validate(); err != nil {
			return fmt.Errorf("follow-up %d: %w", i+1, err)
		}
	}
	return nil
}
