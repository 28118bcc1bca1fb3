package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/embedded"
)

func TestListShowsTheClassesOfTheQueue(t *testing.T) {
	expect(t, command(t, seed(t), "", "tasks", "list"), exitOK, `
CLASS                     QUEUED  LEASED  WAITING  FAILING  RUNS HERE
PhabricatorMetaMTAWorker       1       0        0        0  unknown
PhabricatorSearchWorker        1       0        0        0  unknown
PhabricatorTestWorker          6       1        3        1  unknown
`[1:], "")
	expect(t, command(t, newMemory(), "", "tasks", "list"), exitOK, "The queue is empty.\n", "")
}

func TestListShowsTheClassesAsOneDocument(t *testing.T) {
	expect(t, command(t, newMemory(), "", "tasks", "list", "--output=json"), exitOK, `{"now":1800014400,"classes":[]}`+"\n", "")
	expect(t, command(t, seed(t), "", "tasks", "list", "--output=json"), exitOK, strings.ReplaceAll(`
{"now":1800014400,"classes":[
{"taskClass":"PhabricatorMetaMTAWorker","activeCount":1,"leasedCount":0,"waitingCount":0,"failingCount":0,"more":false,"runnable":null},
{"taskClass":"PhabricatorSearchWorker","activeCount":1,"leasedCount":0,"waitingCount":0,"failingCount":0,"more":false,"runnable":null},
{"taskClass":"PhabricatorTestWorker","activeCount":6,"leasedCount":1,"waitingCount":3,"failingCount":1,"more":false,"runnable":null}
]}`, "\n", "")+"\n", "")
}

func TestListShowsTheTasksThatSelectorsMatch(t *testing.T) {
	expect(t, command(t, seed(t), "", "tasks", "list", "--class=PhabricatorTestWorker"), exitOK, `
ID  CLASS                  PRIORITY  FAILURES  STATE
 2  PhabricatorTestWorker      2000         0  leased by Gantry on web1 (process abc, fence 7, crashes 1) until 2027-01-15 12:00:40Z (in 40s)
 3  PhabricatorTestWorker      2000         0  yielded; due at 2027-01-15 12:00:15Z (in 15s)
 4  PhabricatorTestWorker      2000         2  failed and is tried again, crashes so far: 1; due at 2027-01-15 12:04:50Z (in 4m50s)
 5  PhabricatorTestWorker      2000         0  waits until 2027-01-15 13:00:00Z (in 1h0m0s)
 6  PhabricatorTestWorker      2000         0  the lease of a taskmaster of Phorge on db1 (process 4711) ended 2027-01-15 11:59:00Z (1m0s ago) and nobody has taken the task since
 7  PhabricatorTestWorker      2000         0  stuck: it has an owner and no expiry, so nobody ever leases it; 'gantry tasks free' mends it
`[1:], "")
}

func TestALongTimeIsToldInDays(t *testing.T) {
	for seconds, want := range map[int64]string{59: "59s", 2 * 86400: "48h0m0s", 3 * 86400: "3 days", 218192979: "2525 days"} {
		if got := clock(noon-seconds, noon); !strings.HasSuffix(got, "Z ("+want+" ago)") {
			t.Errorf("%d seconds ago is %s, want %s", seconds, got, want)
		}
	}
}

func TestATaskThatWentBackDidNotFail(t *testing.T) {
	m := newMemory()
	back := tasks.Place{Owner: new(tasks.BackOwner(7, 0)), Expires: new(int64(noon + 15))}
	if _, err := m.Insert(tasks.Task{ID: 1, Class: "A", Priority: 1, Place: back}); err != nil {
		t.Fatal(err)
	}
	if got := command(t, m, "", "tasks", "list", "--active"); !strings.Contains(got.out, "given back without counting an attempt; due at") {
		t.Errorf("it says %s%s", got.out, got.err)
	}
}

func TestListShowsTasksAsOneDocumentALine(t *testing.T) {
	expect(t, command(t, seed(t), "", "tasks", "list", "--id=10", "--id=1", "--output=json"), exitOK, `
{"id":10,"taskClass":"PhabricatorMetaMTAWorker","priority":1,"objectPHID":null,"containerPHID":null,"failureCount":0,"failureTime":null,"dateCreated":1800014400,"dateModified":1800014400,"leaseOwner":"gantry:2:0:memory:model","leaseExpires":1800014460,"result":1,"duration":0,"archivedEpoch":1800014400,"state":"failed"}
{"id":1,"taskClass":"PhabricatorSearchWorker","priority":3500,"objectPHID":"PHID-TASK-object","containerPHID":null,"failureCount":0,"failureTime":null,"dateCreated":1800014300,"dateModified":1800014350,"leaseOwner":null,"leaseExpires":null,"state":"ready"}
`[1:], "")
}

