package pool

import (
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestATaskSucceeds(t *testing.T) {
	p, _ := startReady(t, Config{})
	for range 3 {
		want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
	}
	s := p.State()
	if len(s.Processes) != 1 || s.Processes[0].Tasks != 3 || s.Processes[0].Phase != Idle || s.Processes[0].Memory != 4096 {
		t.Errorf("state %+v", s)
	}
}
