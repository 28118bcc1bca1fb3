package queueapi_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
)

// What these send, and what they look at in the answers, is what the clients of
// Gorge's task queue do: its workers of both versions, and its client in PHP.

// gorgeOwner has the form in which Gorge's worker names itself.
const gorgeOwner = "f2a9c03b71de:17:1790000000:gorge-worker"

// gorge does something on every backend.
func gorge(t *testing.T, check func(*scene)) {
	t.Helper()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) { check(serve(t, b.open(t))) })
	}
}

// The first version names itself where it leases, and nowhere else.
func TestGorgesFirstWorkerSettlesWithoutANameOrAFence(t *testing.T) {
	gorge(t, func(s *scene) {
		give := func() task {
			id := s.queue(`{"a":1}`)
			leased := read[[]task](s, s.post("lease", `{"limit":4}`, owner(gorgeOwner)))
			s.same("leased", []any{len(leased), leased[0].ID, *leased[0].LeaseOwner, *leased[0].Data}, []any{1, id, gorgeOwner, `{"a":1}`})
			return leased[0]
		}
		done := give()
		archived := read[task](s, s.post("complete", fmt.Sprintf(`{"taskID":%d,"duration":1500}`, done.ID)))
		s.same("archived", []any{archived.ID, archived.Result, archived.Duration}, []any{done.ID, 0, 1500})
		for _, c := range []struct {
			path, body string
			owner      any
			failures   int
			result     any
		}{
			{"fail", `{"taskID":%d,"permanent":true}`, gorgeOwner, 0, 1},
			{"fail", `{"taskID":%d,"permanent":false,"retryWait":60}`, nil, 1, nil},
			{"fail", `{"taskID":%d,"permanent":false}`, nil, 1, nil},
			{"yield", `{"taskID":%d,"duration":5}`, "(yield)", 0, nil},
		} {
			held := give()
			s.same("answer", s.ok(s.post(c.path, fmt.Sprintf(c.body, held.ID))).Data, map[string]string{"status": "ok"})
			after := s.task(held.ID)
			s.same(c.body, []any{after.FailureCount, after.Result}, []any{c.failures, c.result})
			if c.owner != nil {
				s.same(c.body, after.LeaseOwner, c.owner)
			}
		}
	})
}

func TestWhatIsSettledWithoutANameIsTheLeaseThatWasGivenThereLast(t *testing.T) {
	gorge(t, func(s *scene) {
		first := s.hold(gorgeOwner)
		body := fmt.Sprintf(`{"taskID":%d}`, first.ID)
		s.age(62)
		s.refused(s.post("complete", body), http.StatusConflict, "ERR_LEASE_CONFLICT") // it has expired
		second := s.take("another", first.ID)
		s.ok(s.post("complete", body))
		s.same("settled by", []any{s.task(first.ID).LeaseOwner, s.task(first.ID).Fence}, []any{"another", second.Fence})
		s.refused(s.post("complete", held(first), owner(gorgeOwner)), http.StatusConflict, "ERR_LEASE_CONFLICT")

		nameless := read[[]task](s, func() reply { s.queue("1"); return s.post("lease", "{}") }())[0]
		s.same("its owner", nameless.LeaseOwner, "127.0.0.1")
		s.ok(s.post("complete", fmt.Sprintf(`{"taskID":%d}`, nameless.ID)))
	})
}

