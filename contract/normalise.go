package contract

import (
	"cmp"
	"maps"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Normalise gives what chance and the clock decided in a run common names, so
// that observations of two runs can be compared:
//
//	{{now}}, {{now+300}}    moments of the run, and epochs by their distance from
//	                        its start; in leaseExpires, from the settlement
//	{{middle}}, {{end}}     moments of a run of at least 5 seconds that are not of
//	                        its first third; those of its last are {{end}}
//	{{leased+60}}           leaseExpires of the lease itself
//	{{start+3}}             leaseExpires that neither explains
//	{{receiver NAME}}       addresses, and {{closed}}
//	{{task}}, {{task#1}}    ids of the case's task and of new ones, in their order
//	{{data}}, {{data#1}}    the same of their data
//	{{PHID-TASK#1}}         new PHIDs, by type and first appearance
//	{{lease}}               the owner of the case's lease; its {{fence}} in one of a
//	                        row that waits
//	{{volatile}}            what the case declares so
//	{{set back}}            a counter that was, or is gone
//	{{2 braces}}            two opening braces that stood there before
//
// What is named, and why, is declared in volatile.go. A value in which only one
// moment of the run became another of the same name counts as unchanged. The
// changes of the answer are sorted by table and key.
func Normalise(raw Observation, frame Frame) Observation {
	n := &namer{Frame: frame, numbers: map[string]int{}}
	n.volatile()
	n.distances()
	o := raw.clone()
	o.mapTexts(func(text string) string { return strings.ReplaceAll(text, "{{", twoBraces) })
	o.Outcome.Category = category(o.Outcome.Kind, o.Outcome.Category)
	o.Outcome.Reason = installed.ReplaceAllString(o.Outcome.Reason, "$1$2")
	for i := range o.Changes {
		setBack(&o.Changes[i])
	}
	o.Changes = slices.DeleteFunc(o.Changes, func(c Change) bool { return IsVolatile(c.Table) && !c.isSetBack() })
	n.outcome = o.Outcome
	n.newIDs(o.Changes)
	for i := range o.Changes {
		n.change(&o.Changes[i])
	}
	o.Changes = slices.DeleteFunc(o.Changes, func(c Change) bool { return c.Kind == Changed && len(c.Columns) == 0 })
	for i := range o.Requests {
		r := &o.Requests[i]
		r.Target, r.Body = n.declared("request.target", r.Target), n.declared("request.body", r.Body)
		for name, value := range r.Headers {
			r.Headers[name] = n.declared("request.headers."+name, value)
		}
		for name, declared := range volatileHeaders {
			if value, ok := r.Headers[name]; ok {
				r.Headers[name] = declared.means(value)
			}
		}
	}
	o.mapTexts(n.text)
	slices.SortStableFunc(o.Changes, orderMasked)
	o.mapTexts(n.number)
	slices.SortStableFunc(o.Changes, order)
	return o
}

// IsVolatile reports whether a table, named database.table, or all of its database
// differs between any two runs of the same work, or belongs to what runs it.
func IsVolatile(table string) bool {
	database, _, _ := strings.Cut(table, ".")
	return volatileTables[table] != "" || volatileTables[database+"."] != ""
}

// twoBraces stands for what would otherwise be taken for the beginning of a name.
const twoBraces = "{{2 braces}}"

// namer names what chance and the clock decided in one run.
type namer struct {
	Frame
	outcome  Outcome
	patterns []pattern      // of the case
	offsets  map[int64]bool // distances from the start that the case names

	newTasks, newData map[string]string // names of ids that the run gave
	numbers           map[string]int    // of new PHIDs, by themselves and by type
}

// pattern is a compiled Volatile.
type pattern struct {
	column string
	find   *regexp.Regexp // nil: the whole value
}

func (n *namer) volatile() {
	for _, v := range n.Case.Volatile {
		p := pattern{column: v.Column}
		if name, ok := strings.CutPrefix(v.Column, "request.headers."); ok {
			p.column = "request.headers." + textproto.CanonicalMIMEHeaderKey(name)
		}
		if v.Pattern != "" {
			p.find = regexp.MustCompile(v.Pattern)
		}
		n.patterns = append(n.patterns, p)
	}
}

// distances gathers those that the case writes, so that they are recognised
// however far they are.
func (n *namer) distances() {
	n.offsets = map[int64]bool{}
	n.Case.mapTexts(func(_ path, text string) string {
		for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
			if m := moment.FindStringSubmatch(found[1]); m != nil {
				distance, _ := strconv.ParseInt(m[1]+m[2], 10, 64)
				n.offsets[distance] = true
			}
		}
		return text
	})
}

