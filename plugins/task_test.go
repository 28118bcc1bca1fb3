package plugins

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestDecode(t *testing.T) {
	type options struct {
		Count int64
		Opts  Map[int]
	}
	for _, c := range []struct {
		name string
		data string
		want options
	}{
		{"an object", `{"count":9007199254740993,"opts":{"a":1}}`, options{9007199254740993, Map[int]{"a": 1}}},
		{"an empty object", `{}`, options{}},
		{"B21 an empty map, as PHP writes it", `[]`, options{}},
		{"B21 an empty map with white space", " [ \n ] ", options{}},
		{"B21 an empty map within", `{"opts":[]}`, options{Opts: Map[int]{}}},
		{"B21 an empty object within", `{"opts":{}}`, options{Opts: Map[int]{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got options
			task := Task{Data: []byte(c.data)}
			if err := task.Decode(&got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("a list stays a list", func(t *testing.T) {
		got := []int{1}
		if err := (&Task{Data: []byte(`[]`)}).Decode(&got); err != nil || len(got) != 0 {
			t.Errorf("%v, %v", got, err)
		}
	})
	t.Run("a bare number, as the mail task has", func(t *testing.T) {
		var id int
		if err := (&Task{Data: []byte(`4711`)}).Decode(&id); err != nil || id != 4711 {
			t.Errorf("%v, %v", id, err)
		}
	})
}

func TestB18DataThatCannotBeReadFailsForGood(t *testing.T) {
	for _, data := range [][]byte{nil, {}, []byte(`{"a":`), []byte(`[1]`), []byte(`{"count":"three"}`)} {
		task := Task{Data: data}
		var v struct{ Count int }
		err := task.Decode(&v)
		if err == nil {
			t.Errorf("%q was read as %+v", data, v)
			continue
		}
		if got := outcomeOf(err); got.Kind != tasks.Failed {
			t.Errorf("%q comes to %s", data, got.Kind)
		}
	}
}
