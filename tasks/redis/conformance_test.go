package redis

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// epoch is what a standing clock shows, in 2033: far from the server's clock.
const epoch = 2_000_000_000

// Waiting for a disk proves nothing here.
func TestConformance(t *testing.T) { storetest.Run(t, subjects(serve(t, "--appendfsync", "no"))) }

func TestConformanceOfTheService(t *testing.T) {
	storetest.RunService(t, subjects(serve(t, "--appendfsync", "no")))
}

// serve answers the URL of a server for this test.
func serve(t testing.TB, args ...string) string {
	t.Helper()
	return harness.StartRedis(t, args...).URL()
}

var instancesMade atomic.Int64

func newInstance() string { return fmt.Sprint("test", instancesMade.Add(1)) }

// subjects answers how queues are opened on a server.
func subjects(url string) storetest.Open {
	return func(t *testing.T, clock storetest.Clock) storetest.Subject {
		c := Config{URL: url, Instance: newInstance()}
		if clock == storetest.Standing {
			c.clock = func() int64 { return epoch }
		}
		one, other := open(t, c), open(t, c)
		return storetest.Subject{
			Store: one, Other: other, Operator: one, Rows: rowsOf(one),
			Close: func() {
				sound(t, one)
				for _, key := range keysOf(t, one) {
					one.client.Unlink(context.Background(), key)
				}
				one.Close()
				other.Close()
			},
		}
	}
}

func open(t testing.TB, c Config) *Store {
	t.Helper()
	c.Host = "test"
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func rowsOf(s *Store) harness.RedisRows {
	return harness.RedisRows{Client: s.client, Instance: s.config.Instance}
}

func keysOf(t testing.TB, s *Store) []string {
	t.Helper()
	node, err := s.node(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := node.Keys(context.Background(), s.key("*")).Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// sound fails the test when the indexes do not say what the tasks do.
func sound(t testing.TB, s *Store) {
	t.Helper()
	for index, is := range indexesOf(t, s) {
		if want := is.want; fmt.Sprint(is.got) != fmt.Sprint(want) {
			t.Errorf("index %s holds %v, want %v", index, is.got, want)
		}
	}
}

type entries struct{ got, want map[int64]float64 }

// indexesOf answers what the indexes hold and what they should.
func indexesOf(t testing.TB, s *Store) map[string]*entries {
	t.Helper()
	ctx := context.Background()
	all := map[string]*entries{}
	at := func(index string) *entries {
		if all[index] == nil {
			all[index] = &entries{map[int64]float64{}, map[int64]float64{}}
		}
		return all[index]
	}
	for _, key := range keysOf(t, s) {
		index := key[len(s.root):]
		if kind, err := s.client.Type(ctx, key).Result(); err != nil || kind != "zset" || index == "classes" {
			continue
		}
		found, err := s.client.ZRangeWithScores(ctx, key, 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, z := range found {
			id, err := memberID(z.Member.(string))
			if err != nil {
				t.Errorf("index %s: %v", index, err)
			}
			at(index).got[number(id)] = z.Score
		}
	}
	records, err := rowsOf(s).All()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		shouldStand(s, r, at)
	}
	return all
}

func shouldStand(s *Store, r tasks.Record, at func(index string) *entries) {
	id := float64(r.ID)
	if r.Archive != nil {
		at(fmt.Sprint("archive:", r.Result)).want[r.ID] = id
		at("aged").want[r.ID] = float64(r.Epoch)
		return
	}
	at("active").want[r.ID] = id
	if r.FailureCount > 0 {
		at("failing:" + r.Class).want[r.ID] = float64(r.FailureCount)
	}
	expires := func() float64 {
		if r.Expires == nil {
			return math.Inf(1)
		}
		return float64(*r.Expires)
	}
	_, unripe := at("unripe").got[r.ID]
	switch owner := r.Owner; {
	case owner == nil && r.Expires != nil && unripe:
		at("unripe").want[r.ID], at("unripe:" + r.Class).want[r.ID] = expires(), expires()
	case owner == nil:
		at("fresh:" + r.Class).want[r.ID] = float64(r.Priority)
	case *owner == "" || tasks.Nobody(*owner):
		at("parked:" + r.Class).want[r.ID] = expires()
	default:
		lane := "lent:"
		if _, ok := tasks.ParseOwner(*owner); ok {
			lane = "held:"
		}
		at(lane + r.Class).want[r.ID] = expires()
	}
}
