package contract

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/tasks"
)

// folder writes files, by name, and answers where.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := writeFile(filepath.Join(dir, name), []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAFolderIsLoadedWithItsWorld(t *testing.T) {
	dir := folder(t, map[string]string{
		"world.yaml": `
options: {phabricator.silent: false, feed.http-hooks: ["http://{{receiver hook}}/", null]}
rows:
  herald.herald_webhook: [{id: 1, name: one}]
receivers: {hook: {}}
locks: [a]
`,
		"b.yaml": "cases: [{name: last, taskClass: B, data: 'null'}]",
		"a.yaml": `
cases:
  - name: first
    about: It is laid over the world.
    taskClass: HeraldWebhookWorker
    data: '{"webhookRequestPHID":"PHID-HWBR-1"}'
    task: {failureCount: 2, priority: 0, objectPHID: PHID-TASK-1}
    world:
      options: {phabricator.silent: true}
      rows:
        herald.herald_webhook: [{id: 2, name: !!binary /w==, big: 18446744073709551615, on: true, none: null}]
        herald.herald_webhookrequest: []
      receivers: {other: {tls: true, answers: [{status: 302, headers: {Location: "http://{{receiver hook}}/"}, delay: 300ms}, {reset: true}]}}
      locks: [b]
    volatile: [{column: a.b.c, pattern: 'x(\d+)', reason: chance}]
    deviation: {id: redirects, reason: They are not followed.}
`,
		"notes.txt": "not read", "golden/first.yaml": "not read now",
	})
	got, err := LoadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	base := World{
		Options:   map[string]any{"phabricator.silent": false, "feed.http-hooks": []any{"http://{{receiver hook}}/", nil}},
		Rows:      map[string][]Row{"herald.herald_webhook": {{"id": 1, "name": "one"}}},
		Receivers: map[string]Receiver{"hook": {}},
		Locks:     []string{"a"},
	}
	want := []Case{{
		Name: "first", About: "It is laid over the world.", TaskClass: "HeraldWebhookWorker", Data: `{"webhookRequestPHID":"PHID-HWBR-1"}`,
		Task: TaskColumns{FailureCount: 2, Priority: new(0), ObjectPHID: new("PHID-TASK-1")},
		World: World{
			Options: map[string]any{"phabricator.silent": true, "feed.http-hooks": []any{"http://{{receiver hook}}/", nil}},
			Rows: map[string][]Row{
				"herald.herald_webhook": {
					{"id": 1, "name": "one"},
					{"id": 2, "name": "\xff", "big": uint64(18446744073709551615), "on": true, "none": nil},
				},
				"herald.herald_webhookrequest": nil,
			},
			Receivers: map[string]Receiver{"hook": {}, "other": {TLS: true, Answers: []Answer{
				{Status: 302, Headers: map[string]string{"Location": "http://{{receiver hook}}/"}, Delay: 300 * time.Millisecond}, {Reset: true},
			}}},
			Locks: []string{"a", "b"},
		},
		Volatile:  []Volatile{{Column: "a.b.c", Pattern: `x(\d+)`, Reason: "chance"}},
		Deviation: &Deviation{ID: "redirects", Reason: "They are not followed."},
	}, {
		Name: "last", TaskClass: "B", Data: "null", World: base,
	}}
	if diff := cmp.Diff(want, got.Cases); diff != "" {
		t.Error(diff)
	}

	// Written as one file, the cases are read again as they were.
	content, err := EncodeCases(got.Cases)
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadFolder(folder(t, map[string]string{"all.yaml": string(content)}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got.Cases, again.Cases); diff != "" {
		t.Errorf("%s\n%s", diff, content)
	}
}