// The second version asks for the protocol and names each lease.
func TestGorgesSecondWorkerRenewsAndFinalizesUnderTheLeaseItWasGiven(t *testing.T) {
	gorge(t, func(s *scene) {
		meta := read[struct {
			ExecutionVersion int
			LeaseOutcomes    bool
		}](s, s.get("meta"))
		s.same("meta", meta, map[string]any{"ExecutionVersion": 1, "LeaseOutcomes": true})

		id := read[task](s, s.post("enqueue", `{"taskClass":"A","data":"[]","priority":1500}`)).ID
		held := read[[]task](s, s.post("lease", `{"limit":1,"taskClasses":["A"]}`, owner(gorgeOwner)))[0]
		lease := func(rest string) string {
			return fmt.Sprintf(`{"taskID":%d,"leaseOwner":%q,"leaseExpires":%d,%s}`, id, *held.LeaseOwner, *held.LeaseExpires, rest)
		}
		before := held
		renewed := read[task](s, s.post("renew", lease(`"duration":3600`)))
		s.same("renewed", []any{renewed.ID, *renewed.LeaseOwner, *renewed.LeaseExpires > *held.LeaseExpires}, []any{id, gorgeOwner, true})
		held.LeaseExpires = renewed.LeaseExpires
		s.same("renewed once more", *read[task](s, s.post("renew", lease(`"duration":60`))).LeaseExpires, *renewed.LeaseExpires)

		followUps := `"duration":7,"followups":[{"taskClass":"B","data":"{}"},{"taskClass":"C","data":"1","priority":3000,"objectPHID":"PHID-TASK-1","delayUntil":4000000000}]`
		late := held
		held = before
		for path, rest := range map[string]string{"finalize": followUps, "renew": `"duration":60`, "resolve": `"outcome":"failure"`} {
			s.refused(s.post(path, lease(rest)), http.StatusConflict, "ERR_LEASE_CONFLICT")
		}
		held = late
		for range 2 { // the first answer may have been lost
			s.same("answer", s.ok(s.post("finalize", lease(followUps))).Data, map[string]string{"status": "finalized"})
		}
		active, archived := s.rows()
		s.same("rows", []int{active, archived}, []int{2, 1})
		s.same("result", []any{s.task(id).Result, s.task(id).Duration}, []any{0, 7})
		var children []any
		for _, child := range read[[]task](s, s.get("tasks")) {
			children = append(children, child.TaskClass, child.Priority)
		}
		s.same("children", children, []any{"B", 1500, "C", 3000})
		s.refused(s.post("resolve", lease(`"outcome":"failure"`)), http.StatusConflict, "ERR_LEASE_CONFLICT")
		s.refused(s.post("renew", lease(`"duration":60`)), http.StatusConflict, "ERR_LEASE_CONFLICT")
	})
}

func TestGorgesSecondWorkerResolvesOnce(t *testing.T) {
	gorge(t, func(s *scene) {
		for _, c := range []struct {
			rest     string
			failures int
			result   any
			wait     int64 // 0: none
		}{
			{`"outcome":"retry","retryWait":60`, 1, nil, 60},
			{`"outcome":"retry"`, 1, nil, 300},
			{`"outcome":"failure"`, 0, 1, 0},
			{`"outcome":"yield","duration":15`, 0, nil, 15},
		} {
			held, now := s.hold(gorgeOwner), s.now()
			body := fmt.Sprintf(`{"taskID":%d,"leaseOwner":%q,"leaseExpires":%d,%s}`, held.ID, *held.LeaseOwner, *held.LeaseExpires, c.rest)
			s.same("answer", s.ok(s.post("resolve", body)).Data, map[string]string{"status": "resolved"})
			s.refused(s.post("resolve", body), http.StatusConflict, "ERR_LEASE_CONFLICT")
			s.refused(s.post("finalize", fmt.Sprintf(`{"taskID":%d,"leaseOwner":%q,"leaseExpires":%d,"duration":0,"followups":null}`, held.ID, *held.LeaseOwner, *held.LeaseExpires)),
				http.StatusConflict, "ERR_LEASE_CONFLICT")
			after := s.task(held.ID)
			s.same(c.rest, []any{after.FailureCount, after.Result}, []any{c.failures, c.result})
			if c.wait > 0 {
				s.at("the end of the wait", after.LeaseExpires, now, c.wait)
			}
		}
		expired := s.hold(gorgeOwner)
		s.age(62)
		s.refused(s.post("resolve", fmt.Sprintf(`{"taskID":%d,"leaseOwner":%q,"leaseExpires":%d,"outcome":"failure"}`, expired.ID, gorgeOwner, *s.task(expired.ID).LeaseExpires)),
			http.StatusConflict, "ERR_LEASE_CONFLICT")
		for _, body := range []string{
			`{"taskID":1,"leaseOwner":"w","leaseExpires":1,"outcome":"success"}`, `{"taskID":1,"leaseOwner":"","leaseExpires":1,"outcome":"failure"}`,
			`{"taskID":0,"leaseOwner":"w","leaseExpires":1,"outcome":"failure"}`, `{"taskID":1,"leaseOwner":"w","outcome":"failure"}`,
		} {
			s.refused(s.post("resolve", body), http.StatusBadRequest, "ERR_BAD_REQUEST")
		}
		s.refused(s.post("finalize", `{"taskID":4000000,"leaseOwner":"w","leaseExpires":9,"duration":1}`), http.StatusConflict, "ERR_LEASE_CONFLICT")
	})
}

