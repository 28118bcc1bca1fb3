package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/phorge-gantry/gantry/tasks"
)

// payloads are data that a store must not decode and encode again.
var payloads = []string{
	`{"id":9007199254740993}`, `[1.0,1e2,-0]`, `{}`, `[]`, `{"opts":{}}`, ` { "a" : 1 } `,
	`17`, `0`, `"text"`, `null`, `true`,
	`"\u0000\ud83d\ude00"`, `"😀"`, `{"a":1,"a":2}`, `"\/ \\' \" % _ ?"`, "\"line\u2028\u2029\"",
}

var enqueueBehaviours = []behaviour{
	{name: "ids ascend in the order of the tasks and are never used twice", check: func(s *scene) {
		var ids []int64
		for range 3 {
			ids = append(ids, s.queue(task("A"), task("B"), task("C"))...)
		}
		if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != 9 || ids[0] < 1 {
			s.Errorf("the ids are %v", ids)
		}
		for i, record := range s.rows() {
			s.same("class of a row", record.Class, []string{"A", "B", "C"}[i%3])
		}
	}},
	{name: "a queued task is a row that was never leased", check: func(s *scene) {
		n := tasks.NewTask{Class: "A", Data: []byte(`{"k":1}`), ObjectPHID: ptr("PHID-TASK-1"), ContainerPHID: ptr("PHID-PROJ-é")}
		id := s.queue(n)[0]
		s.same("the row", s.row(id), tasks.Record{Task: tasks.Task{
			ID: id, Class: "A", Data: n.Data, Priority: tasks.PriorityDefault,
			ObjectPHID: n.ObjectPHID, ContainerPHID: n.ContainerPHID,
			DateCreated: s.now(), DateModified: s.now(),
		}})
	}},
	{name: "a priority is kept", check: func(s *scene) {
		id := s.queue(prioritized("A", tasks.PriorityImport))[0]
		s.same("priority", s.row(id).Priority, tasks.PriorityImport)
	}},
	{name: "B18 B21 data is stored and leased byte for byte", check: func(s *scene) {
		var news []tasks.NewTask
		for _, data := range payloads {
			news = append(news, tasks.NewTask{Class: "A", Data: []byte(data)})
		}
		s.queue(news...)
		leased := s.lease(Any(len(news)))
		if len(leased) != len(news) {
			s.Fatalf("%d of %d tasks were leased", len(leased), len(news))
		}
		for i, task := range leased {
			s.same("leased data", string(task.Data), payloads[i])
			record, err := s.Operator.Get(s.Context(), task.ID)
			s.must(err, "Get")
			s.same("data that Get answers", string(record.Data), payloads[i])
		}
	}},
	{name: "large data and large batches arrive whole", check: func(s *scene) {
		large := []byte(`"` + strings.Repeat(`x'\\`, 200_000) + `"`)
		news := make([]tasks.NewTask, 1200)
		for i := range news {
			news[i] = tasks.NewTask{Class: "A", Data: fmt.Appendf(nil, "%d", i)}
		}
		news[600].Data = large
		ids := s.queue(news...)
		for i, record := range s.rows() {
			if record.ID != ids[i] || !bytes.Equal(record.Data, news[i].Data) {
				s.Fatalf("row %d is task %d with data %.40q, want task %d with %.40q", i, record.ID, record.Data, ids[i], news[i].Data)
			}
		}
	}},
	{name: "B18 one task that cannot be stored refuses the whole batch", check: func(s *scene) {
		for _, bad := range []tasks.NewTask{
			{Class: "A", Data: []byte("{\"p\":\"\x83\x65\"}")},
			{Class: "A", Data: []byte(`{"a":`)},
			{Class: "A"},
			{Data: []byte(`[]`)},
			{Class: strings.Repeat("A", 65), Data: []byte(`[]`)},
			prioritized("A", -1),
		} {
			ids, err := s.Store.Enqueue(s.Context(), []tasks.NewTask{task("A"), bad, task("B")})
			s.isError("Enqueue", err, tasks.ErrInvalid)
			s.same("ids", len(ids), 0)
		}
		s.same("rows", len(s.rows()), 0)
	}},
	{name: "queuing nothing does nothing", check: func(s *scene) {
		s.same("ids", len(s.queue()), 0)
		s.same("rows", len(s.rows()), 0)
	}},
	{name: "a delayed task waits as (delay) until its epoch has passed", check: func(s *scene) {
		n := task("A")
		n.DelayUntil = s.now() + 100
		id := s.queue(n)[0]
		s.same("place", s.row(id).Place, at(tasks.DelayOwner, s.now()+100))
		s.age(100)
		s.same("leased at its epoch", len(s.lease(Any(1))), 0)
		s.age(1)
		s.take(id)
	}},
}
