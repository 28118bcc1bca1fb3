package tasks_test

import (
	"errors"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
)

const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceparentIsReadAsW3CSays(t *testing.T) {
	for _, c := range []struct{ what, header, kept string }{
		{"as it is", trace, trace},
		{"not sampled", trace[:53] + "00", trace[:53] + "00"},
		{"nothing", "", ""},
		{"too short", trace[:54], ""},
		{"version 00 with more", trace + "-what", ""},
		{"a later version", "cc" + trace[2:], trace},
		{"a later version with more", "cc" + trace[2:] + "-what the future will be", trace},
		{"a later version with something else behind it", "cc" + trace[2:] + ".what", ""},
		{"version ff", "ff" + trace[2:], ""},
		{"capitals", "00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", ""},
		{"no trace", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", ""},
		{"no span", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", ""},
		{"other dashes", "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", ""},
		{"a letter that is no digit", "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01", ""},
	} {
		if kept := tasks.Traceparent(c.header); kept != c.kept {
			t.Errorf("%s: %q is kept as %q, want %q", c.what, c.header, kept, c.kept)
		}
	}
}

func TestTaskWithATraceparentThatIsNoneIsInvalid(t *testing.T) {
	n := tasks.NewTask{Class: "A", Data: []byte("{}"), Traceparent: trace}
	if err := n.Validate(); err != nil {
		t.Errorf("a trace context is refused: %v", err)
	}
	for _, bad := range []string{trace[:54], "cc" + trace[2:], " " + trace} {
		if n.Traceparent = bad; !errors.Is(n.Validate(), tasks.ErrInvalid) {
			t.Errorf("%q is accepted", bad)
		}
	}
}
