package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestMain(m *testing.M) {
	is, err := storetest.Work(true, func(url, name string) (tasks.Store, error) {
		return Open(context.Background(), Config{URL: url, Host: name})
	})
	if is {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	harness.Main(m)
}

// explained are rows of a server that may be away.
type explained struct {
	harness.RedisRows
	store *Store
}

func (r explained) Age(seconds int64) error { return r.store.explain(r.RedisRows.Age(seconds)) }

// Whatever is killed, the server included, which keeps what it answered with
// appendonly yes and appendfsync always.
func TestKillsOfProcessesAndOfTheServerLoseAndDoubleNothing(t *testing.T) {
	const outages = 8
	server := harness.StartRedis(t)
	store := open(t, Config{URL: server.URL()})
	down := 0
	storetest.KillWorkers(t, storetest.Killing{
		Slots: 3, Kills: 6, Place: server.URL(),
		Subject: storetest.Subject{Store: store, Operator: store, Rows: explained{rowsOf(store), store}},
		Beside: func(lines func() int64, working func() bool) error {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for ; down < outages && working(); down++ {
				for next := lines() + 50 + rand.Int64N(400); lines() < next && working(); {
					<-tick.C
				}
				if err := errors.Join(server.Kill(), server.Start()); err != nil {
					return err
				}
			}
			return nil
		},
	})
	sound(t, store)
	if down < 2 {
		t.Errorf("the server was killed %d times", down)
	}
}
