package contract

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
)

// The run of the observations below lasts 15 seconds. Its moments are at its
// end, so that one second more is outside.
const (
	start    = 1791234000
	settling = start + 14
	end      = start + 15
)

func at(epoch int64) string { return strconv.FormatInt(epoch, 10) }

// rich is a case with a run of it that has something of everything.
func rich(kind tasks.Kind) (Frame, Observation) {
	frame := Frame{
		Case: Case{
			Name: "rich", TaskClass: "A", Data: `{"phid":"PHID-HWBR-aaaaaaaaaaaaaaaaaaaa","at":"{{now-300}}"}`,
			World: World{Rows: map[string][]Row{"herald.herald_webhookrequest": {{"dateCreated": "{{now-864000}}"}}}},
			Volatile: []Volatile{
				{Column: "herald.herald_token.token", Reason: "chance"},
				{Column: "herald.herald_token.text", Pattern: `token=(\w+)`, Reason: "chance"},
				{Column: "request.body", Pattern: `"nonce": (\d+)`, Reason: "chance"},
				{Column: "request.target", Pattern: `&t=(\w+)`, Reason: "chance"},
				{Column: "request.headers.x-signature", Reason: "it is of the body"},
				{Column: "request.headers.X-Nonce", Pattern: `^n-(\w+)`, Reason: "chance"},
			},
		},
		Start: start, Settling: settling, End: end, Lease: 60, Owner: "gantry:1a:0:nonce:host",
		Receivers: map[string]string{"hook": "127.0.0.1:8001", "other": "127.0.0.1:8002"}, Closed: "127.0.0.1:8003",
		TaskID: 501, DataID: 601,
		Known: func(phid string) bool { return phid == "PHID-USER-bbbbbbbbbbbbbbbbbbbb" },
	}
	task := func(table string, kind ChangeKind, id, owner string, expires int64, more map[string]string) Change {
		columns := map[string]Values{}
		for name, value := range more {
			columns[name] = Values{Before: &value}
		}
		columns["id"], columns["leaseOwner"], columns["leaseExpires"] = Values{Before: &id}, Values{Before: &owner}, Values{Before: new(at(expires))}
		if kind == Added {
			for name, values := range columns {
				columns[name] = Values{After: values.Before}
			}
		}
		return Change{Table: "worker." + table, Kind: kind, Key: id, Columns: columns}
	}
	lease := frame.Owner
	o := Observation{
		Outcome: Outcome{Kind: kind, Category: "permanent", Reason: "because", FollowUps: []FollowUp{
			{TaskClass: "B", Data: `{"uri":"http:\/\/127.0.0.1:8001\/","new":"PHID-XACT-TASK-ccccccccccccccc"}`, Priority: new(1000), ObjectPHID: new("PHID-USER-bbbbbbbbbbbbbbbbbbbb")},
			{TaskClass: "C", Data: "1.0", ContainerPHID: new("PHID-TASK-dddddddddddddddddddd"), DelayUntil: at(end + 100)},
		}},
		Requests: []Request{
			{Receiver: "hook", Method: "POST", Target: "/a?b=1&t=x1", Order: "Host, User-Agent, Content-Length, X-Phabricator-Webhook-Signature", Body: "{\n  \"epoch\": " + at(end) + ", \"nonce\": 17\n}\n", Headers: map[string]string{
				"X-Signature": "0123abcd", "X-Nonce": "n-abc; v=1",
				"Host": "127.0.0.1:8001", "User-Agent": "Arcanist/1.0 cURL/7.88.1", "Content-Length": "25", "X-Phabricator-Webhook-Signature": "abcdef0123",
			}},
			{Receiver: "other", Method: "GET", Target: "/", Body: "\xff\x00 127.0.0.1:8003", Headers: map[string]string{"User-Agent": "curl"}},
		},
		Changes: []Change{
			{Table: "cache.cache_general", Kind: Added, Key: "1", Columns: map[string]Values{"x": {After: new("y")}}},
			{Table: "herald.herald_webhookrequest", Kind: Changed, Key: "7", Columns: map[string]Values{
				"status": {new("queued"), new("sent")}, "lastRequestEpoch": {new("0"), new(at(end))}, "dateModified": {new(at(start - 300)), new(at(end))},
				"dateCreated": {new(at(start - 864000)), new(at(start - 301))}, "errorCode": {nil, new("")}, "properties": {new(`{"a":"PHID-HWBR-aaaaaaaaaaaaaaaaaaaa"}`), nil},
			}},
			{Table: "herald.herald_token", Kind: Added, Key: "PHID-TASK-dddddddddddddddddddd secret", Columns: map[string]Values{
				"phid": {After: new("PHID-TASK-dddddddddddddddddddd")}, "token": {After: new("secret")}, "text": {After: new("token=xyz; name=abc")}, "none": {},
			}},
			task("worker_activetask", Removed, "501", lease, end-1+60, map[string]string{"dataID": "601", "failureCount": "0", "failureTime": "", "dateCreated": at(start)}),
			task("worker_activetask", Added, "502", "(delay)", end+100, map[string]string{"dataID": "602", "priority": "2000"}),
			task("worker_archivetask", Added, "501", lease, end-1+60, map[string]string{"dataID": "601", "result": "0", "duration": "1234", "archivedEpoch": at(end)}),
			task("worker_archivetask", Added, "400", "gantry:1b:2:nonce:host", start-1000, map[string]string{"dataID": "300", "result": "1", "duration": "0"}),
			{Table: "worker.worker_activetask", Kind: Removed, Key: "400"},
			{Table: "worker.worker_taskdata", Kind: Added, Key: "602", Columns: map[string]Values{"id": {After: new("602")}, "data": {After: new("1.0")}}},
			{Table: "worker.worker_taskdata", Kind: Removed, Key: "300", Columns: map[string]Values{"id": {Before: new("300")}, "data": {Before: new("[]")}}},
		},
	}
	if kind == tasks.Succeeded {
		return frame, o
	}
	if kind == tasks.Failed {
		o.Outcome.FollowUps, o.Outcome.Category, o.Changes = nil, "error", nil
		return frame, o
	}
	// The task stays, and waits from its settlement on.
	o.Outcome.FollowUps, o.Outcome.Wait, o.Outcome.Category = nil, 30, "exception"
	o.Changes = []Change{{Table: "worker.worker_activetask", Kind: Changed, Key: "501", Columns: map[string]Values{
		"leaseOwner": {&lease, new("(retry):1a:0")}, "leaseExpires": {new(at(end - 1 + 60)), new(at(end + 30))}, "failureTime": {nil, new(at(end))},
	}}}
	return frame, o
}

