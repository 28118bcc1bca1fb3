package redis

import (
	"fmt"
	"strconv"

	"github.com/phorge-gantry/gantry/tasks"
)

// fields are the fields of a task in the order in which scripts and readers ask for
// them; data and the fields of the archive come last.
var fields = []string{
	"taskClass", "leaseOwner", "leaseExpires", "failureCount", "failureTime", "priority", "objectPHID", "containerPHID",
	"dateCreated", "dateModified", "traceparent", "data", "result", "duration", "archivedEpoch",
}

// taskFields is how many of fields describe a task that is not archived, and
// dataField where its data stands.
const (
	taskFields = 12
	dataField  = 11
)

// reply reads the values of an answer one after the other. The scripts say what
// they are; a value of another kind reads as nothing.
type reply struct{ values []any }

func replied(answer any) *reply {
	values, _ := answer.([]any)
	return &reply{values}
}

func (r *reply) next() any {
	if len(r.values) == 0 {
		return nil
	}
	value := r.values[0]
	r.values = r.values[1:]
	return value
}

func (r *reply) text() string {
	text, _ := r.next().(string)
	return text
}

func (r *reply) number() int64 { return number(r.next()) }

func (r *reply) list() *reply { return replied(r.next()) }

// number reads a number that the server wrote as one, or as text.
func number(value any) int64 {
	switch v := value.(type) {
	case int64:
		return v
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err == nil {
			return n
		}
		// Fields that scripts wrote are whole; what a person wrote may not be.
		f, _ := strconv.ParseFloat(v, 64)
		return int64(f)
	}
	return 0
}

func numberOrNil(value any) *int64 {
	if value == nil {
		return nil
	}
	n := number(value)
	return &n
}

func textOrNil(value any) *string {
	text, ok := value.(string)
	if !ok {
		return nil
	}
	return &text
}

// taskOf reads the fields of a task in their order, the first taskFields of them.
func taskOf(id int64, row []any) tasks.Task {
	t := tasks.Task{
		ID:            id,
		Place:         tasks.Place{Owner: textOrNil(row[1]), Expires: numberOrNil(row[2])},
		FailureCount:  int(number(row[3])),
		FailureTime:   numberOrNil(row[4]),
		Priority:      int(number(row[5])),
		ObjectPHID:    textOrNil(row[6]),
		ContainerPHID: textOrNil(row[7]),
		DateCreated:   number(row[8]),
		DateModified:  number(row[9]),
	}
	t.Class, _ = row[0].(string)
	t.Traceparent, _ = row[10].(string)
	if data, ok := row[dataField].(string); ok {
		t.Data = []byte(data)
	}
	return t
}

// recordOf reads all the fields of a task; ok is false when there is none.
func recordOf(id int64, row []any) (r tasks.Record, ok bool) {
	if row[0] == nil {
		return r, false
	}
	r.Task = taskOf(id, row)
	if row[taskFields] != nil {
		r.Archive = &tasks.Archive{Result: int(number(row[12])), Duration: number(row[13]), Epoch: number(row[14])}
	}
	return r, true
}

// memberID reads an entry of an index.
func memberID(member string) (id string, err error) {
	if len(member) < 2 || int(member[0])-96 != len(member)-1 {
		return "", fmt.Errorf("%q is no entry of an index", member)
	}
	if _, err := strconv.ParseInt(member[1:], 10, 64); err != nil {
		return "", fmt.Errorf("%q is no entry of an index", member)
	}
	return member[1:], nil
}
