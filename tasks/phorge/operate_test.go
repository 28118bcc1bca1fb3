package phorge

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

func TestB16ATaskCancelledWhileItRunsStaysCancelled(t *testing.T) {
	for _, outcome := range []tasks.Outcome{
		{Kind: tasks.Succeeded, FollowUps: news(2, "Child")},
		{Kind: tasks.Failed},
		{Kind: tasks.Retry, Wait: time.Minute},
		{Kind: tasks.Yielded, Wait: time.Minute},
		{Kind: tasks.Released},
	} {
		t.Run("then it is "+string(outcome.Kind), func(t *testing.T) {
			q := newQueue(t)
			s := q.open()
			ids := enqueue(t, s, news(2, "A")...)
			held := lease(t, s, storetest.Any(2))
			changed, err := s.Cancel(t.Context(), ids[:1])
			if err != nil || changed[0].Err != nil {
				t.Fatal(changed, err)
			}
			all := succeeded(held)
			all[0].Outcome = outcome
			answers, err := s.Settle(t.Context(), all)
			if err != nil || !errors.Is(answers[0].Err, tasks.ErrLeaseLost) || answers[1].Err != nil {
				t.Errorf("%+v, %v", answers, err)
			}
			renewed, err := s.Renew(t.Context(), []tasks.Renewal{{ID: held[0].ID, Owner: held[0].Lease.Owner, LeaseTime: time.Minute}})
			if err != nil || !errors.Is(renewed[0].Err, tasks.ErrLeaseLost) {
				t.Errorf("%+v, %v", renewed, err)
			}
			if n := q.number("SELECT COUNT(*) FROM worker_archivetask WHERE id = ? AND result = 2 AND leaseOwner IS NULL AND duration = 0", ids[0]); n != 1 {
				t.Error("the cancellation was overwritten")
			}
			if n := q.number("SELECT COUNT(*) FROM worker_activetask"); n != 0 {
				t.Errorf("%d tasks are queued, want none", n)
			}
			again, err := s.Cancel(t.Context(), ids)
			if err != nil || !errors.Is(again[0].Err, tasks.ErrArchived) || !errors.Is(again[1].Err, tasks.ErrArchived) {
				t.Errorf("finished tasks are cancelled: %+v, %v", again, err)
			}
		})
	}
}

func TestAnIdThatIsNamedTwiceIsChangedOnceAndMetSoTheSecondTime(t *testing.T) {
	q := newQueue(t)
	s := q.open()
	id := enqueue(t, s, news(1, "A")...)[0]
	twice := []int64{id, id}
	lease(t, s, storetest.Any(1))
	for _, c := range []struct {
		name  string
		call  func(ctx context.Context) ([]tasks.Changed, error)
		again error
	}{
		{"free", func(ctx context.Context) ([]tasks.Changed, error) { return s.Free(ctx, twice) }, tasks.ErrNotLeased},
		{"priority", func(ctx context.Context) ([]tasks.Changed, error) { return s.Priority(ctx, twice, 77) }, tasks.ErrUnchanged},
		{"delay", func(ctx context.Context) ([]tasks.Changed, error) { return s.Delay(ctx, twice, 2_000_000_000) }, nil},
		{"cancel", func(ctx context.Context) ([]tasks.Changed, error) { return s.Cancel(ctx, twice) }, tasks.ErrArchived},
		{"retry", func(ctx context.Context) ([]tasks.Changed, error) { return s.Retry(ctx, twice, false) }, tasks.ErrActive},
	} {
		changed, err := c.call(t.Context())
		if err != nil || len(changed) != 2 || changed[0].Err != nil || !errors.Is(changed[1].Err, c.again) {
			t.Errorf("%s: %+v, %v; want the second to be %v", c.name, changed, err, c.again)
		}
	}
	r, err := s.Get(t.Context(), id)
	if err != nil || r.Archive != nil || r.Priority != 77 || r.Owner != nil || r.Expires == nil || *r.Expires != 0 || string(r.Data) != `{"n":0}` {
		t.Errorf("it came to %+v, %v", r, err)
	}
}

