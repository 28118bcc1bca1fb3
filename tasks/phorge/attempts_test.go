package phorge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/php"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

var failure = tasks.Outcome{Kind: tasks.Retry, Wait: time.Hour}

// upgrade creates <namespace>_gantry and answers its quoted name.
func (q *queue) upgrade() string {
	q.t.Helper()
	if _, err := UpgradeStorage(q.t.Context(), q.dsn, php.Library); err != nil {
		q.t.Fatal(err)
	}
	return q.gantry()
}

// gantry answers the quoted name of the database, which goes with the test.
func (q *queue) gantry() string {
	q.t.Helper()
	var name string
	if err := q.db.QueryRow("SELECT DATABASE()").Scan(&name); err != nil {
		q.t.Fatal(err)
	}
	name = quoted(newGantry(name, time.Now).database)
	q.t.Cleanup(func() { q.exec("DROP DATABASE IF EXISTS " + name) })
	return name
}

// settle ends every held task with an outcome.
func settle(t testing.TB, s *Store, held []tasks.Task, outcome tasks.Outcome) {
	t.Helper()
	all := make([]tasks.Settlement, len(held))
	for i, task := range held {
		all[i] = tasks.Settlement{ID: task.ID, Lease: *task.Lease, Outcome: outcome, Route: "pool"}
	}
	settled(t, s, all)
}

// work leases n new tasks and ends them with an outcome.
func work(t testing.TB, s *Store, n int, outcome tasks.Outcome) []tasks.Task {
	t.Helper()
	enqueue(t, s, news(n, "A")...)
	held := lease(t, s, storetest.Any(n))
	if len(held) != n {
		t.Fatalf("%d tasks were leased, want %d", len(held), n)
	}
	settle(t, s, held, outcome)
	return held
}

