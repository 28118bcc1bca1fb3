package endtoend

import (
	"slices"
	"testing"

	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// The ids of the two are the same, and so is the server. Their leases are swept
// meanwhile, and the slow ones hold turns for longer than others wait in line.
func TestTwoInstancesThatShareTurnsLoseNothingAndDoubleNothing(t *testing.T) {
	turns := &runtime.Turns{Total: 5}
	share := func(c *runtime.Config) { c.Turns = turns }
	deeds := append(slices.Repeat([]deed{slow}, 5), mixture(900)...)
	var worlds []*world
	var ids [][]int64
	for range 2 {
		w := newWorld(t, harness.Namespace(t))
		w.node(&doer{}, turns.Total, share)
		worlds, ids = append(worlds, w), append(ids, w.enqueue(deeds...))
	}
	if !slices.Equal(ids[0], ids[1]) {
		t.Fatalf("the ids begin at %d and %d", ids[0][0], ids[1][0])
	}
	for _, w := range worlds {
		w.must(w.nodes[0].Start())
	}
	for round := range 3 {
		for _, w := range worlds {
			n := w.nodes[0]
			harness.Eventually(t, "some tasks are done", func() bool { return n.Stats().Settled() > round*200 })
			w.must(n.recorder.Disturb(nil, w.sweep))
		}
	}
	for i, w := range worlds {
		w.empty()
		w.isDone(w.prove(), ids[i], deeds)
	}
}
