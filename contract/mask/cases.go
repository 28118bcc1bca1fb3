package mask

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/tasks"
)

// Case makes a case of a task and of the rows in tables that it refers to. look
// may be nil when there are no tables.
func (m *Masker) Case(ctx context.Context, name string, record tasks.Record, tables []Table, look Look) (contract.Case, error) {
	rows, err := follow(ctx, record, tables, look)
	if err != nil {
		return contract.Case{}, fmt.Errorf("task %d: %w", record.ID, err)
	}
	m.begin()
	c := contract.Case{
		Name:      name,
		TaskClass: record.Class,
		Data:      m.data(record.Data),
		Task: contract.TaskColumns{
			FailureCount:  record.FailureCount,
			ObjectPHID:    m.column(record.ObjectPHID),
			ContainerPHID: m.column(record.ContainerPHID),
		},
	}
	if record.Priority != tasks.PriorityDefault {
		c.Task.Priority = &record.Priority
	}
	for _, row := range rows {
		if c.World.Rows == nil {
			c.World.Rows = map[string][]contract.Row{}
		}
		table := row.Table.String()
		c.World.Rows[table] = append(c.World.Rows[table], m.row(row))
	}
	c.About = fmt.Sprintf("Made of a real task; %s.", m.summary())
	return c, nil
}

func (m *Masker) data(data []byte) string {
	if json.Valid(data) {
		return m.record(string(data))
	}
	return m.text("data", string(data))
}

func (m *Masker) column(phid *string) *string {
	if phid == nil {
		return nil
	}
	return new(m.text("task.phid", *phid))
}

// row masks a row. Whole numbers stay numbers.
func (m *Masker) row(row Row) contract.Row {
	masked := contract.Row{}
	for _, c := range row.Columns {
		at := place(row.Table.String()).in(c.Name)
		switch {
		case c.Value == nil:
			masked[c.Name] = nil
		case !c.Numeric:
			masked[c.Name] = m.text(at, *c.Value)
		default:
			masked[c.Name] = whole(m.number(at, *c.Value))
		}
	}
	return masked
}

// whole answers a number as one, and anything else, {{now-60}} for instance, as
// the text that it is.
func whole(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	return text
}

// Spread chooses n records, or all when there are fewer, so that their data is
// of as many different shapes as there are: one of each shape, the most frequent
// first, then another one of each.
func Spread(records []tasks.Record, n int) []tasks.Record {
	var shapes []string
	of := map[string][]tasks.Record{}
	for _, r := range records {
		s := shapeOf(r.Data)
		if of[s] == nil {
			shapes = append(shapes, s)
		}
		of[s] = append(of[s], r)
	}
	slices.SortStableFunc(shapes, func(a, b string) int { return len(of[b]) - len(of[a]) })
	var chosen []tasks.Record
	for round := 0; len(chosen) < min(n, len(records)); round++ {
		for _, s := range shapes {
			if round < len(of[s]) && len(chosen) < n {
				chosen = append(chosen, of[s][round])
			}
		}
	}
	return chosen
}

// shapeOf answers what the data of two tasks has in common when they are of one
// shape: keys, types, and what kind of thing a text is.
func shapeOf(data []byte) string {
	var value any
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	if !json.Valid(data) || d.Decode(&value) != nil {
		return "no JSON"
	}
	return shapeOfValue("data", value)
}

func shapeOfValue(at place, value any) string {
	switch v := value.(type) {
	case map[string]any:
		var parts []string
		for key, of := range v {
			name := key
			if at != "data" || !identifier.MatchString(key) {
				name = shapeOfText(key)
			}
			parts = append(parts, name+":"+shapeOfValue(at.in(key), of))
		}
		slices.Sort(parts)
		return "{" + strings.Join(slices.Compact(parts), ",") + "}"
	case []any:
		var parts []string
		for _, of := range v {
			parts = append(parts, shapeOfValue(at, of))
		}
		slices.Sort(parts)
		return "[" + strings.Join(slices.Compact(parts), ",") + "]"
	case string:
		return shapeOfText(v)
	case json.Number:
		if wholeNumber.MatchString(v.String()) {
			return "number"
		}
		return "fraction"
	}
	return fmt.Sprint(value) // true, false, nil
}

// shapeOfText answers the kind of a text: a word of Phorge's itself, a PHID by
// what it is of, or which kinds of characters are in it.
func shapeOfText(text string) string {
	switch {
	case kept(text):
		return text
	case onlyPHIDs.FindString(text) == text:
		return text[:strings.LastIndexByte(text, '-')]
	case wholeNumber.MatchString(text):
		return "digits"
	case found.MatchString(text):
		return "address"
	}
	shape := "text"
	for _, class := range classes[3:] {
		if strings.ContainsFunc(text, class.has) {
			shape += " with " + class.name
		}
	}
	return shape
}
