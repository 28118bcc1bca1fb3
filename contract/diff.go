package contract

import (
	"fmt"
	"slices"
)

// around is how many equal lines a diff shows beside those that differ.
const around = 3

// unified lists two texts line by line, as `diff -u` without its numbers: what
// both have, what only the first (-) and what only the second (+).
func unified(a, b []string) []string {
	begin := 0
	for begin < len(a) && begin < len(b) && a[begin] == b[begin] {
		begin++
	}
	end := 0
	for end < len(a)-begin && end < len(b)-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	lines := slices.Concat(
		prefixed(" ", a[:begin]),
		edits(a[begin:len(a)-end], b[begin:len(b)-end]),
		prefixed(" ", a[len(a)-end:]),
	)
	return shortened(lines)
}

// most bounds the lines for which the shortest list of edits is looked for.
const most = 2000

func edits(a, b []string) []string {
	if len(a) > most || len(b) > most {
		return slices.Concat(prefixed("-", a), prefixed("+", b))
	}
	common := make([][]int, len(a)+1) // of what is left: a[i:] and b[j:]
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	var lines []string
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			lines = append(lines, " "+a[i])
			i++
			j++
		case common[i+1][j] >= common[i][j+1]:
			lines = append(lines, "-"+a[i])
			i++
		default:
			lines = append(lines, "+"+b[j])
			j++
		}
	}
	return slices.Concat(lines, prefixed("-", a[i:]), prefixed("+", b[j:]))
}

func prefixed(sign string, lines []string) []string {
	signed := make([]string, len(lines))
	for i, line := range lines {
		signed[i] = sign + line
	}
	return signed
}

// shortened leaves out equal lines that are far from any other.
func shortened(lines []string) []string {
	var short []string
	left := 0
	for i, line := range lines {
		from, to := max(0, i-around), min(len(lines), i+around+1)
		near := slices.ContainsFunc(lines[from:to], func(line string) bool { return line[0] != ' ' })
		if !near {
			left++
			continue
		}
		if left > 0 {
			short = append(short, fmt.Sprintf("@@ %d equal lines @@", left))
			left = 0
		}
		short = append(short, line)
	}
	if left > 0 {
		short = append(short, fmt.Sprintf("@@ %d equal lines @@", left))
	}
	return short
}
