package tasks

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestOwnersOfCallersCarryNameAndFence(t *testing.T) {
	for _, c := range []Caller{
		{"w", 1}, {"10.0.0.7", 131072000000001}, {"a#b#c", 35}, {"with space", 36}, {strings.Repeat("x", MaxCaller), math.MaxInt64},
	} {
		owner := c.String()
		if err := c.Check(); err != nil || len(owner) > 64 {
			t.Errorf("%q: %d bytes, %v", owner, len(owner), err)
		}
		if got, ok := ParseCaller(owner); !ok || got != c {
			t.Errorf("%q is read as %+v, %t", owner, got, ok)
		}
	}
}

func TestOwnersOfOthersAreNoCallers(t *testing.T) {
	for _, owner := range []string{
		"", "w", "w#", "w#-1", "w#0", "w#01", "w#A", "#1", "(yield)", "(retry):1#2", "1234:1700000000:host:1",
		Owner{Fence: 1, Nonce: "n", Host: "h#1"}.String(), "é#1", strings.Repeat("x", MaxCaller+1) + "#1",
	} {
		if c, ok := ParseCaller(owner); ok {
			t.Errorf("%q is read as %+v", owner, c)
		}
	}
}

func TestNamesThatWouldBeTakenForSomethingElseAreRefused(t *testing.T) {
	for _, name := range []string{"", "(yield)", "gantry:1:0:n:h", "a\nb", "é", "a\x7f", strings.Repeat("x", MaxCaller+1)} {
		if err := (Caller{Name: name}).Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
