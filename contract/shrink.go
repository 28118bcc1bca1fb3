package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Shrink makes a case that differs smaller for as long as it differs: it leaves
// out tables, rows, columns, options, receivers, answers, headers, locks and
// members of JSON, and shortens texts. What is left is smallest in that nothing
// alone can go. The calls of differs are of the order of the parts that the case
// has, squared at worst; it ends early when differs answers false from then on.
func Shrink(c Case, differs func(Case) bool) Case {
	for again := true; again; {
		again = false
		for i, all := 0, reductions(c); i < len(all); {
			if smaller, ok := c.reduced(all[i]); ok && differs(smaller) {
				c, all, again = smaller, reductions(smaller), true
				continue // those before it did not help, and will hardly do so now
			}
			i++
		}
	}
	return c
}

// SmallerOf names what Shrink made of a case, and says where it comes from.
func SmallerOf(c, smaller Case) Case {
	smaller.Name = strings.TrimRight(c.Name[:min(len(c.Name), maxName-len("-small"))], "-") + "-small"
	smaller.About = fmt.Sprintf("Made smaller from the case %s by gantry contract live --shrink.", c.Name)
	return smaller
}

// Pair is what both sides made of a case, and in what they differ.
type Pair struct {
	Want, Got   Observation
	Differences []Difference
}

// Kin reports whether two cases differ in the same way: each side came to the same
// kind of outcome, and one of the differences at least is in the same field.
// Otherwise a smaller case would be about something else, such as that a handler
// declines what is left.
func (p Pair) Kin(other Pair) bool {
	if p.Want.Outcome.Kind != other.Want.Outcome.Kind || p.Got.Outcome.Kind != other.Got.Outcome.Kind {
		return false
	}
	return slices.ContainsFunc(other.Differences, func(d Difference) bool {
		return slices.ContainsFunc(p.Differences, func(mine Difference) bool { return mine.place() == d.place() })
	})
}

// inList is which one of a list a field leads to, and inTable which row.
var (
	inList  = regexp.MustCompile(`\[[0-9]+\]`)
	inTable = regexp.MustCompile(`^(changes\[\S+) [^\]]*\]`)
)

// place is the field, whichever row or request it is of: a smaller case has fewer.
func (d Difference) place() string {
	return inTable.ReplaceAllString(inList.ReplaceAllString(d.Field, "[]"), "$1]")
}

// reduction takes one thing away from a case that is a copy.
type reduction func(c *Case)

// reduced answers a smaller copy of the case; ok is false for one that LoadFolder
// would refuse, for a placeholder that stands for nothing any more.
func (c Case) reduced(change reduction) (smaller Case, ok bool) {
	same := func(_ path, text string) string { return text }
	smaller = c.mapTexts(same)
	change(&smaller)
	smaller = smaller.mapTexts(same) // which leaves out what is empty
	frame := Frame{Case: smaller, Receivers: map[string]string{}}
	for name := range smaller.World.Receivers {
		frame.Receivers[name] = name
	}
	_, err := frame.Expand()
	return smaller, err == nil
}

// reductions are the ways to make a case smaller by one thing, the greater
// things first.
func reductions(c Case) []reduction {
	r := &reducer{of: c}
	r.world()
	r.task()
	r.texts()
	return r.found
}

type reducer struct {
	of    Case
	found []reduction
}

func (r *reducer) try(change reduction) { r.found = append(r.found, change) }

func (r *reducer) world() {
	w := r.of.World
	for _, table := range sorted(w.Rows) {
		r.try(func(c *Case) { delete(c.World.Rows, table) })
	}
	for _, name := range sorted(w.Options) {
		r.try(func(c *Case) { delete(c.World.Options, name) })
		list, _ := w.Options[name].([]any)
		for i := range list {
			r.try(func(c *Case) { c.World.Options[name] = slices.Delete(c.World.Options[name].([]any), i, i+1) })
		}
	}
	for i := range w.Locks {
		r.try(func(c *Case) { c.World.Locks = slices.Delete(c.World.Locks, i, i+1) })
	}
	for _, name := range sorted(w.Receivers) {
		r.try(func(c *Case) { delete(c.World.Receivers, name) })
		r.receiver(name)
	}
	for _, table := range sorted(w.Rows) {
		for i := range w.Rows[table] {
			r.try(func(c *Case) { c.World.Rows[table] = slices.Delete(c.World.Rows[table], i, i+1) })
		}
		for i, row := range w.Rows[table] {
			for _, column := range sorted(row) {
				r.try(func(c *Case) { delete(c.World.Rows[table][i], column) })
			}
		}
	}
}

