package runtime

import (
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// Observer is told what becomes of tasks, to count it. Its methods are called
// from the middle of the loop, many at the same time: they must be quick and not
// block.
type Observer interface {
	// Leased says that a task was leased for so long.
	Leased(task tasks.Task, leaseTime time.Duration)

	// Ended says that a lease ended: how, or that it was Lost; what ran the task,
	// empty when nothing did; and how long the work took.
	Ended(class, route string, kind tasks.Kind, took time.Duration)

	// Revived says that leases had expired, or had been swept, and were renewed.
	Revived(leases int)

	// StoreFailed says that a call failed as a whole: lease, renew or settle. It
	// is made again.
	StoreFailed(call string)
}

// nobody observes.
type nobody struct{}

func (nobody) Leased(tasks.Task, time.Duration)                {}
func (nobody) Ended(string, string, tasks.Kind, time.Duration) {}
func (nobody) Revived(int)                                     {}
func (nobody) StoreFailed(string)                              {}
