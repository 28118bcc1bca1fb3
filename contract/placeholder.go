package contract

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	// placeholder is one, or what was meant to be one.
	placeholder = regexp.MustCompile(`\{\{([^{}]*)\}\}`)

	// moment is what stands in the braces for an epoch.
	moment = regexp.MustCompile(`^now(?:([+-])([0-9]{1,9}))?$`)
)

// expand replaces the placeholders of a text by what means answers for them.
func expand(text string, means func(name string) (string, error)) (string, error) {
	var b strings.Builder
	for {
		open := strings.Index(text, "{{")
		if open < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		at := placeholder.FindStringSubmatchIndex(text[open:])
		if at == nil || at[0] != 0 {
			return "", fmt.Errorf("%.40q begins a placeholder and does not end it; there are {{now}}, {{now-300}}, {{now+60}}, {{receiver NAME}} and {{closed}}", text[open:])
		}
		value, err := means(text[open+at[2] : open+at[3]])
		if err != nil {
			return "", err
		}
		b.WriteString(text[:open])
		b.WriteString(value)
		text = text[open+at[1]:]
	}
}

// means answers what the name of a placeholder stands for.
func (f Frame) means(name string) (string, error) {
	if m := moment.FindStringSubmatch(name); m != nil {
		seconds, _ := strconv.ParseInt(m[1]+m[2], 10, 64)
		return strconv.FormatInt(f.Start+seconds, 10), nil
	}
	if name == "closed" {
		return f.Closed, nil
	}
	receiver, ok := strings.CutPrefix(name, "receiver ")
	if !ok {
		return "", fmt.Errorf("unknown placeholder {{%s}}; there are {{now}}, {{now-300}}, {{now+60}}, {{receiver NAME}} and {{closed}}", name)
	}
	address, ok := f.Receivers[receiver]
	if !ok {
		names := strings.Join(slices.Sorted(maps.Keys(f.Receivers)), ", ")
		return "", fmt.Errorf("{{%s}} names a receiver that the world does not have; it has: %s", name, cmp.Or(names, "none"))
	}
	return address, nil
}

// path leads to a text of a case: keys and indices.
type path []any

func (p path) add(steps ...any) path { return append(slices.Clip(p), steps...) }

// String writes it as a person would: world.rows.herald.herald_webhook[0].name.
func (p path) String() string {
	var b strings.Builder
	for i, step := range p {
		switch {
		case i == 0:
			fmt.Fprint(&b, step)
		case isIndex(step):
			fmt.Fprintf(&b, "[%d]", step)
		default:
			fmt.Fprintf(&b, ".%v", step)
		}
	}
	return b.String()
}

func isIndex(step any) bool { _, ok := step.(int); return ok }

// mapTexts answers a copy of the case in which every text that may hold
// placeholders is what change made of it. It shares nothing with the case.
func (c Case) mapTexts(change func(at path, text string) string) Case {
	c.Data = change(path{"data"}, c.Data)
	optional := func(name string, text *string) *string {
		if text == nil {
			return nil
		}
		changed := change(path{"task", name}, *text)
		return &changed
	}
	c.Task.ObjectPHID = optional("objectPHID", c.Task.ObjectPHID)
	c.Task.ContainerPHID = optional("containerPHID", c.Task.ContainerPHID)
	c.World = c.World.mapTexts(path{"world"}, change)
	return c
}

func (w World) mapTexts(at path, change func(at path, text string) string) World {
	var mapped World
	if len(w.Options) > 0 {
		mapped.Options = mapValue(at.add("options"), w.Options, change).(map[string]any)
	}
	for i, lock := range w.Locks {
		mapped.Locks = append(mapped.Locks, change(at.add("locks", i), lock))
	}
	for _, table := range slices.Sorted(maps.Keys(w.Rows)) {
		var rows []Row
		for i, row := range w.Rows[table] {
			rows = append(rows, mapValue(at.add("rows", table, i), map[string]any(row), change).(map[string]any))
		}
		put(&mapped.Rows, table, rows)
	}
	for _, name := range slices.Sorted(maps.Keys(w.Receivers)) {
		receiver := w.Receivers[name]
		answers := receiver.Answers
		receiver.Answers = nil
		for i, answer := range answers {
			receiver.Answers = append(receiver.Answers, answer.mapTexts(at.add("receivers", name, "answers", i), change))
		}
		put(&mapped.Receivers, name, receiver)
	}
	return mapped
}

func (a Answer) mapTexts(at path, change func(at path, text string) string) Answer {
	headers := a.Headers
	a.Headers = nil
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		put(&a.Headers, name, change(at.add("headers", name), headers[name]))
	}
	a.Body = change(at.add("body"), a.Body)
	return a
}

// mapValue does so in what YAML has: texts, lists, maps, and what holds no text.
func mapValue(at path, value any, change func(at path, text string) string) any {
	switch value := value.(type) {
	case string:
		return change(at, value)
	case []any:
		mapped := make([]any, len(value))
		for i, item := range value {
			mapped[i] = mapValue(at.add(i), item, change)
		}
		return mapped
	case map[string]any:
		mapped := make(map[string]any, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			mapped[key] = mapValue(at.add(key), value[key], change)
		}
		return mapped
	}
	return value
}

// put sets a key of a map that may not be there yet.
func put[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = value
}
