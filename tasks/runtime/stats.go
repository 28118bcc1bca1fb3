package runtime

import "github.com/phorge-gantry/gantry/tasks"

// Stats counts what a Runtime did since Start, or in one RunOnce.
type Stats struct {
	Leased  int // tasks leased
	Started int // executions begun

	// Outcomes that were settled.
	Succeeded int
	Yielded   int
	Retried   int
	Failed    int
	Crashed   int
	Released  int

	Lost    int // leases that ended under us; nothing was settled
	Revived int // leases that had expired or been swept, and were renewed

	Held    int // tasks under a lease now, in whatever state
	Running int // of these, the ones in a slot
	Slots   int // how many tasks may be in one, over all limits
}

// Settled is the number of leases ended with an outcome.
func (s Stats) Settled() int {
	return s.Succeeded + s.Yielded + s.Retried + s.Failed + s.Crashed + s.Released
}

func (s *Stats) count(kind tasks.Kind) {
	switch kind {
	case tasks.Succeeded:
		s.Succeeded++
	case tasks.Yielded:
		s.Yielded++
	case tasks.Retry:
		s.Retried++
	case tasks.Failed:
		s.Failed++
	case tasks.Crashed:
		s.Crashed++
	case tasks.Released:
		s.Released++
	case tasks.Lost:
		s.Lost++
	}
}