// declared is what a change of a single value may do without being reported, by
// where it is and what it was. It says again, in other words, what the tables of
// volatile.go declare.
var declared = []struct {
	field    *regexp.Regexp
	was, now *regexp.Regexp
}{
	{regexp.MustCompile(`^Outcome\.Reason$`), nil, nil},
	{regexp.MustCompile(`^Outcome\.Category$`), regexp.MustCompile(`^exception$`), regexp.MustCompile(`^(error|temporary|)$`)},
	{regexp.MustCompile(`^cache\.cache_general\.`), nil, nil},
	{regexp.MustCompile(`^worker\.worker_archivetask\.duration\.`), regexp.MustCompile(`^1234$`), regexp.MustCompile(`^[0-9]+$`)},
	{regexp.MustCompile(`^Requests\.Headers\.User-Agent$`), regexp.MustCompile(`^Arcanist/1\.0 cURL/7`), regexp.MustCompile(`^Arcanist/1\.0 cURL/\d`)},
	{regexp.MustCompile(`^Requests\.Headers\.X-Signature$`), nil, regexp.MustCompile(``)},
	{regexp.MustCompile(`^Requests\.Headers\.X-Nonce$`), regexp.MustCompile(`^n-abc; v=1$`), regexp.MustCompile(`^n-\w+; v=1$`)},
	{regexp.MustCompile(`^Requests\.Target$`), regexp.MustCompile(`^/a\?b=1&t=x1$`), regexp.MustCompile(`^/a\?b=1&t=\w+$`)},
	{regexp.MustCompile(`^Requests\.Body$`), regexp.MustCompile(`"nonce": 17\n`), regexp.MustCompile(`^\{\n  "epoch": 17912340(?:1[0-5]), "nonce": \d+\n\}\n$`)},
	{regexp.MustCompile(`^herald\.herald_token\.token\.After`), nil, regexp.MustCompile(``)},
	{regexp.MustCompile(`^herald\.herald_token\.text\.After`), regexp.MustCompile(`^token=xyz; name=abc$`), regexp.MustCompile(`^token=\w+; name=abc$`)},
}

