package tasks

import (
	"strings"
	"testing"
)

// What json_decode of PHP 8.2 answered to each was recorded.
func TestB18DataThatPHPReadsAsNullIsRefused(t *testing.T) {
	nested := func(open, inner, closing string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(closing, n)
	}
	for _, c := range []struct {
		name, data string
		read       bool
	}{
		{"a pair", `"\ud83d\ude00"`, true},
		{"half a pair", `"\ud800"`, false},
		{"the other half", `"\udc00"`, false},
		{"half a pair before text", `"\ud800x"`, false},
		{"half a pair before another escape", `"\ud800\u0041"`, false},
		{"half a pair before a pair", `"\uD800\uD800\uDC00"`, false},
		{"half a pair in a key", `{"\ud800":1}`, false},
		{"an escaped backslash before what is no escape", `"\\ud800"`, true},
		{"brackets in a string", `"` + strings.Repeat("[", 600) + `\""`, true},
		{"NUL in a key", `{"\u0000a":1}`, true},
		{"511 lists", nested("[", "1", "]", 511), true},
		{"512 lists", nested("[", "", "]", 512), false},
		{"512 maps", nested(`{"a":`, "1", "}", 512), false},
		{"600 lists beside each other", "[" + strings.Repeat("[],", 600) + "[]]", true},
		{"not UTF-8", "\"\x83\x65\"", false},
		{"cut", `{"a":`, false},
		{"nothing", "", false},
	} {
		if err := (NewTask{Class: "A", Data: []byte(c.data)}).Validate(); (err == nil) != c.read {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestOwnersThatNobodyWroteCountNoCrashes(t *testing.T) {
	for _, owner := range []string{"(retry):-1:-1", "(retry):1:", "(yield)", "", "1:2:3", "gantry:1:-5:n:h"} {
		if n := Crashes(owner); n != 0 {
			t.Errorf("%q counts %d crashes", owner, n)
		}
	}
}
