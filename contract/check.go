package contract

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

var (
	caseName     = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	tableName    = regexp.MustCompile(`^[a-z0-9_]+\.[A-Za-z0-9_]+$`)
	columnName   = regexp.MustCompile(`^[A-Za-z0-9_]+$`)
	wholeColumn  = regexp.MustCompile(`^[a-z0-9_]+\.[A-Za-z0-9_]+\.[A-Za-z0-9_]+$`)
	ofARequest   = regexp.MustCompile(`^request\.(?:target|body|headers\.[A-Za-z0-9-]+)$`)
	headerName   = regexp.MustCompile(`^[A-Za-z0-9-]+$`)
	optionName   = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	receiverName = caseName
)

// maxDelay bounds a receiver's delay: nothing that a case is about takes longer,
// and a slip of the unit would hold up everybody.
const maxDelay = 2 * time.Minute

// maxName bounds the name of a case, in bytes.
const maxName = 100

// checker gathers what is wrong with a part of a document.
type checker struct {
	document
	at       path   // of the case in the document
	name     string // of the case
	problems []error
}

// refuse notes that what stands at a path of the case is wrong.
func (k *checker) refuse(at path, format string, args ...any) {
	where := at.String()
	if k.at != nil {
		where = fmt.Sprintf("case %q: %s", k.name, where)
	}
	k.problems = append(k.problems, fmt.Errorf("%s: %s: %s", k.place(k.at.add(at...)), where, fmt.Sprintf(format, args...)))
}

// written answers the node at a path of the case, nil when nobody wrote it.
func (k *checker) written(at path) *yaml.Node {
	node, _ := k.find(k.at.add(at...))
	return node
}

// check looks at a case as it stands in its file. Placeholders may name the
// receivers of the whole world.
func (k *checker) check(c Case, whole World) {
	if !caseName.MatchString(c.Name) || len(c.Name) > maxName {
		k.refuse(path{"name"}, "%q is not small letters and digits, joined by single dashes, at most %d; the golden's file is named so", c.Name, maxName)
	}
	if c.TaskClass == "" || len(c.TaskClass) > 64 {
		k.refuse(path{"taskClass"}, "%q is not the name of a class, of 1 to 64 bytes", c.TaskClass)
	}
	if data := k.written(path{"data"}); data == nil || data.Tag == "!!null" {
		k.refuse(path{"data"}, `the stored text belongs here, as '{"key": 1}', or 'null', or ''`)
	}
	if c.Task.FailureCount < 0 {
		k.refuse(path{"task", "failureCount"}, "%d is negative; give 0 or more", c.Task.FailureCount)
	}
	if p := c.Task.Priority; p != nil && (*p < 0 || *p > math.MaxUint32) {
		k.refuse(path{"task", "priority"}, "%d is out of range; it is 0 to %d", *p, int64(math.MaxUint32))
	}
	for name, phid := range map[string]*string{"objectPHID": c.Task.ObjectPHID, "containerPHID": c.Task.ContainerPHID} {
		if phid != nil && len(*phid) > 64 {
			k.refuse(path{"task", name}, "it has %d bytes; the column holds 64", len(*phid))
		}
	}
	for i, v := range c.Volatile {
		k.volatile(path{"volatile", i}, v)
	}
	k.deviation(c)
	k.world(path{"world"}, c.World, whole)
	k.placeholders(c, whole)
}

func (k *checker) deviation(c Case) {
	if c.Deviation == nil {
		return
	}
	if c.Deviation.ID == "" {
		k.refuse(path{"deviation", "id"}, "name the entry of DEVIATIONS.md that has the reason at length")
	}
	if strings.TrimSpace(c.Deviation.Reason) == "" {
		k.refuse(path{"deviation", "reason"}, "say in a sentence what Go does instead and why")
	}
	if c.Declines {
		k.refuse(path{"declines"}, "a case that Go declines deviates in nothing; remove declines or deviation")
	}
}

func (k *checker) volatile(at path, v Volatile) {
	switch {
	case !strings.HasPrefix(v.Column, "request."):
		if !wholeColumn.MatchString(v.Column) {
			k.refuse(at.add("column"), "%q is not database.table.column, as herald.herald_webhookrequest.lastRequestEpoch, nor a part of a request, as request.body", v.Column)
		}
	case !ofARequest.MatchString(v.Column):
		k.refuse(at.add("column"), "%q is no part of a request; there are request.target, request.body and request.headers.NAME", v.Column)
	case v.Pattern == "" && !strings.HasPrefix(v.Column, "request.headers."):
		k.refuse(at.add("pattern"), "say which part of %s is volatile, as 'nonce=(\\w+)'; all of it would hide what is sent", v.Column)
	}
	if _, err := regexp.Compile(v.Pattern); err != nil {
		k.refuse(at.add("pattern"), "%v", err)
	}
	if strings.TrimSpace(v.Reason) == "" {
		k.refuse(at.add("reason"), "say why two runs of the same side differ in it")
	}
}

