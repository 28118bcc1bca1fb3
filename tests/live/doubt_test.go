package live

import (
	"fmt"
	"strings"
	"testing"
)

// foreignLock is the lock of a process on another host, under another server of
// the database: neither can be asked whether it lives.
const foreignLock = "gantry:elsewher.0123456789abcdef:otherdbs:0123456789"

// TestAProcessOfWhichNobodyKnowsCountsAsDeadAfterTenMinutes asks a server that
// may have been restarted since, or be another one after a failover. A process
// that lives comes back to it and takes its lock again. Ten minutes are left for
// that, from the receipt or from the start of the server, whichever was later.
func TestAProcessOfWhichNobodyKnowsCountsAsDeadAfterTenMinutes(t *testing.T) {
	g := newGround(t)
	q := openQueue(t, g.Phorge)
	started := q.count(t, `SELECT UNIX_TIMESTAMP() - CAST(VARIABLE_VALUE AS SIGNED)
		FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'UPTIME'`)
	for _, c := range []struct {
		uptime, age int // seconds, of the server and of the receipt
		dead        bool
	}{
		{1200, 600, false},
		{1200, 601, true},
		{600, 1200, false},
		{601, 1200, true},
	} {
		t.Run(fmt.Sprintf("server %d s, receipt %d s", c.uptime, c.age), func(t *testing.T) {
			now := started + c.uptime
			earlier := g.lease(t, nil)
			q.exec(t, "INSERT INTO live_gantry.receipts (taskID, leaseOwner, processLock, taskModified, epoch) VALUES (?, ?, ?, 0, ?)",
				earlier.ID, earlier.Owner, foreignLock, now-c.age)
			later := g.leaseAs(t, earlier, "gantry:later:0:live")
			q.exec(t, "UPDATE worker_activetask SET leaseExpires = ? WHERE id = ?", now+600, later.ID)

			looked, claimed, runs := "running", "refused still-running", 0
			if c.dead {
				looked, claimed, runs = "dead", "done", 1
			}
			g.at(t, now, func() {
				if got := g.askAt(t, now, "lookup", earlier); got != looked {
					t.Errorf("the receipt says %q, want %q", got, looked)
				}
				if got := g.askAt(t, now, "run", later); got != claimed {
					t.Errorf("the next lease is answered with %q, want %q", got, claimed)
				}
			})
			if n := g.ran(t, later.ID); n != runs {
				t.Errorf("the task ran %d times, want %d", n, runs)
			}
		})
	}
}

// at does something while the clock of the database stands still for Phorge, at
// an epoch. The uptime of the server is told by the same clock. It stands only
// for users without rights over the server, so Phorge becomes one.
func (g *ground) at(t *testing.T, now int, do func()) {
	t.Helper()
	q := openQueue(t, g.Phorge)
	defer q.exec(t, "DROP USER IF EXISTS standing@127.0.0.1")
	defer q.exec(t, "SET GLOBAL init_connect = ''")
	q.exec(t, "CREATE USER standing@127.0.0.1")
	q.exec(t, "GRANT ALL ON `live\\_%`.* TO standing@127.0.0.1")
	q.exec(t, fmt.Sprintf("SET GLOBAL init_connect = 'SET timestamp = %d'", now))
	g.configured(t, map[string]any{"mysql.user": "standing"}, do)
}

// askAt asks for one task, to run it or to look it up, while the clock stands.
func (g *ground) askAt(t *testing.T, now int, mode string, task leased) string {
	t.Helper()
	return g.one(t, with(g.newCall(t, task), func(c *signedCall) {
		c.timestamp = int64(now)
		c.body = strings.Replace(c.body, `"run"`, fmt.Sprintf("%q", mode), 1)
	}))
}
