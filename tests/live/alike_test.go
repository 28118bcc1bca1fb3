package live

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// work is what real worker classes are given to do.
type work struct {
	name    string
	prepare func(t *testing.T, g *ground)

	// at least so much must be left, or the work is not what its name says
	rows, mails, calls, failures int
}

var allWork = []work{
	{"an edit of a Maniphest task", editTask, 20, 2, 2, 0},
	{"rebuilding the index", rebuildIndex, 3, 0, 0, 1},
	{"indexing", indexObjects, 5, 0, 0, 1},
	{"mail that cannot be delivered", failingMail, 6, 1, 0, 3},
	{"a webhook that fails", failingWebhook, 5, 0, 3, 4},
	{"deleting files", deleteFiles, 4, 0, 0, 2},
	{"PhabricatorTestWorker in every mode", testWorker, 10, 0, 0, 4},
	{"what few workers do", oddWorkers, 20, 0, 0, 10},
	{"data that PHP cannot read", unreadableData, 5, 0, 0, 5},
	{"classes that are no workers", noWorkers, 3, 0, 0, 3},
}

// editTask is a real edit: it ends in mail, feed, webhook and index.
func editTask(t *testing.T, g *ground) {
	task := g.task(t, "The fox jumps")
	g.settle(t)
	g.edit(t, map[string]any{
		"objectIdentifier": task,
		"title":            "The quick fox jumps",
		"description":      "Over the lazy dog, says @bob.",
		"owner":            g.world.Bob.PHID,
		"comment":          "Done.",
	})
}

// settle drains what a preparation queued.
func (g *ground) settle(t *testing.T) {
	t.Helper()
	if failures := drainStock(t, g); len(failures) > 0 {
		t.Fatalf("stock Phorge cannot do what the work begins with: %v", failures)
	}
}

func (g *ground) schedule(t *testing.T, class string, data map[string]any, options map[string]any) int64 {
	t.Helper()
	ids, err := g.Schedule(t.Context(), class, 1, data, options)
	if err != nil {
		t.Fatal(err)
	}
	return ids[0]
}

// scheduleRaw queues a task with data that scheduleTask would not write.
func (g *ground) scheduleRaw(t *testing.T, class, data string) int64 {
	t.Helper()
	id := g.schedule(t, class, nil, nil)
	openQueue(t, g.Phorge).exec(t, "UPDATE worker_taskdata SET data = ? WHERE id = (SELECT dataID FROM worker_activetask WHERE id = ?)", data, id)
	return id
}

func rebuildIndex(t *testing.T, g *ground) {
	g.task(t, "To be found")
	g.settle(t)
	g.schedule(t, "PhabricatorRebuildIndexesWorker", map[string]any{"queryClass": "ManiphestTaskQuery"}, map[string]any{"priority": 3500})
	g.schedule(t, "PhabricatorRebuildIndexesWorker", map[string]any{"queryClass": "NoSuchQuery"}, map[string]any{"priority": 3500})
}

func indexObjects(t *testing.T, g *ground) {
	task := g.task(t, "To be indexed")
	g.settle(t)
	index := func(phid string, more map[string]any) {
		data := map[string]any{"documentPHID": phid}
		for key, value := range more {
			data[key] = value
		}
		g.schedule(t, "PhabricatorSearchWorker", data, map[string]any{"priority": 3500, "objectPHID": phid})
	}
	index(task, map[string]any{"parameters": map[string]any{"force": true}})
	index(task, nil)
	index(g.world.Bob.PHID, map[string]any{"parameters": map[string]any{"force": true}})
	index("PHID-TASK-aaaaaaaaaaaaaaaaaaaa", nil)
	index("PHID-TASK-bbbbbbbbbbbbbbbbbbbb", map[string]any{"strict": true})
}

// failingMail has a mail that is delivered, one that is not for now, one that is
// not for good, one that was sent already and one that does not exist.
func failingMail(t *testing.T, g *ground) {
	q := openQueue(t, g.Phorge)
	for _, to := range []string{"somebody", "temporary", "permanent"} {
		if out, err := g.PHP(t.Context(), "mail.php", to+"@example.com"); err != nil {
			t.Fatal(err, out)
		}
	}
	g.scheduleRaw(t, "PhabricatorMetaMTAWorker", "1")
	g.scheduleRaw(t, "PhabricatorMetaMTAWorker", "999999")
	if n := q.count(t, "SELECT COUNT(*) FROM worker_activetask WHERE taskClass = 'PhabricatorMetaMTAWorker'"); n != 5 {
		t.Fatalf("%d mails are queued, want 5", n)
	}
}