func TestGorgesEventsAreAcceptedOnce(t *testing.T) {
	gorge(t, func(s *scene) {
		event := `{"eventID":"feed 17 é","task":{"taskClass":"FeedPublisherHTTPWorker","data":"{\"n\":1}","priority":3000}}`
		first := read[task](s, s.post("enqueue-event", event))
		s.same("queued", []any{first.TaskClass, first.Priority}, []any{"FeedPublisherHTTPWorker", 3000})
		again := s.ok(s.post("enqueue-event", event))
		s.same("again", []any{read[task](s, again).ID, again.Duplicate}, []any{first.ID, true})
		s.refused(s.post("enqueue-event", `{"eventID":"feed 17 é","task":{"taskClass":"A","data":"1"}}`), http.StatusConflict, "ERR_EVENT_CONFLICT")
		s.refused(s.post("enqueue-event", `{"eventID":"","task":{"taskClass":"A","data":"1"}}`), http.StatusBadRequest, "ERR_BAD_REQUEST")
		s.refused(s.post("enqueue-event", `{"eventID":"x","task":{"taskClass":"A"}}`), http.StatusBadRequest, "ERR_BAD_REQUEST")
		active, _ := s.rows()
		s.same("rows", active, 1)
	})
}

// Its client in PHP reads the numbers of a queue, a page and a task, and the
// codes of errors.
func TestWhatGorgesClientInPHPReads(t *testing.T) {
	gorge(t, func(s *scene) {
		id := read[task](s, s.post("enqueue", `{"taskClass":"PhabricatorTestWorker","data":"{\"doWork\":\"success\"}","priority":2000}`)).ID
		stats := read[map[string]any](s, s.get("stats"))
		s.same("stats", []any{stats["activeCount"], stats["leasedCount"], stats["archivedCount"], stats["failedCount"]}, []any{1, 0, 0, 0})
		page := read[[]map[string]any](s, s.get("tasks?limit=100&offset=0"))
		s.same("page", []any{len(page), page[0]["id"], page[0]["data"]}, []any{1, id, nil})
		one := read[map[string]any](s, s.get(fmt.Sprintf("tasks/%d", id)))
		for _, column := range []string{"id", "taskClass", "failureCount", "priority", "dateCreated", "dateModified", "data"} {
			if one[column] == nil {
				s.Errorf("a task has no %s", column)
			}
		}
		s.refused(s.get("tasks/999999"), http.StatusNotFound, "ERR_NOT_FOUND")
		s.refused(s.get("tasks/x"), http.StatusBadRequest, "ERR_BAD_REQUEST")
		s.refused(s.post("enqueue", `{"taskClass":"","data":"1"}`), http.StatusBadRequest, "ERR_BAD_REQUEST")
		s.refused(s.post("complete", `{"taskID":0}`), http.StatusBadRequest, "ERR_BAD_REQUEST")
		s.same("awakened", s.ok(s.post("awaken", fmt.Sprintf(`{"taskIDs":[%d]}`, id))).Data, map[string]int{"awakened": 0})
		s.same("cancelled", read[task](s, s.post("cancel", fmt.Sprintf(`{"taskID":%d}`, id))).Result, tasks.ResultCancelled)
		for _, path := range []string{"/", "/healthz"} {
			if r := s.send("GET", path, ""); r.status != http.StatusOK || r.body != `{"status":"ok"}`+"\n" {
				s.Errorf("%s answered %d %q", path, r.status, r.body)
			}
		}
	})
}
