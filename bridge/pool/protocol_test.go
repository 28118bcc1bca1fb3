package pool

import (
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestAnAnswerThatBreaksTheProtocolCostsItsProcess(t *testing.T) {
	p, _ := startReady(t, Config{})
	for _, c := range []struct{ name, do, text, want string }{
		{"another request", "frame", `{"type":"outcome","request":"0123456789abcdef0123456789abcdef","outcome":{"kind":"succeeded"}}`,
			`it answered request "0123456789abcdef0123456789abcdef", which it has not got`},
		{"started for another request", "frame", `{"type":"started","request":"","lease":5}`, `it answered request "", which it has not got`},
		{"ready again", "frame", `{"type":"ready","protocol":1}`, "it said twice that it is ready"},
		{"an unknown type", "frame", `{"type":"hello"}`, `its type is "hello"`},
		{"a header that is no JSON", "frame", `{"type":`, `read the header "{\"type\":"`},
		{"a header that is a list", "frame", `[]`, `read the header "[]"`},
		{"a lease that is no integer", "frame", `{"type":"started","request":"REQUEST","lease":1.5}`, "1.5 is no whole number"},
		{"text", "say", "PHP Warning:  Module already loaded", `it begins with "PHP Warn"`},
		{"a header that is too long", "say", "\x00\x10\x00\x01\x00\x00\x00\x00", `it begins with "\x00\x10\x00\x01`},
		{"a body that is too long", "say", "\x00\x00\x00\x01\x10\x00\x00\x01", `it begins with "\x00\x00\x00\x01\x10`},
		{"no header", "say", strings.Repeat("\x00", 8), "it begins with"},
	} {
		got := run(t.Context(), p, map[string]any{"do": c.do, "text": c.text})
		if got.Kind != tasks.Crashed || !strings.Contains(got.Reason, "broke the protocol and was killed: ") || !strings.Contains(got.Reason, c.want) {
			t.Errorf("%s: %s: %s", c.name, got.Kind, got.Reason)
		}
		want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
	}
}

func TestATaskThatStartsTwiceCostsItsProcess(t *testing.T) {
	p, _ := startReady(t, Config{})
	got := run(t.Context(), p, map[string]any{"do": "frame", "text": `{"type":"started","request":"REQUEST","lease":5}`, "times": 3})
	want(t, got, tasks.Crashed, "it said twice that the task has started")
}

func TestHalfAnAnswerIsNone(t *testing.T) {
	p, _ := startReady(t, Config{})
	want(t, run(t.Context(), p, map[string]any{"do": "half an answer"}), tasks.Crashed, "ended: exit status 5")
	want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
}

func TestASecondAnswerCostsTheProcessAndNoTask(t *testing.T) {
	p, _ := startReady(t, Config{})
	before := pids(p, Idle)[0]
	want(t, run(t.Context(), p, map[string]any{"do": "answer twice"}), tasks.Succeeded, "")
	eventually(t, "another process is ready", func() bool { now := pids(p, Idle); return len(now) == 1 && now[0] != before })
	if got := p.State().Problem; !strings.Contains(got, "which it has not got") {
		t.Errorf("the problem is %q", got)
	}
}
