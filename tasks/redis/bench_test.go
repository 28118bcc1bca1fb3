package redis

import (
	"fmt"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// Tasks a second on a server that syncs its file once a second, as asynq's users
// run it.

func queueOf(b *testing.B) *Store {
	return open(b, Config{URL: serve(b, "--appendfsync", "everysec"), Instance: newInstance()})
}

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) tasks.Store { return queueOf(b) })
}

// A call that leases 64 tasks, and the one that gives them back, in queues of
// different depth and with different heads.
func BenchmarkLeaseAtDepth(b *testing.B) {
	for _, d := range depths {
		if d.leased == 0 || d.name == "all were freed" { // those change the queue
			continue
		}
		for _, size := range []int{1000, 1_000_000} {
			b.Run(fmt.Sprintf("%s/%d", d.name, size), func(b *testing.B) {
				s := queueOf(b)
				d.fill(b, s, size)
				storetest.BenchmarkClaim(b, s, d.req)
			})
		}
	}
}
