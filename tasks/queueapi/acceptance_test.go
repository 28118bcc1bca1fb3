package queueapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/queueapi"
)

// TestAcceptance is the script that every store passes over HTTP.
func TestAcceptance(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend.name, func(t *testing.T) { accept(t, backend.open) })
	}
}

func accept(t *testing.T, open func(testing.TB) subject) {
	for _, row := range acceptance {
		t.Run(row.name, func(t *testing.T) {
			row.check(serve(t, open(t), func(c *queueapi.Config) { c.MaxBody = 1 << 20 }))
		})
	}
}

var acceptance = []struct {
	name  string
	check func(*scene)
}{
	{"a task is queued, leased, completed and archived", func(s *scene) {
		now := s.now()
		queued := read[task](s, s.post("enqueue", `{"taskClass":"A","data":"{\"n\":1}","objectPHID":"PHID-TASK-1"}`))
		s.same("priority", queued.Priority, tasks.PriorityDefault)
		leased := s.take("worker 1", queued.ID)
		s.same("data", leased.Data, `{"n":1}`)
		s.same("leaseOwner", leased.LeaseOwner, "worker 1")
		s.at("leaseExpires", leased.LeaseExpires, now, 60)
		record, err := s.Get(s.Context(), queued.ID)
		if err != nil || *record.Owner != (tasks.Caller{Name: "worker 1", Fence: leased.Fence}).String() {
			s.Fatalf("the row carries %s (%v)", text(record.Owner), err)
		}
		s.same("what else is due", len(s.lease("worker 2", 10)), 0)
		archived := read[task](s, s.post("complete", held(leased, `"duration":1500`), owner("worker 1")))
		s.same("archived", []any{archived.ID, archived.Result, archived.Duration, archived.LeaseOwner}, []any{queued.ID, 0, 1500, "worker 1"})
		s.same("shown", s.task(queued.ID).Result, 0)
	}},
	{"an empty queue answers an empty list", func(s *scene) {
		for _, body := range []string{"", "{}", "[]", `{"limit":5,"wait":0,"taskClasses":[]}`} {
			s.same("leased", s.ok(s.post("lease", body, owner("w"))).Data, []int{})
		}
	}},
	{"a list is queued whole or not at all", func(s *scene) {
		many := read[[]task](s, s.post("enqueue", `[{"taskClass":"A","data":"1"},{"taskClass":"B","data":"2","priority":"1000"},{"taskClass":"C","data":"3","priority":null}]`))
		s.same("priorities", []int{many[0].Priority, many[1].Priority, many[2].Priority}, []int{2000, 1000, 2000})
		s.same("of nothing", s.ok(s.post("enqueue", "[]")).Data, []int{})
		r := s.post("enqueue", `[{"taskClass":"A","data":"1"},{"taskClass":"","data":"2"}]`)
		s.refused(r, http.StatusBadRequest, "ERR_BAD_REQUEST")
		if !strings.Contains(r.Error.Message, "task 1") {
			s.Errorf("the answer does not say which task is wrong: %s", r.Error.Message)
		}
		active, _ := s.rows()
		s.same("rows", active, 3)
	}},
	{"a delayed task waits", func(s *scene) {
		until := s.now() + 3600
		queued := read[task](s, s.post("enqueue", fmt.Sprintf(`{"taskClass":"A","data":"1","delayUntil":%d}`, until)))
		s.same("queued", []any{queued.LeaseOwner, queued.LeaseExpires}, []any{"(delay)", until})
		s.same("shown", []any{s.task(queued.ID).LeaseOwner, s.task(queued.ID).LeaseExpires}, []any{"(delay)", until})
		s.same("leased", len(s.lease("w", 1)), 0)
		s.age(3602)
		s.take("w", queued.ID)
	}},
	{"classes that are not asked for stay", func(s *scene) {
		s.ok(s.post("enqueue", `[{"taskClass":"A","data":"1"},{"taskClass":"B","data":"2"},{"taskClass":"C","data":"3"}]`))
		leased := read[[]task](s, s.post("lease", `{"limit":10,"taskClasses":["C","A","X"]}`, owner("w")))
		s.same("leased", []string{leased[0].TaskClass, leased[1].TaskClass}, []string{"A", "C"})
		s.same("number", len(leased), 2)
	}},
	{"a temporary failure counts and waits", func(s *scene) {
		leased, now := s.hold("w"), s.now()
		s.same("answer", s.ok(s.post("fail", held(leased, `"message":"no route"`), owner("w"))).Data, map[string]string{"status": "ok"})
		after := s.task(leased.ID)
		s.same("failureCount", after.FailureCount, 1)
		s.at("leaseExpires", after.LeaseExpires, now, 300)
		s.same("attempts", after.Attempts, []map[string]string{{"Category": "temporary", "Reason": "no route", "Route": "api"}})
		s.age(302)
		again := s.take("w", leased.ID)
		s.ok(s.post("fail", held(again, `"retryWait":7`), owner("w")))
		s.at("leaseExpires", s.task(leased.ID).LeaseExpires, now, 7)
	}},
	{"a permanent failure archives", func(s *scene) {
		leased := s.hold("w")
		s.ok(s.post("fail", held(leased, `"permanent":true`), owner("w")))
		s.same("result", s.task(leased.ID).Result, 1)
	}},
	{"a yield lasts at least five seconds and can be awakened", func(s *scene) {
		leased, now := s.hold("w"), s.now()
		s.ok(s.post("yield", held(leased, `"duration":1`), owner("w")))
		after := s.task(leased.ID)
		s.same("leaseOwner", after.LeaseOwner, "(yield)")
		s.at("leaseExpires", after.LeaseExpires, now, 5)
		s.same("awakened", s.ok(s.post("awaken", fmt.Sprintf(`{"taskIDs":[%d,%d]}`, leased.ID, leased.ID+1000))).Data, map[string]int{"awakened": 1})
		s.take("w", leased.ID)
	}},
	{"follow-ups come with the success, at the priority of their parent", func(s *scene) {
		id := read[task](s, s.post("enqueue", `{"taskClass":"A","data":"1","priority":1234}`)).ID
		leased := s.take("w", id)
		done := read[task](s, s.post("complete", held(leased, `"followups":[{"taskClass":"B","data":"[1]"},{"taskClass":"C","data":"[2]","priority":"7"}]`), owner("w")))
		if len(done.FollowUps) != 2 {
			s.Fatalf("the follow-ups are %v", done.FollowUps)
		}
		first, second := s.task(done.FollowUps[0]), s.task(done.FollowUps[1])
		s.same("follow-ups", []any{first.TaskClass, first.Priority, second.TaskClass, second.Priority}, []any{"B", 1234, "C", 7})
	}},
	{"B03 what the first owner says after another took the task is one 409 and no more", func(s *scene) {
		first := s.hold("first")
		s.age(62)
		second := s.take("second", first.ID)
		for _, call := range []struct{ path, more string }{{"complete", `"duration":1`}, {"fail", `"permanent":true`}, {"fail", `"retryWait":1`}, {"yield", `"duration":9`}, {"renew", `"duration":9`}} {
			s.refused(s.post(call.path, held(first, call.more), owner("first")), http.StatusConflict, "ERR_LEASE_CONFLICT")
			s.refused(s.post(call.path, fmt.Sprintf(`{"taskID":%d,%s}`, first.ID, call.more), owner("first")), http.StatusConflict, "ERR_LEASE_CONFLICT")
		}
		before := strings.Count(s.logs.String(), "\n")
		s.refused(s.post("complete", held(first), owner("first")), http.StatusConflict, "ERR_LEASE_CONFLICT")
		s.same("lines in the log", strings.Count(s.logs.String(), "\n")-before, 1)
		now := s.task(first.ID)
		s.same("the row", []any{now.LeaseOwner, now.Fence, now.FailureCount}, []any{"second", second.Fence, 0})
		s.hold("first") // who lost one leases on
		s.ok(s.post("complete", held(second), owner("second")))
		s.same("the result", s.task(first.ID).Result, 0)
	}},
	{"an expired lease settles nothing and can be renewed", func(s *scene) {
		leased := s.hold("w")
		s.age(62)
		before := s.task(leased.ID)
		for _, call := range []struct{ path, more string }{{"complete", `"followups":[{"taskClass":"B","data":"1"}]`}, {"fail", `"retryWait":9`}, {"yield", `"duration":9`}} {
			s.refused(s.post(call.path, held(leased, call.more), owner("w")), http.StatusConflict, "ERR_LEASE_CONFLICT")
		}
		s.same("the row", s.task(leased.ID), before)
		now := s.now()
		s.at("renewed", read[task](s, s.post("renew", held(leased, `"duration":600`), owner("w"))).LeaseExpires, now, 600)
		s.ok(s.post("complete", held(leased), owner("w")))
	}},
	{"without a fence the name alone is compared", func(s *scene) {
		leased := s.hold("w")
		body := fmt.Sprintf(`{"taskID":%d}`, leased.ID)
		s.refused(s.post("complete", body, owner("x")), http.StatusConflict, "ERR_LEASE_CONFLICT")
		s.refused(s.post("complete", `{"taskID":4000000}`, owner("w")), http.StatusConflict, "ERR_LEASE_CONFLICT")
		s.ok(s.post("renew", body, owner("w")))
		s.ok(s.post("complete", body, owner("w")))
		s.ok(s.post("complete", body, owner("w"))) // whose answer was lost
	}},
	{"a settlement under another fence of the same name changes nothing", func(s *scene) {
		first := s.hold("w")
		s.age(62)
		second := s.take("w", first.ID)
		if second.Fence <= first.Fence {
			s.Fatalf("the fence %d was followed by %d", first.Fence, second.Fence)
		}
		s.refused(s.post("complete", held(first), owner("w")), http.StatusConflict, "ERR_LEASE_CONFLICT")
		s.ok(s.post("complete", held(second), owner("w")))
	}},
	{"a settlement whose answer was lost is repeated", func(s *scene) {
		leased := s.hold("w")
		body := held(leased, `"followups":[{"taskClass":"B","data":"1"}]`)
		s.ok(s.post("complete", body, owner("w")))
		s.same("result", read[task](s, s.post("complete", body, owner("w"))).Result, 0)
		active, archived := s.rows()
		s.same("rows", []int{active, archived}, []int{1, 1})
	}},
	{"B16 a cancelled task stays cancelled, and a finished one is not", func(s *scene) {
		leased := s.hold("w")
		body := fmt.Sprintf(`{"taskID":%d}`, leased.ID)
		s.same("result", read[task](s, s.post("cancel", body)).Result, 2)
		s.refused(s.post("complete", held(leased, `"followups":[{"taskClass":"B","data":"1"}]`), owner("w")), http.StatusConflict, "ERR_LEASE_CONFLICT")
		s.refused(s.post("renew", held(leased), owner("w")), http.StatusConflict, "ERR_LEASE_CONFLICT")
		s.same("result", s.task(leased.ID).Result, 2)
		s.refused(s.post("cancel", body), http.StatusConflict, "ERR_CONFLICT")
		s.refused(s.post("cancel", `{"taskID":4000000}`), http.StatusNotFound, "ERR_NOT_FOUND")
		active, _ := s.rows()
		s.same("active", active, 0)
		finished := s.hold("w")
		s.ok(s.post("complete", held(finished), owner("w")))
		s.refused(s.post("cancel", fmt.Sprintf(`{"taskID":%d}`, finished.ID)), http.StatusConflict, "ERR_CONFLICT")
		s.same("result of the finished one", s.task(finished.ID).Result, 0)
		// Whoever asks before it starts learns of it.
		unstarted := s.hold("w")
		s.ok(s.post("cancel", fmt.Sprintf(`{"taskID":%d}`, unstarted.ID)))
		s.refused(s.post("renew", held(unstarted), owner("w")), http.StatusConflict, "ERR_LEASE_CONFLICT")
		waiting := s.queue("[]")
		s.ok(s.post("cancel", fmt.Sprintf(`{"taskID":%d}`, waiting)))
		s.same("leased", len(s.lease("w", 1)), 0)
	}},
	{"B26 a lease is renewed twice within a second", func(s *scene) {
		leased := s.hold("w")
		s.age(50)
		s.ok(s.post("renew", held(leased), owner("w")))
		s.ok(s.post("renew", held(leased), owner("w")))
	}},
	{"many are settled, each for itself", func(s *scene) {
		var tasks []task
		for range 5 {
			tasks = append(tasks, s.hold("w"))
		}
		s.ok(s.post("cancel", fmt.Sprintf(`{"taskID":%d}`, tasks[1].ID)))
		item := func(t task, rest string) string {
			return fmt.Sprintf(`{"taskID":%d,"fence":%d,%s}`, t.ID, t.Fence, rest)
		}
		body := `{"settlements":[` + strings.Join([]string{
			item(tasks[0], `"outcome":"complete","followups":[{"taskClass":"B","data":"1"}]`),
			item(tasks[1], `"outcome":"complete"`),
			item(tasks[2], `"outcome":"fail","permanent":true`),
			item(tasks[3], `"outcome":"yield","duration":60`),
			item(tasks[4], `"outcome":"complete","retryWait":1`),
			`{"taskID":"x"}`, `7`, `{"taskID":3}`,
		}, ",") + `]}`
		answers := read[[]struct {
			TaskID    int64
			FollowUps []int64
			Error     *struct{ Code string }
		}](s, s.post("settle", body, owner("w")))
		var codes []string
		for _, a := range answers {
			code := ""
			if a.Error != nil {
				code = a.Error.Code
			}
			codes = append(codes, code)
		}
		s.same("codes", codes, []string{"", "ERR_LEASE_CONFLICT", "", "", "ERR_BAD_REQUEST", "ERR_BAD_REQUEST", "ERR_BAD_REQUEST", "ERR_BAD_REQUEST"})
		s.same("follow-ups", len(answers[0].FollowUps), 1)
		s.same("rows", []any{s.task(tasks[0].ID).Result, s.task(tasks[1].ID).Result, s.task(tasks[2].ID).Result, s.task(tasks[3].ID).LeaseOwner, s.task(tasks[4].ID).LeaseOwner},
			[]any{0, 2, 1, "(yield)", "w"})
		s.same("of nothing", s.ok(s.post("settle", `{"settlements":[]}`, owner("w"))).Data, []int{})
	}},
	{"the same enqueue under one key takes effect once", func(s *scene) {
		key := header{"Idempotency-Key", "order-17"}
		first := s.ok(s.post("enqueue", `{"taskClass":"A","data":"1"}`, key))
		again := s.ok(s.post("enqueue", `{"data":"1","taskClass":"A"}`, key))
		s.same("ids", read[task](s, again).ID, read[task](s, first).ID)
		s.same("duplicate", []bool{first.Duplicate, again.Duplicate}, []bool{false, true})
		s.refused(s.post("enqueue", `{"taskClass":"A","data":"2"}`, key), http.StatusConflict, "ERR_CONFLICT")
		s.refused(s.post("enqueue", `{"taskClass":"A","data":"2"}`, header{"Idempotency-Key", "a b"}), http.StatusBadRequest, "ERR_BAD_REQUEST")
		leased := s.take("w", read[task](s, first).ID)
		s.ok(s.post("complete", held(leased), owner("w")))
		late := s.ok(s.post("enqueue", `{"taskClass":"A","data":"1"}`, key))
		s.same("late", []any{late.Duplicate, read[task](s, late).Result}, []any{true, 0})
		many := s.ok(s.post("enqueue", `[{"taskClass":"A","data":"1"},{"taskClass":"A","data":"2"}]`, header{"Idempotency-Key", "other"}))
		s.same("many again", idsOf(read[[]task](s, s.post("enqueue", `[{"taskClass":"A","data":"1"},{"taskClass":"A","data":"2"}]`, header{"Idempotency-Key", "other"}))), idsOf(read[[]task](s, many)))
		active, archived := s.rows()
		s.same("rows", []int{active, archived}, []int{2, 1})
	}},
	{"B18 data that PHP cannot read is refused and nothing is stored", func(s *scene) {
		for _, body := range []string{
			"{\"taskClass\":\"A\",\"data\":\"{\\\"p\\\":\\\"\x83\x65\\\"}\"}",
			`{"taskClass":"A","data":""}`,
			`{"taskClass":"A","data":"{\"a\":"}`,
			`{"taskClass":"A","data":"\"\\ud800\""}`,
			`{"taskClass":"A","data":"\"\ud800\""}`,
			`{"taskClass":"A"}`,
			`{"taskClass":"A","data":{"a":1}}`,
		} {
			s.refused(s.post("enqueue", body), http.StatusBadRequest, "ERR_BAD_REQUEST")
		}
		active, _ := s.rows()
		s.same("rows", active, 0)
	}},
	{"B18 stored data that PHP cannot read is leased as it is", func(s *scene) {
		for _, data := range []string{"", `{"a":`, `"\ud800"`} {
			id, err := s.hands.Insert(tasks.Task{Class: "A", Data: []byte(data), Priority: 2000})
			if err != nil {
				s.Fatal(err)
			}
			leased := s.take("w", id)
			s.same("data", leased.Data, data)
			s.ok(s.post("fail", held(leased, `"permanent":true`), owner("w")))
		}
	}},
	{"B18 B21 data survives byte for byte", func(s *scene) {
		for _, data := range []string{
			`{"id":9007199254740993}`, `[1.0,1e2,-0]`, `{}`, `[]`, `{"opts":{}}`, ` { "a" : 1 } `, `17`, `"text"`, `null`,
			`"\u0000\ud83d\ude00"`, `"😀"`, `{"a":1,"a":2}`, `"\/ \\' \" % _ ? <>&"`, "\"line\u2028\u2029\"",
		} {
			id := s.queue(data)
			s.same("leased data", s.take("w", id).Data, data)
			s.same("shown data", s.task(id).Data, data)
		}
		list := read[[]task](s, s.get("tasks?data=1&limit=1"))
		s.same("listed data", list[0].Data, `{"id":9007199254740993}`)
		s.same("left out", read[[]task](s, s.get("tasks?limit=1"))[0].Data, nil)
	}},
	{"B21 an empty map and an empty list are the same where nothing else is meant", func(s *scene) {
		s.same("leased", s.ok(s.post("lease", `[]`, owner("w"))).Data, []int{})
		for _, empty := range []string{"[]", "{}", "{ }", "null"} {
			s.ok(s.post("complete", held(s.hold("w"), `"followups":`+empty), owner("w")))
		}
		s.refused(s.post("complete", held(s.hold("w"), `"followups":{"a":1}`), owner("w")), http.StatusBadRequest, "ERR_BAD_REQUEST")
	}},
	{"B22 a body above the limit is 413 and names it, and the next call works", func(s *scene) {
		large := `{"taskClass":"A","data":"\"` + strings.Repeat("x", 1<<20) + `\""}`
		for range 3 {
			r := s.post("enqueue", large)
			s.refused(r, http.StatusRequestEntityTooLarge, "ERR_TOO_LARGE")
			if !strings.Contains(r.Error.Message, "1048576") {
				s.Errorf("the limit is not named: %s", r.Error.Message)
			}
		}
		s.queue("[]")
	}},
	{"listings are paged by cursor and by offset", func(s *scene) {
		var all []int64
		for i := range 7 {
			all = append(all, read[task](s, s.post("enqueue", fmt.Sprintf(`{"taskClass":"%c","data":"1"}`, 'A'+i%2))).ID)
		}
		var seen []int64
		path := "tasks?limit=3"
		for next := ""; ; {
			page := s.ok(s.get(path + next))
			seen = append(seen, idsOf(read[[]task](s, page))...)
			if page.Next == "" {
				break
			}
			next = "&cursor=" + page.Next
		}
		s.same("by cursor", seen, all)
		s.same("by offset", idsOf(read[[]task](s, s.get("tasks?limit=3&offset=2"))), all[2:5])
		s.same("beyond", idsOf(read[[]task](s, s.get("tasks?limit=3&offset=7"))), []int64{})
		s.same("far beyond", idsOf(read[[]task](s, s.get("tasks?limit=3&offset=700"))), []int64{})
		s.same("of a class", idsOf(read[[]task](s, s.get("tasks?taskClass=B"))), []int64{all[1], all[3], all[5]})
		s.same("archived", len(read[[]task](s, s.get("tasks?state=archived"))), 0)
		for _, query := range []string{"limit=0", "limit=x", "limit=1001", "offset=-1", "offset=10001", "cursor=x", "cursor=1&offset=1", "state=gone", "sort=id", "data=2"} {
			s.refused(s.get("tasks?"+query), http.StatusBadRequest, "ERR_BAD_REQUEST")
		}
		s.refused(s.get("tasks/4000000"), http.StatusNotFound, "ERR_NOT_FOUND")
		s.refused(s.get("tasks/x"), http.StatusBadRequest, "ERR_BAD_REQUEST")
	}},
	{"odd values in a query are no server errors", func(s *scene) {
		s.queue("[]")
		for _, value := range []string{"%ff", "%00", "%F0%9F%98%80", "'", "%25", strings.Repeat("x", 5000)} {
			for _, name := range []string{"taskClass", "objectPHID", "containerPHID"} {
				for _, state := range []string{"active", "archived"} {
					if r := s.get("tasks?state=" + state + "&" + name + "=" + value); r.status >= 500 {
						s.Errorf("%s=%.20s answered %d", name, value, r.status)
					}
				}
			}
		}
		s.refused(s.get("tasks/9223372036854775807"), http.StatusNotFound, "ERR_NOT_FOUND")
		s.ok(s.get("tasks?cursor=4611686018427387904"))
		s.same("awakened", s.ok(s.post("awaken", `{"taskIDs":[9223372036854775807]}`)).Data, map[string]int{"awakened": 0})
		s.refused(s.post("cancel", `{"taskID":9223372036854775807}`), http.StatusNotFound, "ERR_NOT_FOUND")
		s.refused(s.post("complete", `{"taskID":9223372036854775807,"fence":9223372036854775807}`, owner("w")), http.StatusConflict, "ERR_LEASE_CONFLICT")
		s.same("leased", s.ok(s.post("lease", `{"taskClasses":["\u0000","😀","'","`+strings.Repeat("x", 500)+`"]}`, owner("w"))).Data, []int{})
	}},
	{"counts are of active and archived tasks", func(s *scene) {
		s.ok(s.post("complete", held(s.hold("w")), owner("w")))
		s.ok(s.post("fail", held(s.hold("w")), owner("w")))
		s.hold("w")
		s.queue("[]")
		now := s.now()
		counted := read[struct {
			ActiveCount, LeasedCount, ArchivedCount, FailedCount int
			More                                                 bool
			AsOf                                                 int64
			Classes                                              []struct{ TaskClass string }
		}](s, s.get("stats"))
		s.same("counts", []any{counted.ActiveCount, counted.LeasedCount, counted.ArchivedCount, counted.FailedCount, counted.More}, []any{3, 1, 1, 1, false})
		s.same("classes", len(counted.Classes), 1)
		s.at("asOf", &counted.AsOf, now, 0)
	}},
	{"it says what it is and that it is ready", func(s *scene) {
		m := read[struct {
			Protocol int
			Backend  string
		}](s, s.get("meta"))
		s.same("meta", []any{m.Protocol, m.Backend}, []any{1, s.backend})
		for _, path := range []string{"/", "/healthz", "/readyz"} {
			r := s.send(http.MethodGet, path, "")
			s.same(path, []any{r.status, strings.TrimSpace(r.body)}, []any{200, `{"status":"ok"}`})
		}
	}},
}