func TestMoreIdsThanOneTransactionTakesAreAnsweredInTheirOrder(t *testing.T) {
	q := newQueue(t)
	s := q.open()
	ids := enqueue(t, s, news(2*batchRows+7, "A")...)
	asked := append([]int64{ids[len(ids)-1] + 1000, -1}, ids...)
	for _, c := range []struct {
		name string
		call func(ids []int64) ([]tasks.Changed, error)
	}{
		{"priority", func(ids []int64) ([]tasks.Changed, error) { return s.Priority(t.Context(), ids, 5) }},
		{"cancel", func(ids []int64) ([]tasks.Changed, error) { return s.Cancel(t.Context(), ids) }},
		{"retry", func(ids []int64) ([]tasks.Changed, error) { return s.Retry(t.Context(), ids, false) }},
	} {
		changed, err := c.call(asked)
		if err != nil || len(changed) != len(asked) {
			t.Fatalf("%s: %d answers to %d ids, %v", c.name, len(changed), len(asked), err)
		}
		for i, a := range changed {
			if unknown := i < 2; a.ID != asked[i] || errors.Is(a.Err, tasks.ErrNotFound) != unknown || (a.Err == nil) == unknown {
				t.Errorf("%s: answer %d is %+v, for the id %d", c.name, i, a, asked[i])
			}
		}
	}
	if n := q.number("SELECT COUNT(*) FROM worker_activetask WHERE priority = 5 AND leaseExpires = 0"); n != int64(len(ids)) {
		t.Errorf("%d tasks are back, want %d", n, len(ids))
	}
}

// More settlements than one transaction takes, twice: the second call changes
// nothing and says so.
func TestMoreSettlementsThanOneTransactionTakesAreAnsweredInTheirOrder(t *testing.T) {
	q := newQueue(t)
	s := q.open()
	enqueue(t, s, news(batchRows+40, "A")...)
	held := append(lease(t, s, storetest.Any(batchRows)), lease(t, s, storetest.Any(batchRows))...)
	if len(held) != batchRows+40 {
		t.Fatalf("leased %d tasks", len(held))
	}
	all := succeeded(held)
	for i := range all {
		all[i].Outcome.FollowUps = news(i%2, "Child")
	}
	// A settlement of the same lease twice in one call counts once.
	all = append(all, all[1])
	for range 2 {
		answers, err := s.Settle(t.Context(), all)
		if err != nil || len(answers) != len(all) {
			t.Fatalf("%d answers, %v", len(answers), err)
		}
		for i, a := range answers {
			if a.ID != all[i].ID || a.Err != nil {
				t.Errorf("answer %d is %+v, for the id %d", i, a, all[i].ID)
			}
		}
	}
	if n := q.number("SELECT COUNT(*) FROM worker_activetask WHERE taskClass = 'Child'"); n != int64(len(held)/2) {
		t.Errorf("%d follow-ups, want %d", n, len(held)/2)
	}
}

// Nobody's time zone has a part in when a lease ends: not the session's, not
// the process's.
func TestB28TimeZonesDoNotMoveLeases(t *testing.T) {
	usual := time.Local
	time.Local = time.FixedZone("elsewhere", -11*3600)
	t.Cleanup(func() { time.Local = usual })
	q := newQueue(t)
	s := q.open(func(c *Config) {
		cfg, err := mysql.ParseDSN(c.DSN)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Params = map[string]string{"time_zone": "'+08:00'"}
		c.DSN = cfg.FormatDSN()
	})
	utc := func() int64 { return q.number("SELECT TIMESTAMPDIFF(SECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP())") }
	between := func(what string, before, got, wait int64) {
		t.Helper()
		if after := utc(); got < before+wait || got > after+wait {
			t.Errorf("%s is %d; at most %d and at least %d", what, got, after+wait, before+wait)
		}
	}
	expires := "SELECT leaseExpires FROM worker_activetask"
	before := utc()
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	between("now", before, now, 0)
	enqueue(t, s, news(1, "A")...)
	between("dateCreated", before, q.number("SELECT dateCreated FROM worker_activetask"), 0)
	before = utc()
	held := lease(t, s, storetest.Any(1))
	between("the lease", before, q.number(expires), 60)
	before = utc()
	if _, err := s.Renew(t.Context(), []tasks.Renewal{{ID: held[0].ID, Owner: held[0].Lease.Owner, LeaseTime: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	between("the renewed lease", before, q.number(expires), 3600)
	before = utc()
	all := succeeded(held)
	all[0].Outcome = tasks.Outcome{Kind: tasks.Retry, Wait: 5 * time.Minute}
	settled(t, s, all)
	between("the wait", before, q.number(expires), 300)
	between("failureTime", before, q.number("SELECT failureTime FROM worker_activetask"), 0)
	before = utc()
	if _, err := s.Cancel(t.Context(), []int64{held[0].ID}); err != nil {
		t.Fatal(err)
	}
	between("archivedEpoch", before, q.number("SELECT archivedEpoch FROM worker_archivetask"), 0)
}
