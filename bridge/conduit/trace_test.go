package conduit

import (
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestARequestIsAPartOfTheTraceOfItsTask(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	p := newPhorge(t)
	e, _ := start(t, configured(p))
	task := p.leased()
	task.Traceparent = trace
	want(t, execute(t, e, task), tasks.Succeeded, "")
	want(t, execute(t, e, p.leased()), tasks.Succeeded, "")
	var seen []string
	for _, c := range p.calls {
		if c.mode == "run" {
			seen = append(seen, c.Header.Get("Traceparent"))
		} else if c.mode == "" && c.Header.Get("Traceparent") != "" {
			t.Errorf("%s, which is about no task, is a part of a trace", c.method)
		}
	}
	if len(seen) != 2 || seen[0] != trace || seen[1] != "" {
		t.Errorf("the requests carried %q", seen)
	}
	if several := newCall(e, []*job{{task: task}, {task: task}}).traceparent(); several != "" {
		t.Errorf("a call of several tasks is a part of the trace %s", several)
	}
}