func (r *reducer) receiver(name string) {
	change := func(do func(receiver *Receiver)) {
		r.try(func(c *Case) {
			receiver := c.World.Receivers[name]
			do(&receiver)
			c.World.Receivers[name] = receiver
		})
	}
	if r.of.World.Receivers[name].TLS {
		change(func(receiver *Receiver) { receiver.TLS = false })
	}
	for i, answer := range r.of.World.Receivers[name].Answers {
		change(func(receiver *Receiver) { receiver.Answers = slices.Delete(receiver.Answers, i, i+1) })
		for _, header := range sorted(answer.Headers) {
			change(func(receiver *Receiver) { delete(receiver.Answers[i].Headers, header) })
		}
		if answer.Delay > 0 {
			change(func(receiver *Receiver) { receiver.Answers[i].Delay = 0 })
		}
		if answer.Status > 0 {
			change(func(receiver *Receiver) { receiver.Answers[i].Status = 0 })
		}
	}
}

func (r *reducer) task() {
	if r.of.Task.FailureCount > 0 {
		r.try(func(c *Case) { c.Task.FailureCount = 0 })
	}
	if r.of.Task.Priority != nil {
		r.try(func(c *Case) { c.Task.Priority = nil })
	}
	if r.of.Task.ObjectPHID != nil {
		r.try(func(c *Case) { c.Task.ObjectPHID = nil })
	}
	if r.of.Task.ContainerPHID != nil {
		r.try(func(c *Case) { c.Task.ContainerPHID = nil })
	}
}

// texts shortens each text of the case. An option's name, or a class, is none.
func (r *reducer) texts() {
	r.of.mapTexts(func(at path, text string) string {
		for _, shorter := range shorten(text) {
			r.try(func(c *Case) {
				*c = c.mapTexts(func(where path, text string) string {
					if slices.Equal(where, at) {
						return shorter
					}
					return text
				})
			})
		}
		return text
	})
}

// shorten answers shorter texts, the shortest first. JSON stays JSON, so that
// the case goes on to be about the same thing.
func shorten(text string) []string {
	if text == "" {
		return nil
	}
	if members, ok := withoutMembers(text); ok {
		return members
	}
	half := len(text) / 2
	for half > 0 && !utf8.RuneStart(text[half]) {
		half--
	}
	_, last := utf8.DecodeLastRuneInString(text)
	shorter := []string{"", text[:half], text[half:], text[:len(text)-last]}
	slices.SortStableFunc(shorter, func(a, b string) int { return len(a) - len(b) })
	return slices.DeleteFunc(slices.Compact(shorter), func(s string) bool { return len(s) >= len(text) })
}

// withoutMembers answers a JSON object or list with one member less, at any
// depth; ok is false for any other text. What stays is kept to the byte.
func withoutMembers(text string) (shorter []string, ok bool) {
	if !json.Valid([]byte(text)) || !strings.ContainsAny(text[:1], "{[") {
		return nil, false
	}
	for _, span := range members([]byte(text)) {
		shorter = append(shorter, text[:span.from]+text[span.to:])
	}
	return shorter, true
}

// span is a part of a text.
type span struct{ from, to int }

// members finds the members of a JSON value and of those in it, each with the
// comma that goes with it; outer ones come first.
func members(text []byte) []span {
	var outer, inner []span
	decoder := json.NewDecoder(bytes.NewReader(text))
	open, err := decoder.Token()
	if _, isDelim := open.(json.Delim); err != nil || !isDelim {
		return nil
	}
	begin := int(decoder.InputOffset())
	for decoder.More() {
		if open == json.Delim('{') {
			if _, err := decoder.Token(); err != nil {
				return nil
			}
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil
		}
		end := int(decoder.InputOffset())
		outer = append(outer, span{begin, end})
		for _, s := range members(value) {
			inner = append(inner, span{end - len(value) + s.from, end - len(value) + s.to})
		}
		begin = end
	}
	// The first member has no comma before it, so it takes the one behind it.
	if len(outer) > 1 {
		outer[0].to += bytes.IndexByte(text[outer[0].to:], ',') + 1
	}
	return append(outer, inner...)
}
