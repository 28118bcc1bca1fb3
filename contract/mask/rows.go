package mask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/phorge-gantry/gantry/tasks"
)

// Table is a table whose rows come along with the tasks that refer to them.
type Table struct {
	Database string // the application: herald for <namespace>_herald
	Name     string

	// Column is what the data refers to the rows by: phid, which is that of the
	// row's own object, or another one.
	Column string
}

var tableName = regexp.MustCompile(`\A([a-z][a-z0-9]*)\.([A-Za-z0-9_]+)(?:\.([A-Za-z0-9_]+))?\z`)

// ParseTable reads database.table, or database.table.column where the data
// refers to the rows by something else than their PHID.
func ParseTable(text string) (Table, error) {
	match := tableName.FindStringSubmatch(text)
	if match == nil {
		return Table{}, fmt.Errorf("%q is no table; it is something like herald.herald_webhookrequest, "+
			"or feed.feed_storydata.chronologicalKey for rows that are found by that column", text)
	}
	t := Table{match[1], match[2], match[3]}
	if t.Column == "" {
		t.Column = "phid"
	}
	return t, nil
}

func (t Table) String() string { return t.Database + "." + t.Name }

// Row is a row of a table, by its columns in the order of the table.
type Row struct {
	Table   Table
	Columns []Column
}

// Column is one column of a row.
type Column struct {
	Name    string
	Value   *string // nil for NULL
	Numeric bool    // the type of the column is
}

// Look answers the rows of a table that have one of some values in its Column.
type Look func(ctx context.Context, table Table, values []string) ([]Row, error)

// maxRows is how many rows come along with a task: what refers to more is no
// case that anybody reads.
const maxRows = 200

// ErrTooMany says that a task refers to more rows than a case can hold.
var ErrTooMany = errors.New("too many rows")

// follow answers the rows that a task refers to, and those that they refer to by
// PHID, as far as they are in the tables.
func follow(ctx context.Context, record tasks.Record, tables []Table, look Look) ([]Row, error) {
	asked := map[string]bool{} // by table and value
	seen := map[string]bool{}
	var all []Row
	for values := refersTo(record); len(values) > 0; {
		var next []string
		for _, table := range tables {
			unasked := slices.DeleteFunc(slices.Clone(values), func(value string) bool {
				key := table.String() + "\x00" + table.Column + "\x00" + value
				was := asked[key]
				asked[key] = true
				return was || table.Column == "phid" && !onlyPHIDs.MatchString(value)
			})
			if len(unasked) == 0 {
				continue
			}
			found, err := look(ctx, table, unasked)
			if err != nil {
				return nil, fmt.Errorf("look for rows of %s: %w", table, err)
			}
			for _, row := range found {
				text := fmt.Sprintf("%q", row.texts())
				if seen[text] {
					continue
				}
				seen[text] = true
				if all = append(all, row); len(all) > maxRows {
					return nil, fmt.Errorf("%w: the task refers to more than %d, the last ones in %s; leave out a table",
						ErrTooMany, maxRows, table)
				}
				next = append(next, row.phids()...)
			}
		}
		values = next
	}
	return all, nil
}

// refersTo answers what can name a row in a task: its PHIDs, and the texts and
// numbers of its data.
func refersTo(record tasks.Record) []string {
	values := map[string]bool{}
	for _, phid := range []*string{record.ObjectPHID, record.ContainerPHID} {
		if phid != nil {
			values[*phid] = true
		}
	}
	for _, phid := range onlyPHIDs.FindAllString(string(record.Data), -1) {
		values[phid] = true
	}
	var data any
	d := json.NewDecoder(strings.NewReader(string(record.Data)))
	d.UseNumber()
	if err := d.Decode(&data); err == nil {
		scalars(data, values)
	}
	return slices.Sorted(maps.Keys(values))
}

// scalars collects the texts and numbers of decoded JSON, keys too. What is
// longer than a PHID names no row.
func scalars(value any, into map[string]bool) {
	add := func(text string) {
		if text != "" && len(text) <= 64 {
			into[text] = true
		}
	}
	switch v := value.(type) {
	case map[string]any:
		for key, of := range v {
			add(key)
			scalars(of, into)
		}
	case []any:
		for _, of := range v {
			scalars(of, into)
		}
	case string:
		add(v)
	case json.Number:
		add(v.String())
	}
}

func (r Row) texts() []string {
	texts := []string{r.Table.String()}
	for _, c := range r.Columns {
		if c.Value == nil {
			texts = append(texts, "")
			continue
		}
		texts = append(texts, "="+*c.Value)
	}
	return texts
}

func (r Row) phids() (phids []string) {
	for _, c := range r.Columns {
		if c.Value != nil {
			phids = append(phids, onlyPHIDs.FindAllString(*c.Value, -1)...)
		}
	}
	return phids
}