func TestWhatIsWrongInAFolderIsRefusedWithItsPlaceAndTheRemedy(t *testing.T) {
	const head = "cases:\n  - name: a\n    taskClass: A\n    data: ''\n" // four lines
	for _, c := range []struct{ name, file, content, want string }{
		{"no cases", "a.yaml", "", "a.yaml: it holds no cases; write them under `cases:`"},
		{"an unknown key", "a.yaml", head + "    abuot: x\n", `a.yaml:5: unknown key "abuot"; the keys here are name, about, taskClass`},
		{"an unknown key of an answer", "a.yaml", head + "    world: {receivers: {r: {answers: [{code: 1}]}}}", `a.yaml:5: unknown key "code"; the keys here are status, headers, body, delay, reset, close`},
		{"no YAML", "a.yaml", "cases: [", "a.yaml:1: "},
		{"two documents", "a.yaml", head + "---\ncases: []\n", "a.yaml: it holds more than one YAML document"},
		{"a list instead of a map", "a.yaml", "- a", "a.yaml:1: a map belongs here, with the keys cases"},
		{"a map instead of a text", "a.yaml", "cases:\n  - name: a\n    taskClass: A\n    data: {a: 1}\n", "a.yaml:4: a text belongs here; quote it"},
		{"an item that says nothing", "a.yaml", head + "    world:\n      locks:\n        - x\n        -\n", "a.yaml:8: this item of a list says nothing; remove it"},
		{"another extension", "a.yml", head, "a.yml: cases are read from files that end in .yaml; rename it"},
		{"an unknown key of the world", "world.yaml", "row: {}", `world.yaml:1: unknown key "row"; the keys here are options, rows, receivers, locks`},
		{"a name with capitals", "a.yaml", "cases:\n  - taskClass: A\n    data: ''\n    name: A_b\n", `a.yaml:4: case "A_b": name: "A_b" is not small letters and digits, joined by single dashes`},
		{"no name", "a.yaml", "cases: [{taskClass: A, data: ''}]", `a.yaml:1: case "": name: "" is not small letters`},
		{"a name twice", "a.yaml", head + "  - name: a\n    taskClass: A\n    data: ''\n", `a.yaml:5: case "a": name: ` + "DIR/a.yaml:2 has a case of this name; names are unique in a folder"},
		{"no class", "a.yaml", "cases: [{name: a, data: ''}]", `taskClass: "" is not the name of a class`},
		{"no data", "a.yaml", "cases: [{name: a, taskClass: A}]", `data: the stored text belongs here, as '{"key": 1}', or 'null', or ''`},
		{"null for data", "a.yaml", "cases: [{name: a, taskClass: A, data: null}]", "data: the stored text belongs here"},
		{"a negative count", "a.yaml", head + "    task: {failureCount: -1}", "task.failureCount: -1 is negative; give 0 or more"},
		{"a priority out of range", "a.yaml", head + "    task:\n      priority: 4294967296", "a.yaml:6: case \"a\": task.priority: 4294967296 is out of range; it is 0 to 4294967295"},
		{"a long PHID", "a.yaml", head + "    task: {containerPHID: " + strings.Repeat("x", 65) + "}", "task.containerPHID: it has 65 bytes; the column holds 64"},
		{"an option without a name", "a.yaml", head + "    world: {options: {'': 1}}", `world.options.: "" is not the name of an option, as phabricator.silent`},
		{"an option that is a time", "a.yaml", head + "    world: {options: {a: [2026-01-01]}}", "world.options.a[0]: YAML takes this for a time; quote it"},
		{"an option with keys that are numbers", "a.yaml", head + "    world: {options: {a: {1: 2}}}", "world.options.a: what JSON can hold belongs here; keys are texts"},
		{"a table without database", "a.yaml", head + "    world: {rows: {herald_webhook: []}}", `world.rows.herald_webhook: "herald_webhook" is not database.table, without the namespace`},
		{"a column with a strange name", "a.yaml", head + "    world: {rows: {a.b: [{'c`': 1}]}}", "world.rows.a.b[0].c`: \"c`\" is not the name of a column"},
		{"a number that is none", "a.yaml", head + "    world: {rows: {a.b: [{c: 1.5}]}}", "world.rows.a.b[0].c: 1.5 is not a whole number; quote it as a text"},
		{"an octal number", "a.yaml", head + "    world:\n      rows:\n        a.b:\n          - c: 0123", `a.yaml:8: case "a": world.rows.a.b[0].c: 0123 is the number 83 in YAML; write that, or quote it as a text`},
		{"a list in a column", "a.yaml", head + "    world: {rows: {a.b: [{c: [1]}]}}", "world.rows.a.b[0].c: a text, a whole number, true, false or null belongs here"},
		{"a time in a column", "world.yaml", "rows:\n  a.b:\n    - c: 2026-01-01", "world.yaml:3: rows.a.b[0].c: YAML takes this for a time; quote it as a text, or give an epoch"},
		{"a receiver with a space", "a.yaml", head + "    world: {receivers: {'a b': {}}}", `world.receivers.a b: "a b" is not small letters and digits`},
		{"no status", "a.yaml", head + "    world: {receivers: {a: {answers: [{status: 99}]}}}", "world.receivers.a.answers[0].status: 99 is no status that a server answers with; give 200 to 599"},
		{"a header of two lines", "a.yaml", head + `    world: {receivers: {a: {answers: [{headers: {A: "b\nc"}}]}}}`, `world.receivers.a.answers[0].headers.A: "A": "b\nc" is no header`},
		{"a delay without unit", "a.yaml", head + "    world: {receivers: {a: {answers: [{delay: 5}]}}}", `a.yaml:5: "5": a duration with its unit belongs here, as 300ms or 2s`},
		{"a delay that is no text", "a.yaml", head + "    world: {receivers: {a: {answers: [{delay: soon}]}}}", `a.yaml:5: "soon": a duration with its unit belongs here, as 300ms or 2s`},
		{"a negative delay", "a.yaml", head + "    world: {receivers: {a: {answers: [{delay: -5s}]}}}", "world.receivers.a.answers[0].delay: -5s is out of range; it is 0 to 2m0s"},
		{"reset and close", "a.yaml", head + "    world: {receivers: {a: {answers: [{reset: true, close: true}]}}}", "a connection is either reset or closed"},
		{"an answer on a cut connection", "a.yaml", head + "    world: {receivers: {a: {answers: [{reset: true, body: x}]}}}", "a connection that is cut carries no answer"},
		{"a lock without a name", "a.yaml", head + "    world: {locks: ['']}", "world.locks[0]: the name of a lock belongs here, as webhook(PHID-HWBH-1)"},
		{"a lock twice", "a.yaml", head + "    world: {locks: [x, x]}", "world.locks[1]: x is held already; nobody holds a lock twice"},
		{"a volatile table", "a.yaml", head + "    volatile: [{column: a.b, reason: x}]", `volatile[0].column: "a.b" is not database.table.column`},
		{"a volatile part of nothing", "a.yaml", head + "    volatile: [{column: request.method, reason: x}]", `volatile[0].column: "request.method" is no part of a request; there are request.target`},
		{"all of a volatile header", "a.yaml", head + "    volatile: [{column: request.headers., reason: x}]", `"request.headers." is no part of a request`},
		{"all of a volatile body", "a.yaml", head + "    volatile: [{column: request.body, reason: x}]", "volatile[0].pattern: say which part of request.body is volatile"},
		{"a broken pattern", "a.yaml", head + "    volatile: [{column: a.b.c, pattern: '(', reason: x}]", "volatile[0].pattern: error parsing regexp"},
		{"volatile without a reason", "a.yaml", head + "    volatile: [{column: a.b.c}]", "volatile[0].reason: say why two runs of the same side differ in it"},
		{"a deviation without id", "a.yaml", head + "    deviation: {reason: x}", "deviation.id: name the entry of DEVIATIONS.md"},
		{"a deviation without reason", "a.yaml", head + "    deviation: {id: x, reason: ' '}", "deviation.reason: say in a sentence what Go does instead and why"},
		{"declined and deviating", "a.yaml", head + "    declines: true\n    deviation: {id: x, reason: x}", `a.yaml:5: case "a": declines: a case that Go declines deviates in nothing`},
		{"an unknown placeholder", "a.yaml", "cases: [{name: a, taskClass: A, data: '{{today}}'}]", "data: unknown placeholder {{today}}; there are {{now}}, {{now-300}}, {{now+60}}, {{receiver NAME}} and {{closed}}"},
		{"a placeholder that does not end", "a.yaml", "cases: [{name: a, taskClass: A, data: '{{now}'}]", `data: "{{now}" begins a placeholder and does not end it`},
		{"a receiver that is not there", "a.yaml", head + "    world: {rows: {a.b: [{c: '{{receiver x}}'}]}, receivers: {y: {}}}", "world.rows.a.b[0].c: {{receiver x}} names a receiver that the world does not have; it has: y"},
		{"a placeholder in the world of the folder", "world.yaml", "options: {a: [b, '{{x}}']}", "world.yaml:1: options.a[1]: unknown placeholder {{x}}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t, map[string]string{c.file: c.content})
			_, err := LoadFolder(dir)
			if want := strings.ReplaceAll(c.want, "DIR", dir); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is\n%v\nand is to contain\n%s", err, want)
			}
			if err != nil && !strings.Contains(err.Error(), dir) {
				t.Errorf("the error does not say where: %v", err)
			}
		})
	}
}

