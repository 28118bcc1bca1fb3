package contract

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestADiffHoldsBothTexts(t *testing.T) {
	lines := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "-c", "+d"}), 0, 12)
	rapid.Check(t, func(t *rapid.T) {
		a, b := lines.Draw(t, "a"), lines.Draw(t, "b")
		var first, second []string
		for _, line := range edits(a, b) {
			sign, text := line[:1], line[1:]
			if sign != "+" {
				first = append(first, text)
			}
			if sign != "-" {
				second = append(second, text)
			}
		}
		if !slices.Equal(first, a) || !slices.Equal(second, b) {
			t.Errorf("%q and %q", first, second)
		}
		changed := slices.ContainsFunc(unified(a, b), func(line string) bool { return strings.ContainsAny(line[:1], "-+") })
		if changed == slices.Equal(a, b) {
			t.Errorf("the diff is %q", unified(a, b))
		}
	})
}

func TestLongTextsAreComparedInGoodTime(t *testing.T) {
	long := slices.Repeat([]string{"line"}, 3*most)
	other := slices.Clone(long)
	for i := range other {
		if i%2 == 0 {
			other[i] = "other"
		}
	}
	if got := unified(long, other); len(got) < most || got[0] != "-line" {
		t.Errorf("%d lines, the first is %q", len(got), got[0])
	}
	other = slices.Clone(long)
	other[most] = "other"
	if got := unified(long, other); len(got) != 2*around+4 {
		t.Errorf("one line differs: %q", got)
	}
}
