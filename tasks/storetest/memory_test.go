package storetest

import (
	"testing"
	"time"
)

// openMemory opens the model as a subject. Its clock is far from the host's.
func openMemory(_ *testing.T, clock Clock) Subject {
	const epoch = 1_234_567_890
	start := time.Now()
	m := NewMemory(func() int64 {
		if clock == Standing {
			return epoch
		}
		return epoch + int64(time.Since(start)/time.Second)
	})
	return Subject{Store: m, Other: m.Process("other"), Operator: m, Rows: m, Close: func() {}}
}

func TestMemoryPassesTheSuite(t *testing.T) { Run(t, openMemory) }

func TestMemoryPassesTheSuiteForServices(t *testing.T) { RunService(t, openMemory) }
