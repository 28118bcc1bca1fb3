package redis

import (
	"errors"
	"flag"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// Every operation works on a cluster, whichever node the keys of an instance are on.
func TestB48EveryOperationWorksOnACluster(t *testing.T) {
	nodes := harness.StartRedisCluster(t, "--appendfsync", "no")
	url := "redis://" + nodes[0].Address()
	t.Run("Store", func(t *testing.T) {
		// A few random histories are enough: TestConformance has the many.
		checks := flag.Lookup("rapid.checks").Value.String()
		if err := flag.Set("rapid.checks", "5"); err != nil {
			t.Fatal(err)
		}
		defer flag.Set("rapid.checks", checks)
		storetest.Run(t, subjects(url))
	})
	t.Run("Service", func(t *testing.T) { storetest.RunService(t, subjects(url)) })
	t.Run("Calls", func(t *testing.T) {
		on := map[string]bool{}
		for _, instance := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			s := open(t, Config{URL: url + "?addr=" + nodes[1].Address(), Instance: instance})
			use(t, s)
			for what, call := range everyCall(t, s) {
				if err := call(); err != nil && !errors.Is(err, tasks.ErrNotFound) {
					t.Errorf("%s answered %v", what, err)
				}
			}
			mendAll(t, s)
			sound(t, s)
			node, err := s.client.(*goredis.ClusterClient).MasterForKey(t.Context(), s.key("queue"))
			if err != nil {
				t.Fatal(err)
			}
			on[node.Options().Addr] = true
		}
		if len(on) < 2 {
			t.Errorf("all instances are on %v; nothing is proven", on)
		}
	})
	t.Run("a node that evicts is refused", func(t *testing.T) {
		if err := nodes[2].Client(t).ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), Config{URL: url}); err == nil || !strings.Contains(err.Error(), "noeviction") {
			t.Errorf("answered %v", err)
		}
	})
	t.Run("a database is refused", func(t *testing.T) {
		if _, err := Open(t.Context(), Config{URL: url + "/3"}); err == nil {
			t.Error("was opened")
		}
	})
}
