package storetest

import (
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// Subject is one empty queue under test.
type Subject struct {
	Store    tasks.Store // of one Gantry process
	Other    tasks.Store // of another one on the same queue
	Operator tasks.Operator
	Rows     Rows
	Close    func()
}

// Clock says how the clock of a queue goes. It is the store's clock, not the
// host's; a good subject sets it far from the host's, so that a store that
// reads the wrong one fails.
type Clock string

const (
	// Standing: every call happens at the same second. Time passes by Rows.Age.
	Standing Clock = "standing"

	// Running: an ordinary clock.
	Running Clock = "running"
)

// Open answers an empty queue whose clock goes as asked.
type Open func(t *testing.T, clock Clock) Subject

// Run proves that a store does what tasks.Store and tasks.Operator say. It
// opens many queues: one for each row of the table of behaviours, and then for
// random histories, sequential ones compared with Memory answer by answer
// (their number is set by the flags of rapid) and concurrent ones checked
// afterwards by Check.
func Run(t *testing.T, open Open) {
	for _, group := range table {
		t.Run(group.name, func(t *testing.T) {
			for _, row := range group.rows {
				t.Run(row.name, func(t *testing.T) {
					subject := open(t, row.clock())
					defer subject.Close()
					row.check(&scene{t, subject, 30 * time.Second})
				})
			}
		})
	}
	t.Run("RandomHistories", func(t *testing.T) {
		compareHistories(t, 10*time.Second, func() Subject { return open(t, Standing) })
	})
	t.Run("RandomHistoriesOfALongQueue", func(t *testing.T) {
		compareLongHistories(t, func() Subject { return open(t, Standing) })
	})
	t.Run("ConcurrentHistory", func(t *testing.T) { checkConcurrent(t, open) })
}

// table is every behaviour there is.
var table = []struct {
	name string
	rows []behaviour
}{
	{"Enqueue", enqueueBehaviours},
	{"Lease", leaseBehaviours},
	{"LeaseWhat", filterBehaviours},
	{"Renew", renewBehaviours},
	{"Settle", settleBehaviours},
	{"SettleHeld", fenceBehaviours},
	{"Operator", operatorBehaviours},
	{"Look", lookBehaviours},
}

// behaviour is a row of the table: a sentence and its proof. Names begin with
// the number of the case they come from, if any.
type behaviour struct {
	name   string
	check  func(*scene)
	moving bool // needs a clock that runs
}

func (b behaviour) clock() Clock {
	if b.moving {
		return Running
	}
	return Standing
}