// failingWebhook has calls that a receiver refuses: those of an edit are tried
// again for ever, those that bin/webhook makes are not.
func failingWebhook(t *testing.T, g *ground) {
	task := g.task(t, "To be called for")
	g.settle(t)
	g.receiver.answer(http.StatusInternalServerError)
	g.edit(t, map[string]any{"objectIdentifier": task, "priority": "high"})
	for range 2 {
		if _, err := g.Bin(t.Context(), "webhook", "call", "--id", itoa(int64(g.world.Webhook.ID)), "--background"); err != nil {
			t.Fatal(err)
		}
	}
	g.schedule(t, "HeraldWebhookWorker", map[string]any{"webhookRequestPHID": "PHID-HWBR-aaaaaaaaaaaaaaaaaaaa"}, nil)
}

func deleteFiles(t *testing.T, g *ground) {
	delete := func(data map[string]any) { g.schedule(t, "FileDeletionWorker", data, nil) }
	delete(map[string]any{"objectPHID": g.world.File})
	delete(map[string]any{"objectPHID": "PHID-FILE-aaaaaaaaaaaaaaaaaaaa"})
	delete(nil)
}

func testWorker(t *testing.T, g *ground) {
	for _, data := range []map[string]any{
		nil,
		{"duration": 0.2},
		{"getRequiredLeaseTime": 86400, "duration": 0.1},
		{"doWork": "fail-permanent"},
		{"doWork": "fail-temporary"},
		{"doWork": "fail-temporary", "getWaitBeforeRetry": 7200},
		{"doWork": "fail-temporary", "getRequiredLeaseTime": 86400},
		{"doWork": "fail-temporary", "getMaximumRetryCount": 3, "getWaitBeforeRetry": -60},
		{"doWork": "fail-temporary", "getMaximumRetryCount": 0, "getWaitBeforeRetry": -1},
	} {
		g.schedule(t, "PhabricatorTestWorker", data, map[string]any{
			"objectPHID": g.world.Alice.PHID, "containerPHID": g.world.Bob.PHID, "priority": 1234,
		})
	}
}

// oddWorkers has case B50 among them: a deprecation is what stock Phorge makes
// of it.
func oddWorkers(t *testing.T, g *ground) {
	follow := []map[string]any{
		{"data": map[string]any{"a/b": "é😀", "n": 9007199254740993, "empty": []int{}}},
		{"options": map[string]any{"priority": nil}},
		{"options": map[string]any{"priority": 77, "objectPHID": g.world.Alice.PHID, "containerPHID": g.world.Bob.PHID}},
	}
	first := map[string]any{"options": map[string]any{"priority": 0}}
	bad := map[string]any{"options": map[string]any{"delayUntil": 1.5}}
	for _, data := range []map[string]any{
		{"queue": follow},
		{"queue": []map[string]any{first, bad, follow[0]}},
		{"queue": follow, "do": "yield"},
		{"queue": follow, "do": "exception"},
		{"queue": follow, "do": "permanent"},
		{"do": "error"},
		{"do": "type-error"},
		{"do": "exception", "waits": true},
		{"do": "exception", "maximum": 0},
		{"do": "deprecated"},
		{"do": "warning"},
		{"do": "notice"},
		{"do": "print"},
		{"do": "lock"},
		{"do": "lock"},
		{"do": "transaction"},
		nil,
	} {
		g.schedule(t, "GantryLiveOddWorker", data, map[string]any{"priority": 1234})
	}
}

// unreadableData is case B18: what stock Phorge makes of data that json_decode
// does not take, or that is no map.
func unreadableData(t *testing.T, g *ground) {
	for _, data := range []string{``, `{"a":`, `"\ud800"`, `null`, `0`, `12`, `"text"`, `9007199254740993`, `1.0`, `{}`} {
		g.scheduleRaw(t, "GantryLiveOddWorker", data)
	}
	id := g.schedule(t, "GantryLiveOddWorker", nil, nil)
	openQueue(t, g.Phorge).exec(t, "DELETE FROM worker_taskdata WHERE id = (SELECT dataID FROM worker_activetask WHERE id = ?)", id)
}

func noWorkers(t *testing.T, g *ground) {
	for _, class := range []string{"AcmeNoSuchWorker", "PhabricatorUser", "PhabricatorWorker", "FeedPushWorker"} {
		g.schedule(t, class, nil, nil)
	}
}

