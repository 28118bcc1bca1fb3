package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// wire is a connection to a server that can be cut when it answers.
type wire struct {
	listener net.Listener
	cuts     atomic.Int64 // of the next answers so many are lost
	done     atomic.Int64
	all      sync.WaitGroup
}

func wireTo(t *testing.T, r *harness.Redis) *wire {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "wire"))
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener}
	w.all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			w.all.Go(func() { w.join(client, r.Socket()) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		w.all.Wait()
	})
	return w
}

func (w *wire) url() string { return "unix://" + w.listener.Addr().String() }

func (w *wire) join(client net.Conn, socket string) {
	defer client.Close()
	server, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer server.Close()
	w.all.Go(func() {
		_, _ = io.Copy(server, client)
		server.Close()
	})
	buffer := make([]byte, 1<<16)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		if w.cuts.Add(-1) >= 0 {
			w.done.Add(1)
			return
		}
		w.cuts.Store(0)
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cutting loses the answers of the server to the first calls that are made in do.
func (w *wire) cutting(t *testing.T, answers int64, do func()) {
	t.Helper()
	before := w.done.Load()
	w.cuts.Store(answers)
	do()
	if got := w.done.Load() - before; got != answers {
		t.Errorf("%d answers were lost, want %d", got, answers)
	}
}

// wired answers a store behind a wire, with its scripts sent, and one that talks to
// the server itself.
func wired(t *testing.T) (s, direct *Store, w *wire) {
	t.Helper()
	r := harness.StartRedis(t, "--appendfsync", "no")
	w = wireTo(t, r)
	c := Config{URL: w.url(), Instance: newInstance()}
	s = open(t, c)
	c.URL = r.URL()
	direct = open(t, c)
	use(t, direct)
	return s, direct, w
}

// use makes every call that is a script.
func use(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	ids, err := s.Enqueue(ctx, some(3))
	if err != nil {
		t.Fatal(err)
	}
	leased, err := s.Lease(ctx, storetest.Any(2))
	if err != nil || len(leased) != 2 {
		t.Fatal(len(leased), err)
	}
	if _, err := s.Renew(ctx, []tasks.Renewal{{ID: leased[0].ID, Owner: leased[0].Lease.Owner, LeaseTime: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Settle(ctx, succeeded(leased)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cancel(ctx, ids); err != nil {
		t.Fatal(err)
	}
}

func TestACallWhoseAnswersWereLostTakesEffectOnce(t *testing.T) {
	for lost := range int64(3) {
		t.Run(fmt.Sprint(lost+1, " answers"), func(t *testing.T) {
			s, direct, w := wired(t)
			ctx := t.Context()
			rows := func() int {
				all, err := rowsOf(direct).All()
				if err != nil {
					t.Fatal(err)
				}
				return len(all)
			}
			before := rows()
			var ids []int64
			var err error
			w.cutting(t, lost+1, func() { ids, err = s.Enqueue(ctx, some(5)) })
			if err != nil || len(ids) != 5 || rows() != before+5 {
				t.Fatalf("queued %v (%v); there are %d tasks, want %d", ids, err, rows(), before+5)
			}

			once, duplicate := tasks.Once{Key: "k", Keep: time.Hour}, false
			w.cutting(t, lost+1, func() { ids, duplicate, err = s.EnqueueOnce(ctx, once, some(1)) })
			if err != nil || len(ids) != 1 || duplicate || rows() != before+6 {
				t.Fatalf("queued %v, duplicate %v (%v); there are %d tasks, want %d", ids, duplicate, err, rows(), before+6)
			}

			s.upkeepDue.Store(1 << 62)
			var leased []tasks.Task
			repeated := map[string]int{}
			s.config.Repeated = func(reason string) { repeated[reason]++ }
			w.cutting(t, lost+1, func() { leased, err = s.Lease(ctx, storetest.Any(4)) })
			if len(repeated) != 1 || repeated["connection"] < 1 {
				t.Errorf("it tells of the repetitions %v", repeated)
			}
			s.config.Repeated = func(string) {}
			if err != nil || len(leased) != 4 {
				t.Fatalf("leased %d tasks (%v), want 4", len(leased), err)
			}
			for i, task := range leased {
				row, err := direct.Get(ctx, task.ID)
				if err != nil || *row.Owner != task.Lease.Owner || *row.Expires != task.Lease.Expires || task.Lease.Prior.Owner != nil ||
					string(task.Data) != fmt.Sprintf(`{"n":%d}`, i) {
					t.Errorf("answered %+v of %+v (%v)", task.Lease, row, err)
				}
			}
			if rest, err := direct.Lease(ctx, storetest.Any(10)); err != nil || len(rest) != 2 {
				t.Errorf("others leased %d tasks (%v), want the 2 that were not leased", len(rest), err)
			}

			var changed []tasks.Changed
			w.cutting(t, lost+1, func() { changed, err = s.Cancel(ctx, []int64{leased[0].ID, 999}) })
			if err != nil || changed[0].Err != nil || !errors.Is(changed[1].Err, tasks.ErrNotFound) {
				t.Errorf("cancelled %v (%v)", changed, err)
			}
			sound(t, direct)
		})
	}
}

// Whatever order the server meets them in.
func TestACallDoesNothingBehindTheNextOneInItsSlot(t *testing.T) {
	s := open(t, Config{URL: serve(t)})
	ctx := t.Context()
	must(s.Enqueue(ctx, some(9)))
	lease := s.leaseArgs("", storetest.Any(1), "")
	enqueue := appendTasks([]any{"", "", 0, 1, tasks.PriorityDefault}, some(1))
	operate := []any{"priority", 7, -1, -1, 1}
	call := func(script *goredis.Script, number int, args []any) string {
		t.Helper()
		answer, err := s.try(ctx, script, append([]any{"slot", number}, args...))
		if err != nil {
			t.Fatal(err)
		}
		all, err := rowsOf(s).All()
		if err != nil {
			t.Fatal(err)
		}
		held := 0
		for _, r := range all {
			if r.Owner != nil {
				held++
			}
		}
		return fmt.Sprint(len(all), " ", held, " ", answer)
	}
	queued := call(enqueueScript, 1, enqueue)
	if again := call(enqueueScript, 1, enqueue); again != queued {
		t.Errorf("answered %s, and again %s", queued, again)
	}
	leased := call(leaseScript, 2, lease)
	for _, late := range []string{call(enqueueScript, 1, enqueue), call(leaseScript, 1, lease), call(operateScript, 1, operate)} {
		if late[:4] != "10 1" {
			t.Errorf("a late call did something: %s", late)
		}
	}
	if again := call(leaseScript, 2, lease); again != leased {
		t.Errorf("answered %s, and again %s", leased, again)
	}
	if err := rowsOf(s).Place(1, tasks.Place{}); err != nil {
		t.Fatal(err)
	}
	if late := call(leaseScript, 2, lease); !strings.Contains(late, " -1 0 ") {
		t.Errorf("a lease that is lost was answered as %s", late)
	}
	if record, err := s.Get(ctx, 1); err != nil || record.Priority != tasks.PriorityDefault {
		t.Errorf("a late call changed %+v (%v)", record, err)
	}
}

// sendings counts how often scripts are sent.
type sendings struct{ atomic.Int64 }

func (n *sendings) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (n *sendings) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		n.Add(1)
		return next(ctx, cmd)
	}
}

func (n *sendings) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// A server that stands still gets a call several times over, and meets all of them,
// in any order, when it goes on.
func TestCallsThatArriveLateDoNothing(t *testing.T) {
	r := harness.StartRedis(t, "--appendfsync", "no")
	direct := open(t, Config{URL: r.URL()})
	use(t, direct)
	for range 5 {
		s := open(t, Config{URL: r.URL() + "?read_timeout=30ms&min_idle_conns=8"})
		harness.Eventually(t, "there are connections", func() bool { return s.client.PoolStats().IdleConns >= 8 })
		var sent sendings
		s.client.AddHook(&sent)
		s.upkeepDue.Store(1 << 62)
		before, err := rowsOf(direct).All()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Pause(); err != nil {
			t.Fatal(err)
		}
		queued := make(chan error)
		go func() {
			_, err := s.Enqueue(t.Context(), some(1))
			queued <- err
		}()
		harness.Eventually(t, "it is sent again", func() bool { return sent.Load() >= 4 })
		if err := r.Resume(); err != nil {
			t.Fatal(err)
		}
		if err := <-queued; err != nil {
			t.Fatal(err)
		}
		if _, err := s.Enqueue(t.Context(), some(1)); err != nil { // in the same slot
			t.Fatal(err)
		}
		for range 3 {
			if err := direct.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		after, err := rowsOf(direct).All()
		if err != nil || len(after) != len(before)+2 {
			t.Fatalf("two tasks were queued, and there are %d more (%v)", len(after)-len(before), err)
		}
	}
}

func TestASettlementWhoseAnswerWasLostIsAnsweredAsDoneWhenItIsRepeated(t *testing.T) {
	s, direct, w := wired(t)
	ctx := t.Context()
	if _, err := s.Enqueue(ctx, some(2)); err != nil {
		t.Fatal(err)
	}
	s.upkeepDue.Store(1 << 62)
	leased, err := s.Lease(ctx, storetest.Any(2))
	if err != nil {
		t.Fatal(err)
	}
	settlements := succeeded(leased)
	settlements[0].Outcome.FollowUps = some(1)
	settlements[1].Outcome = tasks.Outcome{Kind: tasks.Retry, Wait: time.Hour}
	w.cutting(t, 1, func() { _, err = s.Settle(ctx, settlements) })
	if !errors.Is(err, tasks.ErrUnavailable) {
		t.Fatalf("answered %v, want %v", err, tasks.ErrUnavailable)
	}
	settled, err := s.Settle(ctx, settlements)
	if err != nil || settled[0].Err != nil || settled[1].Err != nil {
		t.Fatalf("answered %v (%v)", settled, err)
	}
	all, err := rowsOf(direct).All()
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := direct.List(ctx, tasks.Filter{State: tasks.Active, Limit: 100})
	if err != nil || len(waiting.Tasks) != 2 || waiting.Tasks[0].FailureCount != 1 {
		t.Errorf("of %d tasks these are active: %+v (%v)", len(all), waiting.Tasks, err)
	}
	attempts, err := direct.Attempts(ctx, leased[1].ID, 10)
	if err != nil || len(attempts) != 1 {
		t.Errorf("the attempts are %v (%v), want one", attempts, err)
	}
}

func TestAScriptThatTheServerForgotIsSentAgain(t *testing.T) {
	s, direct, _ := wired(t)
	if err := direct.client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	use(t, s)
}

func TestAServerThatIsGoneIsUnavailableAtOnce(t *testing.T) {
	r := harness.StartRedis(t)
	s := open(t, Config{URL: r.URL(), Instance: newInstance()})
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	for what, call := range everyCall(t, s) {
		if err := call(); !errors.Is(err, tasks.ErrUnavailable) {
			t.Errorf("%s answered %v, want %v", what, err, tasks.ErrUnavailable)
		}
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	// The client looks for a server that did not answer once a second.
	harness.Eventually(t, "the server is found again", func() bool { return s.Ready(t.Context()) == nil })
	for what, call := range everyCall(t, s) {
		if err := call(); err != nil && !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("%s answered %v after the restart", what, err)
		}
	}
}

// everyCall answers every call there is.
func everyCall(t *testing.T, s *Store) map[string]func() error {
	ctx := t.Context()
	ids := []int64{1}
	return map[string]func() error{
		"Enqueue": func() error { _, err := s.Enqueue(ctx, some(1)); return err },
		"EnqueueOnce": func() error {
			_, _, err := s.EnqueueOnce(ctx, tasks.Once{Key: "k", Keep: time.Hour}, some(1))
			return err
		},
		"Lease":    func() error { _, err := s.Lease(ctx, storetest.Any(1)); return err },
		"LeaseFor": func() error { _, err := s.LeaseFor(ctx, "caller", storetest.Any(1)); return err },
		"Renew": func() error {
			_, err := s.Renew(ctx, []tasks.Renewal{{ID: 1, Owner: "o", LeaseTime: time.Minute}})
			return err
		},
		"Settle":        func() error { _, err := s.Settle(ctx, []tasks.Settlement{{ID: 1}}); return err },
		"SettleLive":    func() error { _, err := s.SettleLive(ctx, []tasks.Settlement{{ID: 1}}); return err },
		"Now":           func() error { _, err := s.Now(ctx); return err },
		"Get":           func() error { _, err := s.Get(ctx, 999); return err },
		"List":          func() error { _, err := s.List(ctx, tasks.Filter{State: tasks.Active, Limit: 1}); return err },
		"Stats":         func() error { _, err := s.Stats(ctx); return err },
		"Cancel":        func() error { _, err := s.Cancel(ctx, ids); return err },
		"Free":          func() error { _, err := s.Free(ctx, ids); return err },
		"Delay":         func() error { _, err := s.Delay(ctx, ids, 1); return err },
		"Priority":      func() error { _, err := s.Priority(ctx, ids, 1); return err },
		"Retry":         func() error { _, err := s.Retry(ctx, ids, true); return err },
		"Awaken":        func() error { _, err := s.Awaken(ctx, ids); return err },
		"CountArchived": func() error { _, err := s.CountArchived(ctx); return err },
		"Attempts":      func() error { _, err := s.Attempts(ctx, 1, 1); return err },
		"Ready":         func() error { return s.Ready(ctx) },
	}
}