func mayHide(field string, was, now any) bool {
	if field == "Outcome.FollowUps.Priority" { // without one it is that of the task
		before, _ := was.(*int)
		after, _ := now.(*int)
		return before == nil && after != nil && *after == tasks.PriorityDefault
	}
	text := func(v any) (string, bool) {
		switch v := v.(type) {
		case string:
			return v, true
		case *string:
			if v != nil {
				return *v, true
			}
		}
		return "", false
	}
	a, hadText := text(was)
	b, hasText := text(now)
	for _, d := range declared {
		if !d.field.MatchString(field) {
			continue
		}
		if d.was == nil && d.now == nil {
			return true
		}
		if hadText && hasText && (d.was == nil || d.was.MatchString(a)) && d.now.MatchString(b) {
			return true
		}
	}
	if strings.Contains(field, "leaseExpires") {
		x, _ := strconv.ParseInt(a, 10, 64)
		y, _ := strconv.ParseInt(b, 10, 64)
		return hasText && fmt.Sprint(y) == b && (x == end+59 && y >= start+60 && y <= settling+60 || x == end+30 && y == end+29)
	}
	return hadText && hasText && alike(a) == alike(b)
}

var (
	newOnes = regexp.MustCompile(`\bPHID-(XACT-TASK-[a-z0-9]{15}|TASK-[a-z0-9]{20})\b`)
	tenLong = regexp.MustCompile(`\b\d{10}\b`)
)

// alike is a text with the moments of each third of the run as one, and what is
// new as well.
func alike(text string) string {
	text = newOnes.ReplaceAllStringFunc(text, func(found string) string { return found[:strings.LastIndexByte(found, '-')] })
	return tenLong.ReplaceAllStringFunc(text, func(found string) string {
		switch n, _ := strconv.ParseInt(found, 10, 64); {
		case n < start || n > end:
			return found
		case n <= start+4:
			return "first"
		case n < start+10:
			return "second"
		}
		return "last"
	})
}

// leaf is a value of an observation, and how to put another in its place.
type leaf struct {
	field string
	value any
	set   func(any)
}

// leaves walks an observation. Values of rows go by table and column.
func leaves(o *Observation) []leaf {
	var found []leaf
	var walk func(field string, v reflect.Value, set func(reflect.Value))
	walk = func(field string, v reflect.Value, set func(reflect.Value)) {
		switch v.Kind() {
		case reflect.Struct:
			if c, ok := v.Interface().(Change); ok {
				field = c.Table
			}
			for f, fv := range v.Fields() {
				name := field + "." + f.Name
				if f.Name == "Columns" {
					name = field
				}
				walk(strings.TrimPrefix(name, "."), fv, func(x reflect.Value) {
					changed := reflect.New(v.Type()).Elem()
					changed.Set(v)
					changed.FieldByIndex(f.Index).Set(x)
					set(changed)
				})
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(field, v.Index(i), func(x reflect.Value) { v.Index(i).Set(x) })
			}
		case reflect.Map:
			for _, key := range sortedKeys(v) {
				walk(field+"."+key.String(), v.MapIndex(key), func(x reflect.Value) { v.SetMapIndex(key, x) })
			}
		default:
			found = append(found, leaf{field, v.Interface(), func(x any) { set(reflect.ValueOf(x).Convert(v.Type())) }})
		}
	}
	walk("", reflect.ValueOf(o).Elem(), func(x reflect.Value) { reflect.ValueOf(o).Elem().Set(x) })
	return found
}