func TestRealWorkLeavesTheSameByEveryRoute(t *testing.T) {
	for _, w := range allWork {
		t.Run(w.name, func(t *testing.T) {
			g := newGround(t)
			w.prepare(t, g)
			before := g.begin(t)
			want := g.run(t, stock, before)
			w.check(t, want)
			for _, r := range routes {
				t.Run(r.name, func(t *testing.T) {
					if found := differences(want, g.run(t, r, before)); len(found) > 0 {
						t.Errorf("it differs from what stock Phorge leaves:\n%s", strings.Join(found, "\n"))
					}
				})
			}
		})
	}
}

// check makes sure that the work is what its name says.
func (w work) check(t *testing.T, left traces) {
	t.Helper()
	if len(left.rows) < w.rows || len(left.mails) < w.mails || len(left.calls) < w.calls || len(left.failures) < w.failures {
		t.Fatalf("stock Phorge leaves %d rows, %d mails, %d calls and %d failures (%v); want at least %d, %d, %d and %d\n%s",
			len(left.rows), len(left.mails), len(left.calls), len(left.failures), left.failures,
			w.rows, w.mails, w.calls, w.failures, strings.Join(left.rows, "\n"))
	}
}

func TestStockPhorgeLeavesTheSameTwice(t *testing.T) {
	g := newGround(t)
	for _, prepare := range []func(*testing.T, *ground){editTask, testWorker} {
		prepare(t, g)
	}
	before := g.begin(t)
	want := g.run(t, stock, before)
	if found := differences(want, g.run(t, stock, before)); len(found) > 0 {
		t.Errorf("two runs differ:\n%s", strings.Join(found, "\n"))
	}
}

// TestAPlantedDifferenceIsFound makes one difference at a time in what stock
// Phorge left.
func TestAPlantedDifferenceIsFound(t *testing.T) {
	g := newGround(t)
	editTask(t, g)
	testWorker(t, g)
	before := g.begin(t)
	want := g.run(t, stock, before)
	failures := drainStock(t, g)
	after := g.snapshot(t)
	mails, calls := want.mails, want.calls
	q := openQueue(t, g.Phorge)
	for name, statement := range map[string]string{
		"a title":                  "UPDATE live_maniphest.maniphest_task SET title = 'Another' ORDER BY id DESC LIMIT 1",
		"a row that is gone":       "DELETE FROM live_feed.feed_storydata ORDER BY id DESC LIMIT 1",
		"a failure less":           "UPDATE worker_activetask SET failureCount = failureCount - 1 WHERE failureCount > 0",
		"a wait":                   "UPDATE worker_activetask SET leaseExpires = leaseExpires + 60 WHERE leaseOwner IS NOT NULL LIMIT 1",
		"a task that is free":      "UPDATE worker_activetask SET leaseOwner = NULL WHERE leaseOwner IS NOT NULL LIMIT 1",
		"another result":           "UPDATE worker_archivetask SET result = 1 - result LIMIT 1",
		"a duration":               "UPDATE worker_archivetask SET duration = 5 WHERE result = 1 LIMIT 1",
		"a follow-up more":         "INSERT INTO worker_taskdata (data) VALUES ('[]')",
		"the data of a follow-up":  "UPDATE worker_taskdata SET data = REPLACE(data, '{', '{ ') ORDER BY id DESC LIMIT 1",
		"a priority":               "UPDATE worker_archivetask SET priority = 2001 WHERE priority = 2000 LIMIT 1",
		"a notification less":      "DELETE FROM live_feed.feed_storynotification LIMIT 1",
		"a mail that was not sent": "UPDATE live_metamta.metamta_mail SET status = 'queued' ORDER BY id DESC LIMIT 1",
	} {
		if err := g.Restore(t.Context(), after); err != nil {
			t.Fatal(err)
		}
		result, err := q.Exec(statement)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n, err := result.RowsAffected(); n == 0 || err != nil {
			t.Errorf("%s: nothing was changed, %v", name, err)
		}
		got := g.traces(t, before, failures)
		got.mails, got.calls = mails, calls
		if len(differences(want, got)) == 0 {
			t.Errorf("%s: goes unnoticed", name)
		}
	}
	got := want
	got.mails = slices.Clone(mails[1:])
	if len(differences(want, got)) != 1 {
		t.Error("a mail less goes unnoticed")
	}
	got = want
	got.failures = map[int64]string{}
	if len(differences(want, got)) != len(want.failures) {
		t.Error("failures that nobody tells go unnoticed")
	}
	g.restore(t, before)
}
