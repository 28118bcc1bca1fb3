package embedded

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// Tasks a second with durable commits, on the disk of the temporary directory.

func queueOf(b *testing.B) *Store {
	return open(b, Config{Path: filepath.Join(b.TempDir(), "queue.db")})
}

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) tasks.Store { return queueOf(b) })
}

func succeeded(leased []tasks.Task) []tasks.Settlement {
	all := make([]tasks.Settlement, len(leased))
	for i, task := range leased {
		all[i] = tasks.Settlement{ID: task.ID, Lease: *task.Lease, Outcome: tasks.Outcome{Kind: tasks.Succeeded}}
	}
	return all
}

// The floor: one row in one table by one connection, committed each.
func BenchmarkRawInsert(b *testing.B) {
	path := filepath.Join(b.TempDir(), "queue.db")
	queue := open(b, Config{Path: path})
	file := queue.writer.conn
	b.ResetTimer()
	for b.Loop() {
		if err := file.exec("INSERT INTO data (data) VALUES ('{}')"); err != nil {
			b.Fatal(err)
		}
	}
	storetest.PerSecond(b, b.N)
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
				path := filepath.Join(b.TempDir(), "queue.db")
				s := open(b, Config{Path: path})
				fill(b, openFile(b, path), size, d.class, d.owner, d.expires, d.priority)
				storetest.BenchmarkClaim(b, s, d.req)
			})
		}
	}
}