var numbers = regexp.MustCompile(`[0-9]+`)

// others are values that are not the given one.
func others(value any) []any {
	var all []any
	switch v := value.(type) {
	case string:
		for _, text := range otherTexts(v) {
			all = append(all, text)
		}
	case *string:
		if v == nil {
			return []any{new(""), new("0"), new(at(end))}
		}
		for _, text := range otherTexts(*v) {
			all = append(all, &text)
		}
		all = append(all, (*string)(nil))
	case *int:
		if v == nil {
			return []any{new(0), new(2000)}
		}
		all = append(all, (*int)(nil), new(*v+1), new(0))
	case int64:
		all = append(all, v+1, v-1, -v-1)
	case tasks.Kind:
		all = append(all, tasks.Retry, tasks.Failed, tasks.Declined, tasks.Kind(""))
	case ChangeKind:
		all = append(all, Added, Changed, Removed, ChangeKind(""))
	default:
		panic(fmt.Sprintf("a %T is not perturbed; the test has to learn it", value))
	}
	return slices.DeleteFunc(all, func(other any) bool { return reflect.DeepEqual(other, value) })
}

func otherTexts(text string) []string {
	texts := []string{
		"", "exception", "temporary", text + "x", "x" + text, text + " ", " " + text, text + "\n", text + "\x00", text + text,
		strings.ToUpper(text), strings.ToLower(text), strings.TrimSpace(text) + "9", "9" + text, "0" + text, "+" + text,
		strings.ReplaceAll(text, "8001", "8002"), strings.ReplaceAll(text, "8003", "8001"), strings.ReplaceAll(text, "127.0.0.1", "localhost"),
		strings.ReplaceAll(text, "/", `\/`), strings.ReplaceAll(text, "  ", "\t"), strings.ReplaceAll(text, "\n", "\r\n"),
		strings.ReplaceAll(text, "501", "502"), strings.ReplaceAll(text, "502", "501"), strings.ReplaceAll(text, "bbb", "bbc"), strings.ReplaceAll(text, "aaa", "aab"),
		strings.ReplaceAll(text, "ddd", "dde"), strings.ReplaceAll(text, "TASK-", "USER-"), strings.ReplaceAll(text, ":0", ":1"),
	}
	if text != "" {
		texts = append(texts, text[:len(text)-1], text[1:], text[:len(text)/2])
	}
	for _, by := range []int64{-1, 1, -15, 15, -16, 16, 60, -60, 86400, 1e9} {
		texts = append(texts, numbers.ReplaceAllStringFunc(text, func(found string) string {
			n, _ := strconv.ParseInt(found, 10, 64)
			return strconv.FormatInt(n+by, 10)
		}))
	}
	slices.Sort(texts)
	return slices.DeleteFunc(slices.Compact(texts), func(other string) bool { return other == text })
}

// runs are observations that hold everything that may be hidden.
func runs() map[string]func() (Frame, Observation) {
	return map[string]func() (Frame, Observation){
		"succeeded": func() (Frame, Observation) { return rich(tasks.Succeeded) },
		"retry":     func() (Frame, Observation) { return rich(tasks.Retry) },
		"failed":    func() (Frame, Observation) { return rich(tasks.Failed) },
	}
}

