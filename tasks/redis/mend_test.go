package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// mixed is a queue with tasks in every place, and its log.
func mixed(t *testing.T) (*Store, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	s := open(t, Config{URL: serve(t, "--appendfsync", "no"), Instance: "mixed", Log: zerolog.New(&log).Level(zerolog.WarnLevel)})
	log.Reset()
	s.upkeepDue.Store(1 << 62)
	ctx := t.Context()
	rows := rowsOf(s)
	now := clock(s.Now(ctx))
	future, past := now+3600, now-3600
	text := func(s string) *string { return &s }
	for i := range 40 {
		for _, place := range []tasks.Place{
			{}, {Expires: &past}, {Expires: &future},
			{Owner: text("(retry):1:0"), Expires: &past}, {Owner: text("(delay)"), Expires: &future},
			{Owner: text("gantry:1:0:n:h"), Expires: &past}, {Owner: text("gantry:1:0:n:h"), Expires: &future},
			{Owner: text("gantry is mine"), Expires: &past}, {Owner: text("caller#1"), Expires: &past}, {Owner: text("caller#1")}, {Owner: text("")},
		} {
			_, err := rows.Insert(tasks.Task{
				Class: fmt.Sprint("C", i%3), Priority: 1000 + i, FailureCount: i % 2, DateCreated: past, DateModified: past,
				Data: []byte("{}"), Place: place,
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	settleSome(t, s, 60)
	return s, &log
}

func clock(n int64, err error) int64 {
	if err != nil {
		panic(err)
	}
	return n
}

// settleSome leases and settles some of what is there.
func settleSome(t *testing.T, s *Store, n int) {
	t.Helper()
	leased, err := s.Lease(t.Context(), storetest.Any(n))
	if err != nil || len(leased) != n {
		t.Fatalf("leased %d tasks (%v), want %d", len(leased), err, n)
	}
	settlements := succeeded(leased)
	for i := range settlements {
		kinds := []tasks.Kind{tasks.Succeeded, tasks.Failed, tasks.Retry, tasks.Yielded, tasks.Released}
		settlements[i].Outcome = tasks.Outcome{Kind: kinds[i%len(kinds)], Reason: "because", Wait: time.Duration(i%2) * time.Hour}
	}
	if _, err := s.Settle(t.Context(), settlements); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cancel(t.Context(), []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}); err != nil {
		t.Fatal(err)
	}
}

// mendAll mends until every key was met, beginning and ending with a round.
func mendAll(t *testing.T, s *Store) (passes int) {
	t.Helper()
	for rounds := 0; rounds < 2; passes++ {
		round, err := s.mend(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if round {
			rounds++
		}
	}
	return passes
}

// everything answers all the keys and what they hold.
func everything(t *testing.T, s *Store) string {
	t.Helper()
	ctx := context.Background()
	var text strings.Builder
	records, err := rowsOf(s).All()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		fmt.Fprintf(&text, "%d %s %v %v %s %d\n", r.ID, r.Class, deref(r.Owner), deref(r.Expires), r.Data, r.FailureCount)
	}
	n, err := s.client.DBSize(ctx).Result()
	fmt.Fprint(&text, n, err)
	return text.String()
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func TestMendingLeavesWhatIsFineAlone(t *testing.T) {
	s, log := mixed(t)
	sound(t, s)
	before := everything(t, s)
	mendAll(t, s)
	sound(t, s)
	if after := everything(t, s); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if log.Len() > 0 {
		t.Errorf("something was mended: %s", log)
	}
}

func TestEntriesThatLostTheirOtherHalfAreMended(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, s *Store, key string) bool // whether the key is damaged
	}{
		{"every index is gone", func(_ *testing.T, s *Store, key string) bool { return !isTask(s, key) && key != s.key("queue") }},
		{"the list of classes is gone", func(_ *testing.T, s *Store, key string) bool { return key == s.key("classes") }},
		{"half of the tasks are gone", func(_ *testing.T, s *Store, key string) bool {
			return isTask(s, key) && strings.HasSuffix(key, "0") || isTask(s, key) && strings.HasSuffix(key, "3")
		}},
		{"anything may be gone", func(_ *testing.T, s *Store, key string) bool { return key != s.key("queue") && rand.IntN(2) == 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, log := mixed(t)
			ctx := t.Context()
			for _, key := range keysOf(t, s) {
				if c.damage(t, s, key) {
					if err := s.client.Unlink(ctx, key).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			left, err := rowsOf(s).All()
			if err != nil {
				t.Fatal(err)
			}
			passes := mendAll(t, s)
			sound(t, s)
			if !strings.Contains(log.String(), "lost their other half") && c.name != "the list of classes is gone" {
				t.Errorf("nothing was said: %s", log)
			}
			t.Logf("%d tasks are left; %d passes", len(left), passes)
			after, err := rowsOf(s).All()
			if err != nil || len(after) != len(left) {
				t.Errorf("of %d tasks %d are left (%v)", len(left), len(after), err)
			}
			for _, key := range keysOf(t, s) {
				if id, ok := strings.CutPrefix(key, s.key("attempts:")); ok {
					if n, err := s.client.Exists(ctx, s.key("task:"+id)).Result(); err != nil || n == 0 {
						t.Errorf("attempts are left of task %s, which is gone (%v)", id, err)
					}
				}
			}
			drainMixed(t, s)
		})
	}
}

func isTask(s *Store, key string) bool { return strings.HasPrefix(key, s.key("task:")) }

// drainMixed leases and settles everything that is ever due.
func drainMixed(t *testing.T, s *Store) {
	t.Helper()
	if err := rowsOf(s).Age(10_000); err != nil {
		t.Fatal(err)
	}
	due := 0
	all, err := rowsOf(s).All()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Archive == nil && !(r.Owner != nil && r.Expires == nil) {
			due++
		}
	}
	for range 20 {
		leased, err := s.Lease(t.Context(), storetest.Any(500))
		if err != nil && !errors.Is(err, tasks.ErrSearching) {
			t.Fatal(err)
		}
		if _, err := s.Settle(t.Context(), succeeded(leased)); err != nil {
			t.Fatal(err)
		}
		due -= len(leased)
	}
	if due != 0 {
		t.Errorf("%d due tasks were not leased", due)
	}
	sound(t, s)
}

// Leasing meets such entries before they are mended.
func TestLeasingPassesOverEntriesWithoutATask(t *testing.T) {
	s := open(t, Config{URL: serve(t)})
	s.upkeepDue.Store(1 << 62)
	ctx := t.Context()
	ids := must(s.Enqueue(ctx, some(1000)))
	for _, id := range ids[:900] {
		if err := s.client.Unlink(ctx, s.taskKey(id)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.client.HSet(ctx, s.taskKey(ids[999]), "leaseOwner", "by hand", "leaseExpires", "4000000000").Err(); err != nil {
		t.Fatal(err)
	}
	leased := 0
	for calls := 0; leased < 99; calls++ {
		some, err := s.Lease(ctx, storetest.Any(100))
		if err != nil && !errors.Is(err, tasks.ErrSearching) || calls > 3 {
			t.Fatalf("after %d calls %d are leased (%v)", calls, leased, err)
		}
		leased += len(some)
	}
	if some, err := s.Lease(ctx, storetest.Any(100)); len(some) != 0 {
		t.Errorf("leased %d more (%v)", len(some), err)
	}
	mendAll(t, s)
	sound(t, s)
}

// What a person wrote by hand may be anything.
func TestTasksThatAreNoTasksAreInNobodysWay(t *testing.T) {
	s := open(t, Config{URL: serve(t)})
	s.upkeepDue.Store(1 << 62)
	ctx := t.Context()
	ids := must(s.Enqueue(ctx, some(12)))
	damage := func(i int, args ...any) {
		t.Helper()
		key := s.taskKey(ids[i])
		for j, arg := range args {
			if arg == "KEY" {
				args[j] = key
			}
		}
		if err := s.client.Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	damage(8, "SET", "KEY", "a text")
	damage(1, "HDEL", "KEY", "taskClass")
	damage(2, "HDEL", "KEY", "dateCreated", "dateModified", "data")
	damage(3, "HSET", "KEY", "priority", "high")
	damage(4, "HSET", "KEY", "leaseExpires", "soon")
	damage(5, "HSET", "KEY", "failureCount", "many", "failureTime", "once")
	damage(6, "HSET", "KEY", "taskClass", "Other")
	damage(7, "HSET", "KEY", "leaseOwner", "gantry:zzzzzzzzzzzzzzzzzz:-:n:h", "leaseExpires", "1")
	damage(0, "HSET", "KEY", "result", "7")
	req := storetest.Any(100)
	req.Others.PickupDelay = 1
	for range 3 {
		if _, err := s.Lease(ctx, req); err != nil && !errors.Is(err, tasks.ErrSearching) {
			t.Fatal(err)
		}
	}
	mendAll(t, s)
	for what, call := range everyCall(t, s) {
		if err := call(); err != nil && !errors.Is(err, tasks.ErrNotFound) && !errors.Is(err, tasks.ErrSearching) {
			t.Errorf("%s answered %v", what, err)
		}
	}
	req.Others.PickupDelay = 0
	leased := map[int64]bool{}
	for range 5 {
		some, err := s.Lease(ctx, req)
		if err != nil && !errors.Is(err, tasks.ErrSearching) {
			t.Fatal(err)
		}
		for _, task := range some {
			leased[task.ID] = true
		}
	}
	for _, id := range ids[9:] {
		if !leased[id] {
			t.Errorf("task %d was not leased, only %v", id, leased)
		}
	}
}

func TestIdsAreNotUsedTwiceWhenTheirCounterIsLost(t *testing.T) {
	s := open(t, Config{URL: serve(t)})
	ctx := t.Context()
	ids := must(s.Enqueue(ctx, some(5)))
	fence := func() int64 {
		leased, err := s.Lease(ctx, storetest.Any(1))
		if err != nil || len(leased) != 1 {
			t.Fatal(len(leased), err)
		}
		return leased[0].Lease.Fence
	}
	before := fence()
	if now := clock(s.Now(ctx)); before>>16 < now-60 || before>>16 > now {
		t.Errorf("fence %d is not of this moment", before)
	}
	if err := s.client.Del(ctx, s.key("queue")).Err(); err != nil {
		t.Fatal(err)
	}
	if more := must(s.Enqueue(ctx, some(2))); more[0] != ids[4]+1 {
		t.Errorf("queued %v behind %v", more, ids)
	}
	if after := fence(); after < before {
		t.Errorf("fence %d came after %d", after, before)
	}
	// An older counter, and tasks that no index knows.
	if err := s.client.HSet(ctx, s.key("queue"), "lastID", 2).Err(); err != nil {
		t.Fatal(err)
	}
	more := must(s.Enqueue(ctx, some(3)))
	all, err := rowsOf(s).All()
	if err != nil || len(all) != 10 {
		t.Errorf("queued %v; of 10 tasks %d are left (%v)", more, len(all), err)
	}
	sound(t, s)
}

func TestAPassLooksAtABoundedNumberOfEntries(t *testing.T) {
	s := open(t, Config{URL: serve(t, "--appendonly", "no"), Volatile: true})
	depths[0].fill(t, s, 20_000)
	looked, passes := 0, 0
	for rounds := 0; rounds < 1; passes++ {
		total, each := during(t, s, func() {
			round, err := s.mend(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if round {
				rounds++
			}
		})
		if total > 8*upkeepRows {
			t.Errorf("a pass ran %d commands: %v", total, each)
		}
		looked += each["hmget"]
	}
	t.Logf("%d passes looked at %d entries", passes, looked)
	if looked < 3*20_000 { // as a task, and in two indexes
		t.Errorf("a round looked at %d entries", looked)
	}
}

func TestOneOfManyLooksAfterAQueue(t *testing.T) {
	url := serve(t)
	stores := make([]*Store, 5)
	for i := range stores {
		stores[i] = open(t, Config{URL: url})
	}
	scans := func() int { return commands(t, stores[0].client)["scan"] }
	before := scans()
	for _, s := range stores {
		if _, err := s.Lease(t.Context(), storetest.Any(1)); err != nil {
			t.Fatal(err)
		}
	}
	if n := scans() - before; n != 1 {
		t.Errorf("%d of 5 looked after the queue, want 1", n)
	}
}