func attempts(t testing.TB, s *Store, id int64, limit int) []tasks.Attempt {
	t.Helper()
	all, err := s.Attempts(t.Context(), id, limit)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestEachFailedOutcomeLeavesAnAttempt(t *testing.T) {
	q := newQueue(t)
	q.upgrade()
	s := q.open()
	if err := s.Gantry(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind  tasks.Kind
		fails bool
	}{
		{tasks.Succeeded, false}, {tasks.Yielded, false}, {tasks.Released, false},
		{tasks.Retry, true}, {tasks.Crashed, true}, {tasks.Failed, true},
	} {
		before := q.number("SELECT UNIX_TIMESTAMP()")
		held := work(t, s, 1, tasks.Outcome{
			Kind: c.kind, Wait: time.Hour, Category: "exception", Reason: "as always", Duration: 1500 * time.Microsecond,
		})[0]
		got := attempts(t, s, held.ID, 10)
		if !c.fails {
			if len(got) != 0 {
				t.Errorf("%s left %+v", c.kind, got)
			}
			if c.kind == tasks.Released { // it would come again
				q.exec("DELETE FROM worker_activetask WHERE id = ?", held.ID)
			}
			continue
		}
		if len(got) != 1 || got[0].Epoch < before {
			t.Errorf("%s left %+v", c.kind, got)
			continue
		}
		want := tasks.Attempt{
			TaskID: held.ID, Class: "A", Number: 1, Route: "pool", Category: "exception", Reason: "as always",
			Host: "test", Owner: held.Lease.Owner, Duration: 1500, Epoch: got[0].Epoch,
		}
		if got[0] != want {
			t.Errorf("%s left %+v,\nwant %+v", c.kind, got[0], want)
		}
	}
}

func TestAttemptsAreCountedAndReadNewestFirst(t *testing.T) {
	q := newQueue(t)
	q.upgrade()
	s := q.open()
	id := enqueue(t, s, news(1, "A")...)[0]
	enqueue(t, s, news(1, "Other")...)
	for i := range 5 {
		settle(t, s, lease(t, s, storetest.Any(2)), tasks.Outcome{Kind: tasks.Retry, Wait: -time.Minute, Reason: fmt.Sprint("reason ", i)})
	}
	var got []string
	for _, a := range attempts(t, s, id, 3) {
		got = append(got, fmt.Sprint(a.Number, " ", a.Reason))
	}
	if want := []string{"5 reason 4", "4 reason 3", "3 reason 2"}; !slices.Equal(got, want) {
		t.Errorf("the attempts are %q, want %q", got, want)
	}
	if got := attempts(t, s, id, 0); len(got) != 0 {
		t.Errorf("a limit of 0 answers %d", len(got))
	}
}

func TestTasksThatADeadGantryHeldHaveALostAttempt(t *testing.T) {
	q := newQueue(t)
	name := q.upgrade()
	s := q.open()
	ids := enqueue(t, s, news(4, "A")...)
	dead := tasks.Owner{Fence: 1, Nonce: "dead", Host: "there"}.String()
	own := s.ownerFor("", 1, 0)
	past := q.number("SELECT UNIX_TIMESTAMP() - 60")
	for i, owner := range []string{dead, own, tasks.YieldOwner} {
		q.exec("UPDATE worker_activetask SET leaseOwner = ?, leaseExpires = ? WHERE id = ?", owner, past, ids[i])
	}
	if held := lease(t, s, storetest.Any(9)); len(held) != 4 {
		t.Fatalf("%d tasks were leased, want 4", len(held))
	}
	got := attempts(t, s, ids[0], 9)
	if len(got) != 1 || got[0].Category != tasks.CategoryLost || got[0].Host != "there" || got[0].Owner != dead || got[0].Number != 1 {
		t.Errorf("the attempts are %+v", got)
	}
	if n := q.number("SELECT COUNT(*) FROM " + name + ".attempts"); n != 1 {
		t.Errorf("%d attempts are recorded, want 1", n)
	}
	q.exec("DROP TABLE " + name + ".attempts")
	q.exec("UPDATE worker_activetask SET leaseOwner = ?, leaseExpires = ?", dead, past)
	if held := lease(t, s, storetest.Any(9)); len(held) != 4 || held[0].Lease.Crashes != 1 {
		t.Errorf("without the table %+v was leased", held)
	}
}

func TestALostLeaseLeavesNoAttempt(t *testing.T) {
	q := newQueue(t)
	q.upgrade()
	s := q.open()
	enqueue(t, s, news(2, "A")...)
	held := lease(t, s, storetest.Any(2))
	q.exec("UPDATE worker_activetask SET leaseOwner = 'somebody' WHERE id = ?", held[0].ID)
	var all []tasks.Settlement
	for _, task := range held {
		all = append(all, tasks.Settlement{ID: task.ID, Lease: *task.Lease, Outcome: tasks.Outcome{Kind: tasks.Retry}})
	}
	if _, err := s.Settle(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if lost, kept := attempts(t, s, held[0].ID, 9), attempts(t, s, held[1].ID, 9); len(lost) != 0 || len(kept) != 1 {
		t.Errorf("%d attempts of the lost task and %d of the other, want 0 and 1", len(lost), len(kept))
	}
}

func TestB27AnAttemptWhoseCommitIsNotAnsweredIsRecordedOnce(t *testing.T) {
	for _, kind := range []tasks.Kind{tasks.Retry, tasks.Crashed, tasks.Failed} {
		for name, how := range cuts {
			t.Run(string(kind)+", "+name, func(t *testing.T) {
				t.Parallel()
				q, p := newQueue(t), newProxy(t)
				q.upgrade()
				s := impatient(t, p.through(q), p, q)
				enqueue(t, s, news(1, "A")...)
				held := lease(t, s, storetest.Any(1))
				p.arm(how)
				settle(t, s, held, tasks.Outcome{Kind: kind, Wait: time.Minute})
				p.fired()
				if got := attempts(t, s, held[0].ID, 9); len(got) != 1 {
					t.Errorf("%d attempts, want 1", len(got))
				}
			})
		}
	}
}

func TestAttemptsHoldNothingThatTheirColumnsOrATerminalCannot(t *testing.T) {
	q := newQueue(t)
	q.upgrade()
	s := q.open(func(c *Config) { c.Host = strings.Repeat("höst", 40) })
	enqueue(t, s, news(1, "A")...)
	held := lease(t, s, storetest.Any(1))
	settled(t, s, []tasks.Settlement{{
		ID: held[0].ID, Lease: *held[0].Lease, Route: strings.Repeat("r", 40),
		Outcome: tasks.Outcome{
			Kind: tasks.Failed, Category: strings.Repeat("ü", 90),
			Reason: "\x1b[31mGET https://bot:hunter2@example.org/ failed\x00\xff " + strings.Repeat("€", 1_000_000),
		},
	}})
	got := attempts(t, s, held[0].ID, 1)
	if len(got) != 1 {
		t.Fatal("there is no attempt")
	}
	a := got[0]
	if !strings.HasPrefix(a.Reason, " [31mGET https://***@example.org/ failed � €") || len(a.Reason) > tasks.ReasonBytes || len(a.Reason) < tasks.ReasonBytes-3 {
		t.Errorf("the reason has %d bytes and begins with %.80q", len(a.Reason), a.Reason)
	}
	if len([]rune(a.Host)) != tasks.HostWidth || len([]rune(a.Category)) != tasks.CategoryWidth || len(a.Route) != tasks.RouteWidth {
		t.Errorf("host %q, category %q, route %q", a.Host, a.Category, a.Route)
	}
}

func TestWithoutItsDatabaseTheQueueWorksAndSaysWhatIsMissing(t *testing.T) {
	q := newQueue(t)
	name := q.gantry()
	s := q.open()
	now := time.Now()
	s.gantry.now = func() time.Time { return now }
	failing := func() int64 { return work(t, s, 1, failure)[0].ID }
	missing := func() {
		t.Helper()
		id := failing()
		if err := s.Gantry(); !contains(err, "gantry storage upgrade") {
			t.Errorf("Gantry answers %v", err)
		}
		if _, err := s.Attempts(t.Context(), id, 1); !contains(err, "gantry storage upgrade") {
			t.Errorf("Attempts answers %v", err)
		}
	}
	missing()
	q.upgrade()
	missing() // it is looked for again after a while
	now = now.Add(recheck)
	if id := failing(); len(attempts(t, s, id, 1)) != 1 || s.Gantry() != nil {
		t.Errorf("the attempt is not recorded: %v", s.Gantry())
	}
	q.exec("DROP TABLE " + name + ".attempts")
	missing()
	if got := q.number("SELECT COUNT(*) FROM worker_activetask WHERE failureCount = 1"); got != 4 {
		t.Errorf("%d of 4 tasks count their failure", got)
	}
}

func TestADatabaseThatIsNoWorkersHasNoAttempts(t *testing.T) {
	for _, name := range []string{"queue", "_worker", ""} {
		g := newGantry(name, time.Now)
		if err := g.check(t.Context(), nil); !contains(err, "<namespace>_worker") {
			t.Errorf("for the database %q: %v", name, err)
		}
	}
}

func TestOldAttemptsAreDeletedNowAndThenAndAFewAtATime(t *testing.T) {
	q := newQueue(t)
	name := q.upgrade()
	q.exec("INSERT INTO " + name + `.attempts (taskID, taskClass, attempt, route, category, reason, host, leaseOwner, durationUs, epoch)
SELECT 0, 'Old', seq, '', '', '', '', '', 0, UNIX_TIMESTAMP() - 14 * 86400 - 2000 + seq FROM seq_1_to_2500`)
	s := q.open()
	now := time.Now()
	s.gantry.now = func() time.Time { return now }
	left := func(want int64, when string) {
		t.Helper()
		if got := q.number("SELECT COUNT(*) FROM " + name + ".attempts WHERE taskClass = 'Old'"); got != want {
			t.Errorf("%s %d are left, want %d", when, got, want)
		}
	}
	work(t, s, 1, tasks.Outcome{Kind: tasks.Succeeded})
	left(2500, "when nothing failed")
	work(t, s, 1, failure)
	left(1500, "with the first failure")
	work(t, s, 1, failure)
	left(1500, "with the next")
	now = now.Add(trimEvery)
	work(t, s, 1, failure)
	if got := q.number("SELECT MIN(attempt) FROM " + name + ".attempts WHERE taskClass = 'Old'"); got < 1900 || got > 2001 {
		t.Errorf("after a minute the oldest left is %d, want the first that is younger than two weeks", got)
	}
}

// Twice as many as were written, so that deleting keeps up with any rate.
func TestManyAttemptsDeleteMoreThanTheyAre(t *testing.T) {
	now := time.Now()
	g := newGantry("ns_worker", func() time.Time { return now })
	deleted := 0
	for range 1000 {
		deleted += g.attempts.due(90, g.now())
	}
	if deleted < 150_000 || deleted > 190_000 {
		t.Errorf("90,000 attempts within a second delete up to %d", deleted)
	}
}

func TestSettlingWithoutAFailureCostsNothingForAttempts(t *testing.T) {
	q := newQueue(t)
	q.upgrade()
	s := q.open()
	statements := func(outcome tasks.Outcome) (inserts, deletes int64) {
		enqueue(t, s, news(50, "A")...)
		held := lease(t, s, storetest.Any(50))
		inserts, deletes = q.status("Com_insert"), q.status("Com_delete")
		settle(t, s, held, outcome)
		return q.status("Com_insert") - inserts, q.status("Com_delete") - deletes
	}
	statements(failure) // deletes old ones
	inserts, deletes := statements(tasks.Outcome{Kind: tasks.Succeeded})
	if inserts != 0 || deletes != 1 {
		t.Errorf("50 successes took %d inserts and %d deletes, want 0 and 1", inserts, deletes)
	}
	inserts, deletes = statements(failure)
	if inserts != 2 || deletes != 0 {
		t.Errorf("50 failures took %d inserts and %d deletes, want one for the tasks and one for the attempts", inserts, deletes)
	}
}
