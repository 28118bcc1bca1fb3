package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/phorge-gantry/gantry/tasks"
)

// Difference is one thing in which an observation is not the wanted one.
type Difference struct {
	// Field leads to it, as outcome.kind, requests[2].headers[User-Agent], or
	// changes[herald.herald_webhookrequest 1].status.after.
	Field string

	// Want and Got are what stands there; nil where nothing does, and for NULL.
	// A part that only one of the two has, such as a request, is written as YAML.
	// Where neither stands, the field is a sentence that says what is wrong.
	Want, Got *string
}

// String writes the difference in a line.
func (d Difference) String() string {
	if d.Want == nil && d.Got == nil {
		return d.Field
	}
	return fmt.Sprintf("%s: want %s, got %s", d.Field, quoted(d.Want), quoted(d.Got))
}

// MarshalJSON writes field, want and got; a value is a text, null, or
// {"base64": …} of bytes that are not UTF-8.
func (d Difference) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(struct {
		Field string `json:"field"`
		Want  *value `json:"want"`
		Got   *value `json:"got"`
	}{d.Field, (*value)(d.Want), (*value)(d.Got)})
	return b.Bytes(), err
}

// value is a text that JSON holds exactly.
type value string

func (v value) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(v)) {
		return json.Marshal(string(v))
	}
	return json.Marshal(map[string][]byte{"base64": []byte(v)})
}

// Column is how a case declares volatile what differs: see Volatile. Empty when
// that cannot be.
func (d Difference) Column() string {
	if m := columnOf.FindStringSubmatch(d.Field); m != nil {
		return m[1] + "." + m[2]
	}
	if m := partOf.FindStringSubmatch(d.Field); m != nil {
		if m[2] != "" {
			return "request.headers." + m[2]
		}
		return "request." + m[1]
	}
	return ""
}

// What fields lead to a column, and to a part of a request.
var (
	columnOf = regexp.MustCompile(`^changes\[([a-z0-9_]+\.[A-Za-z0-9_]+) .*\]\.([A-Za-z0-9_]+)\.(?:before|after)$`)
	partOf   = regexp.MustCompile(`^requests\[[0-9]+\]\.(target|body|headers\[([^\]]+)\])$`)
)

// Compare holds an observation of Go against the wanted one: that of PHP, or the
// declared one of a case with a deviation. Both are normalised. Every field is
// compared, but the reason of the outcome: people read it, PHP and Go say the
// same in other words, and no table of Phorge keeps it.
//
// Of a case that declares it, nothing is wanted but that Go declines: no
// request, and no change beyond the lease of the task's own row.
func Compare(c Case, want, got Observation) []Difference {
	if c.Declines {
		want = Observation{Outcome: Outcome{Kind: tasks.Declined}}
		got.Outcome.Wait, got.Outcome.Category = 0, ""
		got.Changes = slices.DeleteFunc(slices.Clone(got.Changes), isLease)
	}
	want, got = want.prioritised(c), got.prioritised(c)
	d := &differences{}
	cmp.Equal(want, got,
		cmpopts.IgnoreFields(Outcome{}, "Reason"),
		cmp.FilterPath(isMap, cmpopts.EquateEmpty()),
		cmp.Transformer("rows", rows),
		cmp.Transformer("requests", ordered[Request]),
		cmp.Transformer("followUps", ordered[FollowUp]),
		cmp.Reporter(d),
	)
	return d.found
}

// prioritised is the observation with a priority for every follow-up: without one
// it gets that of the task.
func (o Observation) prioritised(c Case) Observation {
	own := tasks.PriorityDefault
	if c.Task.Priority != nil {
		own = *c.Task.Priority
	}
	o.Outcome.FollowUps = slices.Clone(o.Outcome.FollowUps)
	for i := range o.Outcome.FollowUps {
		if f := &o.Outcome.FollowUps[i]; f.Priority == nil {
			f.Priority = &own
		}
	}
	return o
}

// isMap reports whether a path leads to a map: none and an empty one are the
// same in YAML.
func isMap(path cmp.Path) bool { return path.Last().Type().Kind() == reflect.Map }

// isLease reports whether a change is what leasing does to the case's task.
func isLease(c Change) bool {
	for name := range c.Columns {
		if name != "leaseOwner" && name != "leaseExpires" {
			return false
		}
	}
	return c.Table == "worker.worker_activetask" && c.Kind == Changed && c.Key == "{{task}}"
}

// rows puts changes by what they change, so that one more or less does not make
// all that follow differ. A table without a key can hold a row twice.
func rows(changes []Change) map[string]Change {
	byRow := map[string]Change{}
	for _, c := range changes {
		name := c.Table + " " + c.Key
		for again := 2; has(byRow, name); again++ {
			name = fmt.Sprintf("%s %s (%d)", c.Table, c.Key, again)
		}
		byRow[name] = c
	}
	return byRow
}

// ordered numbers what comes in an order.
func ordered[T any](list []T) map[int]T {
	byPlace := map[int]T{}
	for i, item := range list {
		byPlace[i+1] = item
	}
	return byPlace
}

func has[V any](m map[string]V, key string) bool { _, ok := m[key]; return ok }

// differences gathers what go-cmp finds.
type differences struct {
	path  cmp.Path
	found []Difference
}

func (d *differences) PushStep(step cmp.PathStep) { d.path = append(d.path, step) }

func (d *differences) PopStep() { d.path = d.path[:len(d.path)-1] }

func (d *differences) Report(result cmp.Result) {
	if result.Equal() {
		return
	}
	want, got := d.path.Last().Values()
	d.found = append(d.found, Difference{Field: field(d.path), Want: written(want), Got: written(got)})
}

// field is the path in the words of the YAML.
func field(path cmp.Path) string {
	var b strings.Builder
	for i, step := range path {
		switch step := step.(type) {
		case cmp.StructField:
			if step.Name() == "Columns" {
				continue // the name of the column says enough
			}
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(strings.ToLower(step.Name()[:1]) + step.Name()[1:])
		case cmp.MapIndex:
			if path[i].Type() == reflect.TypeFor[Values]() {
				fmt.Fprintf(&b, ".%s", step.Key())
				continue
			}
			fmt.Fprintf(&b, "[%v]", step.Key())
		}
	}
	return b.String()
}

// written is a value as text.
func written(value reflect.Value) *string {
	if !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil() {
		return nil
	}
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	var text string
	switch value.Kind() {
	case reflect.String:
		text = value.String()
	case reflect.Int, reflect.Int64:
		text = strconv.FormatInt(value.Int(), 10)
	default:
		if values, ok := value.Interface().(Values); ok {
			text = values.String()
			break
		}
		content, err := encode(value.Interface())
		if err != nil {
			content = fmt.Appendf(nil, "%+v", value.Interface())
		}
		text = string(content)
	}
	return &text
}