func TestNoDifferenceIsHiddenThatIsNotDeclared(t *testing.T) {
	for name, run := range runs() {
		t.Run(name, func(t *testing.T) {
			frame, raw := run()
			want := Normalise(raw, frame)
			tried, hidden := 0, 0
			for i, at := range leaves(&raw) {
				for _, other := range others(at.value) {
					_, changed := run()
					leaves(&changed)[i].set(other)
					tried++
					if len(Compare(frame.Case, want, Normalise(changed, frame))) > 0 {
						continue
					}
					if hidden++; !mayHide(at.field, at.value, other) {
						t.Errorf("%s: nobody reports that %q became %q", at.field, shown(at.value), shown(other))
					}
				}
			}
			t.Logf("%d changes of single values, of which %d are declared and hidden", tried, hidden)
			if tried < 300 || hidden == 0 {
				t.Error("the walk does not reach what it is to look at")
			}
		})
	}
}

func shown(value any) string {
	if text, ok := value.(*string); ok {
		if text == nil {
			return "NULL"
		}
		return *text
	}
	return fmt.Sprint(value)
}

func TestNothingMoreOrLessIsHidden(t *testing.T) {
	for name, run := range runs() {
		t.Run(name, func(t *testing.T) {
			frame, raw := run()
			want := Normalise(raw, frame)
			reported := func(what string, change func(o *Observation)) {
				t.Helper()
				_, changed := run()
				change(&changed)
				if len(Compare(frame.Case, want, Normalise(changed, frame))) == 0 {
					t.Errorf("nobody reports %s", what)
				}
			}
			for i := range raw.Requests {
				reported("a request less", func(o *Observation) { o.Requests = slices.Delete(o.Requests, i, i+1) })
				reported("a request twice", func(o *Observation) { o.Requests = slices.Insert(o.Requests, i, o.Requests[i]) })
				for header := range raw.Requests[i].Headers {
					reported("a header less: "+header, func(o *Observation) { delete(o.Requests[i].Headers, header) })
				}
				reported("a header more", func(o *Observation) { o.Requests[i].Headers["Expect"] = "" })
			}
			reported("requests in another order", func(o *Observation) { slices.Reverse(o.Requests) })
			for i := range raw.Outcome.FollowUps {
				reported("a follow-up less", func(o *Observation) { o.Outcome.FollowUps = slices.Delete(o.Outcome.FollowUps, i, i+1) })
			}
			if len(raw.Outcome.FollowUps) > 1 {
				reported("follow-ups in another order", func(o *Observation) { slices.Reverse(o.Outcome.FollowUps) })
			}
			reported("a follow-up more", func(o *Observation) { o.Outcome.FollowUps = append(o.Outcome.FollowUps, FollowUp{TaskClass: "D"}) })
			for i, c := range raw.Changes {
				if IsVolatile(c.Table) {
					continue
				}
				reported("a changed row less: "+c.Table, func(o *Observation) { o.Changes = slices.Delete(o.Changes, i, i+1) })
				reported("a changed row twice: "+c.Table, func(o *Observation) { o.Changes = append(o.Changes, o.Changes[i]) })
				for column := range c.Columns {
					reported("a column less: "+c.Table+"."+column, func(o *Observation) { delete(o.Changes[i].Columns, column) })
				}
				reported("a column more", func(o *Observation) { put(&o.Changes[i].Columns, "new", Values{}) })
			}
			reported("a row more", func(o *Observation) {
				o.Changes = append(o.Changes, Change{Table: "cache_general.x", Kind: Added, Key: "1"})
			})
		})
	}
}

// TestEveryDeclarationHasAReason also keeps volatileTables from growing silently:
// a table that is not named here is compared.
func TestEveryDeclarationHasAReason(t *testing.T) {
	for table, reason := range volatileTables {
		if reason == "" || !slices.Contains([]string{"cache.", "conduit.conduit_methodcalllog", "daemon.", "gantry.", "multimeter.", "worker.lisk_counter"}, table) {
			t.Errorf("%s: %q", table, reason)
		}
	}
	for column, d := range volatileColumns {
		if d.reason == "" {
			t.Errorf("%s has no reason", column)
		}
	}
	for header, d := range volatileHeaders {
		if d.reason == "" {
			t.Errorf("%s has no reason", header)
		}
	}
	for _, d := range volatileTexts {
		if d.reason == "" {
			t.Errorf("%s has no reason", d.find)
		}
	}
}
