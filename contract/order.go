package contract

import (
	"cmp"
	"fmt"
	"strings"
)

// order sorts changes by table and key, numbers as numbers.
func order(a, b Change) int {
	return cmp.Or(cmp.Compare(a.Table, b.Table), natural(a.Key, b.Key))
}

// orderMasked does so without what is random in new PHIDs, so that chance does
// not decide which one is the first.
func orderMasked(a, b Change) int {
	by := cmp.Or(cmp.Compare(a.Table, b.Table), natural(masked(a.Key), masked(b.Key)), cmp.Compare(a.Kind, b.Kind))
	if by == 0 {
		by = natural(masked(contents(a)), masked(contents(b)))
	}
	return by
}

// natural compares texts, and the numbers in them as numbers.
func natural(a, b string) int {
	for a != "" && b != "" {
		x, y := leadingDigits(a), leadingDigits(b)
		if x == "" || y == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		xs, ys := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if c := cmp.Or(cmp.Compare(len(xs), len(ys)), cmp.Compare(xs, ys), cmp.Compare(len(x), len(y))); c != 0 {
			return c
		}
		a, b = a[len(x):], b[len(y):]
	}
	return cmp.Compare(len(a), len(b))
}

func leadingDigits(text string) string {
	return text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
}

func isNumber(text string) bool { return text != "" && leadingDigits(text) == text }

// contents are the values of a changed row in one text.
func contents(c Change) string {
	var b strings.Builder
	for _, name := range sorted(c.Columns) {
		fmt.Fprintf(&b, "%s %s\n", name, c.Columns[name])
	}
	return b.String()
}
