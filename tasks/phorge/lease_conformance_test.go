package phorge_test

import (
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// The search of large queues finds what reading the whole queue finds, in the
// same order: queues that are looked through in a few windows show it.
func TestConformanceWithCursors(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock storetest.Clock) storetest.Subject {
		s := open(t, harness.Shared(t), phorge.Config{}, nil, clock, false)
		for _, store := range []tasks.Store{s.Store, s.Other} {
			phorge.UseCursors(store.(*phorge.Store))
		}
		return s
	})
}
