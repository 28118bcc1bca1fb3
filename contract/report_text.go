package contract

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Colours of a terminal. What PHP did is red and what Go did green, as in a diff
// from what was to what is.
const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	reset = "\x1b[0m"
)

// Text writes the report for a person: what differs case by case and field by
// field, and a line that sums it up. Colours are for a terminal only.
func (r Report) Text(w io.Writer, colour bool) error {
	b := bufio.NewWriter(w)
	for _, result := range r.Results {
		if result.Status() != StatusEqual {
			b.WriteString(result.text(colour) + "\n")
		}
	}
	fmt.Fprintln(b, r.summary())
	return b.Flush()
}

func (r Result) text(colour bool) string {
	paint := func(how, text string) string {
		if !colour {
			return text
		}
		return how + text + reset
	}
	var b strings.Builder
	fmt.Fprintln(&b, paint(bold, r.Case.Name+" ("+r.Case.TaskClass+")"))
	if r.Case.About != "" {
		fmt.Fprintln(&b, "  "+visible(r.Case.About))
	}
	switch r.Status() {
	case StatusError:
		fmt.Fprintln(&b, "  "+strings.TrimSpace(indented("could not run: "+visible(r.Err.Error()))))
	case StatusOutdated:
		fmt.Fprintln(&b, "  "+visible(r.Err.Error()))
	}
	b.WriteString(listed(r.Differences, r.wanted(), "  ", paint))
	if len(r.Reasons) > 0 {
		fmt.Fprintln(&b, "  Why, in their own words, which are not compared:")
	}
	for _, reason := range r.Reasons {
		fmt.Fprintln(&b, "    "+strings.TrimSpace(indented(visible(reason.Who+": "+reason.bounded()))))
	}
	if len(r.Printed) > 0 {
		fmt.Fprintln(&b, "  The handler printed:")
	}
	for _, line := range bounded(r.Printed) {
		fmt.Fprintln(&b, "    "+visible(line))
	}
	if r.Shrunk != nil {
		content, err := EncodeCases([]Case{r.Shrunk.Case})
		if err != nil {
			content = []byte(err.Error())
		}
		fmt.Fprint(&b, "  A smaller case differs in this way, too. It stands for itself, so put it into a folder without world.yaml:\n"+
			indented(visible(string(content)))+"  It differs in\n")
		b.WriteString(listed(r.Shrunk.Differences, r.wanted(), "    ", paint))
	}
	return b.String()
}

// listed are differences as lines, each field above what stands there.
func listed(differences []Difference, wanted, indent string, paint func(how, text string) string) string {
	var b strings.Builder
	for _, d := range differences {
		fmt.Fprintln(&b, indent+visible(d.Field))
		for _, line := range d.lines(wanted) {
			how := map[byte]string{'-': red, '+': green}[line[0]]
			if how == "" {
				fmt.Fprintln(&b, indent+"  "+line)
				continue
			}
			fmt.Fprintln(&b, indent+"  "+paint(how, line))
		}
	}
	return b.String()
}

// lines show a difference for a person, under the names of what was held against
// what.
func (d Difference) lines(wanted string) []string {
	if strings.HasPrefix(d.Field, InShadow) {
		return d.Lines("Sent", "Noted")
	}
	return d.Lines(wanted, "Go")
}

// Lines show a difference under two names: short values beside them, longer texts
// line by line with what they have in common. A sentence has none.
func (d Difference) Lines(wanted, got string) []string {
	if d.Want == nil && d.Got == nil {
		return nil
	}
	if d.Want == nil || d.Got == nil || !strings.Contains(*d.Want+*d.Got, "\n") {
		width := max(len(wanted), len(got)) + 1
		lines := append(
			beside("- ", fmt.Sprintf("%-*s ", width, wanted+":"), d.Want),
			beside("+ ", fmt.Sprintf("%-*s ", width, got+":"), d.Got)...)
		return append(lines, pointer(lines)...)
	}
	lines := []string{"--- " + wanted, "+++ " + got}
	quote := isSubtle(*d.Want) || isSubtle(*d.Got)
	return append(lines, unified(linesOf(*d.Want, quote), linesOf(*d.Got, quote))...)
}

// What a report repeats of reasons and of printed lines. The stack of a panic
// fits.
const (
	maxLines = 40
	maxBytes = 400 // of each line
)

func (r Reason) bounded() string { return strings.Join(bounded(strings.Split(r.Text, "\n")), "\n") }

// bounded keeps the first lines, which say what the matter is, and the last.
func bounded(lines []string) []string {
	if left := len(lines) - maxLines; left > 0 {
		lines = slices.Concat(lines[:maxLines/2], []string{fmt.Sprintf("… %d more lines …", left)}, lines[len(lines)-maxLines/2:])
	}
	lines = slices.Clone(lines)
	for i, line := range lines {
		if len(line) > maxBytes {
			lines[i] = strings.ToValidUTF8(line[:maxBytes], "") + "…"
		}
	}
	return lines
}

// terminal is how wide a line may be for something to stand below a part of it.
const terminal = 100

// pointer shows where two long lines begin to differ.
func pointer(lines []string) []string {
	if len(lines) != 2 {
		return nil
	}
	from := strings.IndexByte(lines[0], ':') + 1
	a, b := []rune(lines[0]), []rune(lines[1])
	same := from
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	switch {
	case same < from+40:
		return nil
	case max(len(a), len(b)) > terminal:
		return []string{"  equal up to …" + string(a[same-30:same])}
	}
	return []string{strings.Repeat(" ", same) + "^"}
}

func beside(sign, name string, value *string) []string {
	if value == nil {
		return []string{sign + name + "nothing"}
	}
	if !strings.Contains(*value, "\n") || isSubtle(*value) {
		return []string{sign + name + quoted(value)}
	}
	lines := []string{sign + strings.TrimSpace(name)}
	for _, line := range linesOf(*value, false) {
		lines = append(lines, sign+"  "+line)
	}
	return lines
}

// noNewline stands, as in a diff, behind a last line without a newline.
const noNewline = `\ No newline at the end`

func linesOf(text string, quote bool) []string {
	var lines []string
	for line := range strings.Lines(text) {
		switch whole, ended := strings.CutSuffix(line, "\n"); {
		case quote:
			lines = append(lines, strconv.Quote(line))
		case ended:
			lines = append(lines, whole)
		default:
			lines = append(lines, whole, noNewline)
		}
	}
	return lines
}

// isSubtle reports whether lines of a text hold what nobody sees.
func isSubtle(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.ContainsFunc(line, isSpecial) || strings.TrimRight(line, " ") != line {
			return true
		}
	}
	return false
}

// visible writes what a terminal, or XML, would not show as it is.
func visible(text string) string {
	var b strings.Builder
	for i, r := range text {
		if r == '\n' || !isSpecial(r) {
			b.WriteRune(r)
			continue
		}
		escaped := strconv.QuoteToASCII(text[i : i+len(string(r))])
		if r == '\uFFFD' && text[i] != "\uFFFD"[0] {
			escaped = strconv.QuoteToASCII(text[i : i+1])
		}
		b.WriteString(escaped[1 : len(escaped)-1])
	}
	return b.String()
}

func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + line)
	}
	return b.String()
}