func TestSelectorsAreThoseOfBinWorker(t *testing.T) {
	for _, c := range []struct{ selectors, ids string }{
		{"--active", "1 2 3 4 5 6 7 8"},
		{"--archived", "9 10"},
		{"--class PhabricatorMetaMTAWorker", "8"},
		{"--class PhabricatorMetaMTAWorker --archived", "9 10"},
		{"--min-failure-count 1", "4"},
		{"--max-failure-count 0 --class PhabricatorTestWorker", "2 3 5 6 7"},
		{"--min-priority 2001", "1"},
		{"--max-priority 2000 --limit 3", "2 3 4"},
		{"--object PHID-TASK-object --object PHID-TASK-other", "1"},
		{"--container PHID-TASK-object", ""},
		{"--id 10 --id 2,1", "10 2 1"},
		{"--id 2 --id 2", "2"},
		{"--id 2 --id 3 --limit 1", "2"},
		{"--id 4 --class PhabricatorTestWorker --active", "4"},
	} {
		t.Run(c.selectors, func(t *testing.T) {
			got := command(t, seed(t), "", append([]string{"tasks", "list", "--output=json"}, strings.Fields(c.selectors)...)...)
			var ids []string
			for line := range strings.Lines(got.out) {
				id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"id":`), ",")
				ids = append(ids, id)
			}
			code := exitOK
			if c.ids == "" {
				code = exitNothing
			}
			if strings.Join(ids, " ") != c.ids || got.code != code {
				t.Errorf("selected %v, exit code %d, %s; want %s", ids, got.code, got.err, c.ids)
			}
		})
	}
}

func TestShowTellsEverything(t *testing.T) {
	expect(t, command(t, seed(t), "", "tasks", "show", "--id=1", "--id=9"), exitOK, `
Task 1 (PhabricatorSearchWorker)
  state          ready to be leased
  priority       3500
  failureCount   0
  failureTime    NULL
  objectPHID     PHID-TASK-object
  containerPHID  NULL
  dateCreated    2027-01-15 11:58:20Z (1m40s ago)
  dateModified   2027-01-15 11:59:10Z (50s ago)
  leaseOwner     NULL
  leaseExpires   NULL
  data           32 bytes:
{"a":9007199254740993,"b":"<&>"}
Task 9 (PhabricatorMetaMTAWorker)
  state          archived: succeeded
  priority       1
  failureCount   0
  failureTime    NULL
  objectPHID     NULL
  containerPHID  NULL
  dateCreated    2027-01-15 12:00:00Z (now)
  dateModified   2027-01-15 12:00:00Z (now)
  leaseOwner     gantry:1:0:memory:model
  leaseExpires   1800014460, 2027-01-15 12:01:00Z (in 1m0s)
  result         0 (succeeded)
  duration       1500 µs
  archivedEpoch  2027-01-15 12:00:00Z (now)
  data           2 bytes:
18
`[1:], "")
}

func TestShowTellsWhyAttemptsFailed(t *testing.T) {
	got := command(t, seed(t), "", "tasks", "show", "--id=4")
	for _, want := range []string{
		"  attempt 2      \"2027-01-15 11:59:50Z (10s ago) after 1500 µs, pool on web1: crash: exit status 255\\n\\x1b[2J\"\n",
		"  attempt 1      2027-01-15 11:53:20Z (6m40s ago) after 7 µs, plugin on web1: temporary: no ink\n",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("it says\n%s\nand not\n%s", got.out, want)
		}
	}
	got = command(t, seed(t), "", "tasks", "show", "--id=4", "--output=json")
	if want := `"attempts":[{"taskID":4,"taskClass":"PhabricatorTestWorker","attempt":2,"route":"pool","category":"crash",`; !strings.Contains(got.out, want) {
		t.Errorf("JSON is %s", got.out)
	}
	if got := command(t, seed(t), "", "tasks", "show", "--id=5", "--output=json"); !strings.Contains(got.out, `"attempts":[]`) {
		t.Errorf("JSON of a task that never failed is %s", got.out)
	}
	got = command(t, withoutTables{seed(t)}, "", "tasks", "show", "--id=4", "--output=json")
	if got.code != exitOK || !strings.Contains(got.out, `"attempts":null`) || got.err != "warning: why attempts failed is not known: no tables\n" {
		t.Errorf("without Gantry's tables: exit code %d, %s%s", got.code, got.out, got.err)
	}
}

func TestShowTellsWhyAttemptsFailedInAFileToo(t *testing.T) {
	s, err := embedded.Open(t.Context(), embedded.Config{Path: filepath.Join(t.TempDir(), "q.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	if _, err := s.Enqueue(ctx, []tasks.NewTask{{Class: "A", Data: []byte("1")}}); err != nil {
		t.Fatal(err)
	}
	leased, err := s.Lease(ctx, tasks.LeaseRequest{Limit: 1, Others: tasks.ClassRequest{Limit: 1, LeaseTime: time.Minute}})
	if err != nil || len(leased) != 1 {
		t.Fatal(leased, err)
	}
	failed := tasks.Settlement{ID: 1, Lease: *leased[0].Lease, Route: "plugin", Outcome: tasks.Outcome{
		Kind: tasks.Retry, Wait: time.Hour, Category: tasks.CategoryTemporary, Reason: "no ink", Duration: 7 * time.Microsecond,
	}}
	if _, err := s.Settle(ctx, []tasks.Settlement{failed}); err != nil {
		t.Fatal(err)
	}
	got := command(t, s, "", "tasks", "show", "--id=1")
	if got.code != exitOK || got.err != "" || !strings.Contains(got.out, "  attempt 1      ") || !strings.Contains(got.out, ": temporary: no ink\n") {
		t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
}

func TestWhatATaskHoldsLooksLikeNoFieldOfShow(t *testing.T) {
	m := newMemory()
	id, err := m.Insert(tasks.Task{Class: "A", Data: []byte("1"), ObjectPHID: new("PHID-TASK-a\n  state          archived")})
	if err != nil {
		t.Fatal(err)
	}
	got := command(t, m, "", "tasks", "show", fmt.Sprintf("--id=%d", id))
	if got.code != exitOK || !strings.Contains(got.out, "PHID-TASK-a\n") || strings.Count(got.out, "\n  state  ") != 1 {
		t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
}

// withoutTables is a queue beside which Gantry's own tables are missing.
type withoutTables struct{ memory }

func (withoutTables) Gantry() error { return errors.New("no tables") }

func TestShowKeepsTheBytesOfTheData(t *testing.T) {
	for _, c := range []struct {
		name, id   string
		text, json string
	}{
		{"a large number and what HTML would escape", "1", `32 bytes:` + "\n" + `{"a":9007199254740993,"b":"<&>"}` + "\n", `"data":"{\"a\":9007199254740993,\"b\":\"<&>\"}"}` + "\n"},
		{"what would harm a terminal", "4", `5 bytes that are not text, quoted:` + "\n" + `"\x1b[2J\xff"` + "\n", `"data":null,"dataBase64":"G1sySv8="}` + "\n"},
		{"no data row", "5", "none; PHP reads null\n", `"data":null}` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := command(t, seed(t), "", "tasks", "show", "--id="+c.id); !strings.HasSuffix(got.out, "data           "+c.text) {
				t.Errorf("text is\n%s\nand does not end in\n%s", got.out, c.text)
			}
			if got := command(t, seed(t), "", "tasks", "show", "--id="+c.id, "--output=json"); !strings.HasSuffix(got.out, ","+c.json) {
				t.Errorf("JSON is\n%s\nand does not end in\n%s", got.out, c.json)
			}
		})
	}
}

func TestALongListingComesInPages(t *testing.T) {
	m := newMemory()
	expect(t, command(t, m, "", "tasks", "flood", "--count=1201"), exitOK,
		"1201 tasks of class PhabricatorTestWorker were queued, ids 1 to 1201.\n", "")
	got := command(t, m, "", "tasks", "list", "--active", "--output=json")
	if n := strings.Count(got.out, "\n"); n != 1201 || got.code != exitOK {
		t.Errorf("%d tasks were listed, exit code %d", n, got.code)
	}
	got = command(t, m, "", "tasks", "list", "--active", "--limit=600", "--output=json")
	if n := strings.Count(got.out, "\n"); n != 600 {
		t.Errorf("%d tasks were listed with --limit 600", n)
	}
}