func TestAllThatIsWrongIsToldAtOnce(t *testing.T) {
	_, err := LoadFolder(folder(t, map[string]string{
		"world.yaml": "locks: ['']",
		"a.yaml":     "cases: [{name: A, taskClass: A}]",
		"b.yaml":     "case: []",
	}))
	for _, want := range []string{"world.yaml:1", "name:", "data:", "b.yaml:1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestAnchorsShareWhatCasesHaveInCommon(t *testing.T) {
	f, err := LoadFolder(folder(t, map[string]string{"a.yaml": `
cases:
  - &first
    name: first
    taskClass: A
    data: '1'
    world: {rows: {a.b: [&row {c: 1}]}, receivers: {r: &r {answers: [{delay: 1s}]}}}
  - <<: *first
    name: second
    world: {rows: {a.b: [*row, {<<: *row, d: 2}]}, receivers: {r: *r}}
`}))
	if err != nil {
		t.Fatal(err)
	}
	second := f.Cases[1]
	if diff := cmp.Diff(map[string][]Row{"a.b": {{"c": 1}, {"c": 1, "d": 2}}}, second.World.Rows); diff != "" || second.Data != "1" {
		t.Errorf("%q %s", second.Data, diff)
	}
}

func TestPlaceholdersAreExpandedEverywhere(t *testing.T) {
	c := Case{
		Name: "a", Data: `{"at":{{now}},"in":"{{now+60}}"}`,
		Task: TaskColumns{ObjectPHID: new("{{now-300}}"), ContainerPHID: new("x")},
		World: World{
			Options:   map[string]any{"a": map[string]any{"b": []any{"{{receiver r}}", 1, nil}}},
			Rows:      map[string][]Row{"a.b": {{"c": "{{closed}}", "d": 2}}},
			Receivers: map[string]Receiver{"r": {Answers: []Answer{{Headers: map[string]string{"Location": "http://{{receiver r}}/"}, Body: "{{now}}"}}}},
			Locks:     []string{"{{now}}"},
		},
	}
	frame := Frame{Case: c, Start: 1791234567, Receivers: map[string]string{"r": "127.0.0.1:81"}, Closed: "127.0.0.1:82"}
	got, err := frame.Expand()
	if err != nil {
		t.Fatal(err)
	}
	want := Case{
		Name: "a", Data: `{"at":1791234567,"in":"1791234627"}`,
		Task: TaskColumns{ObjectPHID: new("1791234267"), ContainerPHID: new("x")},
		World: World{
			Options:   map[string]any{"a": map[string]any{"b": []any{"127.0.0.1:81", 1, nil}}},
			Rows:      map[string][]Row{"a.b": {{"c": "127.0.0.1:82", "d": 2}}},
			Receivers: map[string]Receiver{"r": {Answers: []Answer{{Headers: map[string]string{"Location": "http://127.0.0.1:81/"}, Body: "1791234567"}}}},
			Locks:     []string{"1791234567"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if c.World.Rows["a.b"][0]["c"] != "{{closed}}" || *c.Task.ObjectPHID != "{{now-300}}" {
		t.Error("the case itself was changed")
	}
	frame.Case.Data = "{{nowhere}}"
	if _, err := frame.Expand(); err == nil || !strings.HasPrefix(err.Error(), "case a: data: unknown placeholder {{nowhere}}") {
		t.Error(err)
	}
}

func TestGoldens(t *testing.T) {
	f, err := LoadFolder(folder(t, map[string]string{
		"a.yaml": `
cases:
  - {name: plain, taskClass: A, data: '1', world: {rows: {herald.herald_webhook: []}}}
  - {name: other, taskClass: A, data: '1', deviation: {id: x, reason: x}}
`,
		"golden/gone.yaml": "", "golden/plain.go.yaml": "",
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, missing := range []func() error{
		func() error { _, err := f.Want(f.Cases[0]); return err },
		func() error { _, err := f.Schema(); return err },
	} {
		if err := missing(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "gantry contract record") {
			t.Errorf("what was not recorded: %v", err)
		}
	}
	php := Observation{Outcome: Outcome{Kind: tasks.Failed}, Changes: []Change{{Table: "a.b", Kind: Removed, Key: "1"}}}
	ours := Observation{Outcome: Outcome{Kind: tasks.Succeeded}}
	plain, other := f.Cases[0], f.Cases[1]
	for _, c := range f.Cases {
		if err := f.SaveGolden(c, php); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.SaveGoldenOfGo(other, php); err == nil || !strings.Contains(err.Error(), "remove the deviation") {
		t.Errorf("a deviation that is none: %v", err)
	}
	if err := f.SaveGoldenOfGo(other, ours); err != nil {
		t.Fatal(err)
	}
	for i, want := range []Observation{php, ours} {
		if got, err := f.Want(f.Cases[i]); err != nil || !cmp.Equal(want, got) {
			t.Errorf("%s: %v %v", f.Cases[i].Name, got, err)
		}
	}
	for name, change := range map[string]func(c *Case){
		"its data":             func(c *Case) { c.Data = "2" },
		"the world":            func(c *Case) { c.World.Locks = []string{"a"} },
		"a row of the world":   func(c *Case) { c.World.Rows = map[string][]Row{"herald.herald_webhook": {{"id": 1}}} },
		"a column of the task": func(c *Case) { c.Task.FailureCount = 1 },
		"what is volatile":     func(c *Case) { c.Volatile = []Volatile{{Column: "a.b.c"}} },
	} {
		for _, c := range []Case{plain, other} {
			if err := f.Current(c); err != nil {
				t.Error(err)
			}
			change(&c)
			if err := f.Current(c); !errors.Is(err, ErrChanged) {
				t.Errorf("%s of case %s was changed: %v", name, c.Name, err)
			}
		}
	}
	plain.About, plain.Declines = "Something.", true
	if err := f.Current(plain); err != nil {
		t.Errorf("what is said of a case changes nothing: %v", err)
	}
	stale, err := f.Stale()
	if want := []string{f.golden("gone"), f.goldenOfGo("plain")}; err != nil || !cmp.Equal(want, stale) {
		t.Errorf("stale are %q, %v", stale, err)
	}
	tables, err := f.Tables()
	if want := []string{"a.b", "herald.herald_webhook"}; err != nil || !cmp.Equal(want, tables) {
		t.Errorf("tables are %q, %v", tables, err)
	}
	if err := os.WriteFile(f.golden("plain"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Golden("plain"); err == nil || !strings.Contains(err.Error(), "gantry contract record") {
		t.Errorf("an empty golden: %v", err)
	}
}