// newIDs finds the ids of tasks, and of their data, that were not there before.
// An archived task is a row of another table, with the id of one that is gone.
func (n *namer) newIDs(changes []Change) {
	var taskIDs, dataIDs []string
	old := map[string]bool{}
	for _, c := range changes {
		if c.Table == "worker.worker_activetask" && c.Kind != Added {
			old[c.Key] = true
		}
	}
	for _, c := range changes {
		switch {
		case c.Kind != Added || !isNumber(c.Key):
		case c.Table == "worker.worker_taskdata":
			dataIDs = append(dataIDs, c.Key)
		case (c.Table == "worker.worker_activetask" || c.Table == "worker.worker_archivetask") && !old[c.Key]:
			taskIDs = append(taskIDs, c.Key)
		}
	}
	n.newTasks = numbered("task", taskIDs)
	n.newData = numbered("data", dataIDs)
	n.newTasks[strconv.FormatInt(n.TaskID, 10)] = "{{task}}"
	n.newData[strconv.FormatInt(n.DataID, 10)] = "{{data}}"
}

func numbered(kind string, ids []string) map[string]string {
	names := map[string]string{}
	slices.SortFunc(ids, natural)
	for i, id := range slices.Compact(ids) {
		names[id] = "{{" + kind + "#" + strconv.Itoa(i+1) + "}}"
	}
	return names
}

// cell is where a value stands.
type cell struct {
	row   Change // as it was observed
	after bool
}

// change names what the columns of a row, and its key, mean.
func (n *namer) change(c *Change) {
	row := *c
	row.Columns = maps.Clone(c.Columns)
	for name, values := range row.Columns {
		if c.Kind == Changed && n.isMomentLater(values) {
			delete(c.Columns, name)
			continue
		}
		c.Columns[name] = Values{n.column(cell{row, false}, name, values.Before), n.column(cell{row, true}, name, values.After)}
	}
	if id, ok := volatileColumns[c.Table+".id"]; ok {
		c.Key = id.means(n, cell{row: row}, c.Key)
		return
	}
	parts := strings.Split(c.Key, " ")
	for i, part := range parts {
		for name, values := range row.Columns {
			if values.Before != nil && *values.Before == part || values.After != nil && *values.After == part {
				parts[i] = n.declared(c.Table+"."+name, parts[i])
			}
		}
	}
	c.Key = strings.Join(parts, " ")
}

// isMomentLater reports whether a value is the same but for a moment of the run
// that became another. Whether it did depends on when the second was over, so
// that is no change.
func (n *namer) isMomentLater(v Values) bool {
	if v.Before == nil || v.After == nil || *v.Before == *v.After {
		return false
	}
	now := func(found string) string {
		if epoch, err := strconv.ParseInt(found, 10, 64); err == nil {
			return cmp.Or(n.moment(epoch), found)
		}
		return found
	}
	return tenDigits.ReplaceAllStringFunc(*v.Before, now) == tenDigits.ReplaceAllStringFunc(*v.After, now)
}

func (n *namer) column(c cell, name string, value *string) *string {
	if value == nil {
		return nil
	}
	text := n.declared(c.row.Table+"."+name, *value)
	if declared, ok := volatileColumns[c.row.Table+"."+name]; ok {
		text = declared.means(n, c, text)
	}
	return &text
}

// declared names what the case declares volatile of a column.
func (n *namer) declared(column, text string) string {
	for _, p := range n.patterns {
		switch {
		case p.column != column:
		case p.find == nil:
			return volatileName
		default:
			text = replaceGroup(p.find, text)
		}
	}
	return text
}

const volatileName = "{{volatile}}"

// replaceGroup names what the first group of a pattern matches, or all of it
// without a group. What has a name already is left alone.
func replaceGroup(find *regexp.Regexp, text string) string {
	named := placeholder.FindAllStringIndex(text, -1)
	var b strings.Builder
	done := 0
	for _, match := range find.FindAllStringSubmatchIndex(text, -1) {
		from, to := match[0], match[1]
		if len(match) > 2 {
			from, to = match[2], match[3]
		}
		overlaps := func(name []int) bool { return from < name[1] && name[0] < to }
		if from < 0 || from == to || slices.ContainsFunc(named, overlaps) {
			continue
		}
		b.WriteString(text[done:from] + volatileName)
		done = to
	}
	return b.String() + text[done:]
}

// text names what volatileTexts finds, outside of what has a name already.
func (n *namer) text(text string) string {
	for _, declared := range volatileTexts {
		var b strings.Builder
		for _, piece := range pieces(text) {
			if !placeholder.MatchString(piece) {
				piece = declared.find.ReplaceAllStringFunc(piece, func(found string) string { return declared.means(n, found) })
			}
			b.WriteString(piece)
		}
		text = b.String()
	}
	return text
}

// pieces splits a text into placeholders and what is between them.
func pieces(text string) []string {
	var split []string
	done := 0
	for _, at := range placeholder.FindAllStringIndex(text, -1) {
		split = append(split, text[done:at[0]], text[at[0]:at[1]])
		done = at[1]
	}
	return append(split, text[done:])
}