// world looks at a world as it stands in a file; whole is what it is part of.
func (k *checker) world(at path, w, whole World) {
	for _, name := range sorted(w.Options) {
		if !optionName.MatchString(name) {
			k.refuse(at.add("options", name), "%q is not the name of an option, as phabricator.silent", name)
		}
		k.option(at.add("options", name), w.Options[name])
	}
	for _, table := range sorted(w.Rows) {
		if !tableName.MatchString(table) {
			k.refuse(at.add("rows", table), "%q is not database.table, without the namespace, as herald.herald_webhook", table)
		}
		for i, row := range w.Rows[table] {
			for _, column := range sorted(row) {
				k.column(at.add("rows", table, i, column), column, row[column])
			}
		}
	}
	for _, name := range sorted(w.Receivers) {
		if !receiverName.MatchString(name) {
			k.refuse(at.add("receivers", name), "%q is not small letters and digits, joined by single dashes", name)
		}
		for i, answer := range w.Receivers[name].Answers {
			k.answer(at.add("receivers", name, "answers", i), answer)
		}
	}
	for i, lock := range w.Locks {
		if lock == "" {
			k.refuse(at.add("locks", i), "the name of a lock belongs here, as webhook(PHID-HWBH-1)")
		} else if slices.Index(whole.Locks, lock) != len(whole.Locks)-len(w.Locks)+i {
			k.refuse(at.add("locks", i), "%s is held already; nobody holds a lock twice", lock)
		}
	}
}

func (k *checker) column(at path, name string, value any) {
	if !columnName.MatchString(name) {
		k.refuse(at, "%q is not the name of a column", name)
	}
	switch value := value.(type) {
	case nil, string, bool:
	case int, int64, uint64:
		// 0123 and 0x10 are other numbers in YAML than in the eyes of a reader.
		if node := k.written(at); node != nil && node.Kind == yaml.ScalarNode && node.Value != fmt.Sprint(value) {
			k.refuse(at, "%s is the number %v in YAML; write that, or quote it as a text", node.Value, value)
		}
	case float64:
		k.refuse(at, "%s is not a whole number; quote it as a text", strconv.FormatFloat(value, 'g', -1, 64))
	case time.Time:
		k.refuse(at, "YAML takes this for a time; quote it as a text, or give an epoch")
	default:
		k.refuse(at, "a text, a whole number, true, false or null belongs here; write JSON as a quoted text")
	}
}

// option looks at a value as JSON could hold it.
func (k *checker) option(at path, value any) {
	switch value := value.(type) {
	case nil, string, bool, int, int64, uint64:
	case float64:
		if math.IsInf(value, 0) || math.IsNaN(value) {
			k.refuse(at, "%v is no number in JSON", value)
		}
	case []any:
		for i, item := range value {
			k.option(at.add(i), item)
		}
	case map[string]any:
		for _, key := range sorted(value) {
			k.option(at.add(key), value[key])
		}
	case time.Time:
		k.refuse(at, "YAML takes this for a time; quote it as a text")
	default:
		k.refuse(at, "what JSON can hold belongs here; keys are texts, so quote them")
	}
}

func (k *checker) answer(at path, a Answer) {
	if a.Status != 0 && (a.Status < 200 || a.Status > 599) {
		k.refuse(at.add("status"), "%d is no status that a server answers with; give 200 to 599", a.Status)
	}
	for _, name := range sorted(a.Headers) {
		if value := a.Headers[name]; !headerName.MatchString(name) || strings.ContainsAny(value, "\r\n\x00") {
			k.refuse(at.add("headers", name), "%q: %q is no header; its name is letters, digits and dashes, and its value one line", name, value)
		}
	}
	if a.Delay < 0 || a.Delay > maxDelay {
		k.refuse(at.add("delay"), "%v is out of range; it is 0 to %v", a.Delay, maxDelay)
	}
	if a.Reset && a.Close {
		k.refuse(at.add("close"), "a connection is either reset or closed; remove one of the two")
	}
	if (a.Reset || a.Close) && (a.Status != 0 || a.Headers != nil || a.Body != "") {
		k.refuse(at, "a connection that is cut carries no answer; remove status, headers and body, or reset and close")
	}
}

// placeholders refuses those of a case, or of a world alone, that stand for
// nothing in the whole world.
func (k *checker) placeholders(part Case, whole World) {
	frame := Frame{Receivers: map[string]string{}}
	for name := range whole.Receivers {
		frame.Receivers[name] = name
	}
	part.mapTexts(func(at path, text string) string {
		if k.at == nil {
			at = at[1:] // a file of a world begins with what is in it
		}
		if _, err := expand(text, frame.means); err != nil {
			k.refuse(at, "%v", err)
		}
		return text
	})
}
