package stage

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks"
)

const threeCases = `cases:
  - name: yes
    taskClass: AcmeWorker
    data: '{"name": "x", "more": [1, 2]}'
    world:
      options: {acme.name: one}
      rows: {acme.acme_thing: [{name: old, flags: 1}], acme.acme_edge: [{src: a}]}
  - name: no
    taskClass: AcmeWorker
    data: '{"name": ""}'
  - name: other
    taskClass: AcmeWorker
    data: '{"name": "x"}'
    world:
      options: {acme.name: one}
    deviation: {id: "1", reason: Go shouts.}
`

// suiteOf writes a folder of cases and answers all of them.
func suiteOf(t *testing.T, cases string) Suite {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cases.yaml"), []byte(cases), 0o600); err != nil {
		t.Fatal(err)
	}
	folder, err := contract.LoadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return Suite{Folder: folder, Cases: folder.Cases}
}

// renames answers a side that renames the things to what a function makes of the
// name in the data. Without a name it fails.
func renames(s *Stage, to func(name string) string) Shadower {
	return s.Handlers(plugins.Handler{
		Class: "AcmeWorker", Databases: []string{"acme"},
		Handle: func(ctx context.Context, task *plugins.Task) error {
			var data struct{ Name string }
			if err := task.Decode(&data); err != nil {
				return err
			}
			if data.Name == "" {
				return errors.New("no name")
			}
			_, err := task.DB("acme").Exec(ctx, "UPDATE acme_thing SET name = ?", to(data.Name))
			return err
		},
	})
}

func same(name string) string { return name }

func statuses(r contract.Report) map[string]string {
	all := map[string]string{}
	for _, result := range r.Results {
		all[result.Case.Name] = result.Status()
	}
	return all
}

func recorded(goldens []Golden) map[string]Recorded {
	all := map[string]Recorded{}
	for _, g := range goldens {
		all[g.Case.Name+" "+g.Side] = g.Recorded
	}
	return all
}

func TestWhatIsRecordedIsWhatGoIsHeldAgainst(t *testing.T) {
	s := newStage(t)
	u := suiteOf(t, threeCases)
	yell := func(name string) string { // a name that nobody else gives
		if name == "x" {
			return "X!"
		}
		return name
	}
	u.Cases[2].World.Rows = map[string][]contract.Row{"acme.acme_thing": {{"name": "old"}}}
	for _, c := range []struct {
		name   string
		php    func(string) string
		update bool
		want   map[string]Recorded
	}{
		{"the first time", same, false, map[string]Recorded{"yes PHP": RecordedNew, "no PHP": RecordedNew, "other PHP": RecordedNew, "other Go": RecordedNew}},
		{"again", same, false, map[string]Recorded{"yes PHP": RecordedSame, "no PHP": RecordedSame, "other PHP": RecordedSame, "other Go": RecordedSame}},
		{"something else", strings.ToUpper, false, map[string]Recorded{"yes PHP": RecordedNot, "no PHP": RecordedSame, "other PHP": RecordedNot, "other Go": RecordedSame}},
		{"still something else", strings.ToUpper, true, map[string]Recorded{"yes PHP": RecordedOver, "no PHP": RecordedSame, "other PHP": RecordedOver, "other Go": RecordedSame}},
	} {
		goldens, err := s.Record(t.Context(), u, renames(s, c.php), renames(s, yell), c.update)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, recorded(goldens)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		for _, g := range goldens {
			if g.Err != nil {
				t.Errorf("%s: %v", c.name, g.Err)
			}
			if shown := len(g.Differences) > 0; shown != (g.Recorded == RecordedNot || g.Recorded == RecordedOver) {
				t.Errorf("%s: %s shows %v", c.name, g.Case.Name, fieldsOf(g.Differences))
			}
		}
	}
	schema, err := u.Folder.Schema()
	if err != nil || !strings.Contains(schema, "CREATE TABLE acme.acme_thing (") || !strings.Contains(schema, "CREATE TABLE acme.acme_edge (") {
		t.Errorf("schema.sql is %q, %v", schema, err)
	}

	// Where there is nothing but what was recorded.
	elsewhere := openEmpty(t)
	if err := elsewhere.Prepare(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	var told []string
	u.Tell = func(_ int, c contract.Case) { told = append(told, c.Name) }
	report, err := elsewhere.Verify(t.Context(), u, renames(elsewhere, func(name string) string { return yell(name) }))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"yes": "different", "no": "equal", "other": "equal"}, statuses(report)); diff != "" {
		t.Error(diff)
	}
	if got := fieldsOf(report.Results[0].Differences); got != "changes[acme.acme_thing 500000].name.after" {
		t.Errorf("what differs is %s", got)
	}
	if diff := cmp.Diff([]string{"no", "yes", "other"}, told); diff != "" {
		t.Errorf("cases with the same options run together: %s", diff)
	}
	if report.Results[0].Case.Name != "yes" {
		t.Error("the results are not in the order of the cases")
	}
}

func TestChanceIsNotRecorded(t *testing.T) {
	s := newStage(t)
	u := suiteOf(t, threeCases)
	u.Cases = u.Cases[:1]
	goldens, err := s.Record(t.Context(), u, renames(s, func(string) string { return rand.Text() }), nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(goldens) != 1 || goldens[0].Err == nil || !strings.Contains(goldens[0].Err.Error(), "two runs of it differ:\nchanges[acme.acme_thing 500000].name.after\n  - first:  \"") ||
		!strings.Contains(goldens[0].Err.Error(), "\n  - column: acme.acme_thing.name\n    pattern: ") {
		t.Errorf("recorded %+v", goldens)
	}
	if _, err := u.Folder.Golden("yes"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a golden, or %v", err)
	}
}

func TestACaseThatWasNotRecordedCannotBeVerified(t *testing.T) {
	s := newStage(t)
	report, err := s.Verify(t.Context(), suiteOf(t, threeCases), renames(s, same))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"yes": "error", "no": "error", "other": "error"}, statuses(report)); diff != "" {
		t.Error(diff)
	}
}

func TestBothSidesAreComparedLiveAndADifferenceIsMadeSmaller(t *testing.T) {
	s := newStage(t)
	u := suiteOf(t, threeCases)
	u.Cases = u.Cases[:2]
	report, err := s.Live(t.Context(), u, renames(s, same), renames(s, strings.ToUpper), true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"yes": "different", "no": "equal"}, statuses(report)); diff != "" {
		t.Error(diff)
	}
	small := report.Results[0].Shrunk
	if small == nil {
		t.Fatal("no smaller case")
	}
	if c := small.Case; c.Name != "yes-small" || !strings.Contains(c.About, "case yes") || len(c.World.Options) > 0 || len(c.World.Rows) != 1 ||
		len(c.World.Rows["acme.acme_thing"]) != 1 || strings.Contains(c.Data, "more") {
		t.Errorf("the smaller case is %+v", c)
	}
	if got := fieldsOf(small.Differences); got != "changes[acme.acme_thing 500000].name.after" {
		t.Errorf("it differs in %s", got)
	}
	if report.Results[1].Shrunk != nil {
		t.Error("a case that does not differ was made smaller")
	}
}

func TestADeviationIsHeldAgainstItsOwnRecordAndPHPAgainstTheirs(t *testing.T) {
	s := newStage(t)
	u := suiteOf(t, threeCases)
	u.Cases = u.Cases[2:]
	u.Cases[0].World.Rows = map[string][]contract.Row{"acme.acme_thing": {{"name": "old"}}}
	if _, err := s.Record(t.Context(), u, renames(s, same), renames(s, strings.ToUpper), false); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		php, ours func(string) string
		want      string
	}{
		{"as recorded", same, strings.ToUpper, "equal"},
		{"Go does what PHP does", same, same, "different"},
		{"PHP does something else", func(string) string { return "z" }, strings.ToUpper, "error"},
	} {
		report, err := s.Live(t.Context(), u, renames(s, c.php), renames(s, c.ours), false)
		if err != nil {
			t.Fatal(err)
		}
		if got := report.Results[0].Status(); got != c.want {
			t.Errorf("%s: %s, want %s (%v)", c.name, got, c.want, report.Results[0].Err)
		}
	}
}

func TestAnInterruptedSuiteSaysSo(t *testing.T) {
	s := newStage(t)
	u := suiteOf(t, threeCases)
	ctx, cancel := context.WithCancel(t.Context())
	u.Tell = func(int, contract.Case) { cancel() }
	report, err := s.Verify(ctx, u, renames(s, same))
	if !errors.Is(err, context.Canceled) || report.OK() || report.Interrupted != "no" || report.Missing != 2 {
		t.Errorf("the error is %v, and the report %+v", err, report)
	}
	if diff := cmp.Diff(map[string]string{"no": "error"}, statuses(report)); diff != "" {
		t.Errorf("what ran is not reported: %s", diff)
	}
}

// TestWhyAHandlerDidOtherwiseIsTold: a panic's message and where it happened, and
// what was printed, of the case that differs and of no other.
func TestWhyAHandlerDidOtherwiseIsTold(t *testing.T) {
	s := newStage(t)
	side := s.Go(manifestOf(t, true), zerolog.Nop())
	defer side.Close()
	u := suiteOf(t, "cases: [{name: loud, taskClass: AcmeWorker, data: '\"panic\"'}, {name: sent, taskClass: AcmeWorker, data: '\"{{receiver a}}\"', world: {receivers: {a: {}}}}]\n")
	php := does(s, func(context.Context, *plugins.Task) error { return plugins.Fail(errors.New("PHP says no")) })
	report, err := s.Live(t.Context(), u, php, side, false)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := report.Text(&text, false); err != nil {
		t.Fatal(err)
	}
	loud, sent, _ := strings.Cut(text.String(), "sent (AcmeWorker)")
	for _, want := range []string{"PHP: PHP says no\n", "Go: panic: it went wrong\n", "main.handle\n", "The handler printed:\n    what now?\n"} {
		if !strings.Contains(loud, want) {
			t.Errorf("%q is missing: %s", want, text.String())
		}
	}
	if strings.Contains(sent, "printed") || strings.Contains(sent, "wrong") {
		t.Errorf("another case has it too: %s", sent)
	}
}

func TestAHandlerThatHangsIsNamedAndTheNextCaseRuns(t *testing.T) {
	s := newStage(t)
	manifest := manifestOf(t, true)
	side := s.Go(manifest, zerolog.Nop())
	defer side.Close()
	u := suiteOf(t, "cases: [{name: stuck, taskClass: AcmeWorker, data: '\"hang\"'}, {name: sent, taskClass: AcmeWorker, data: '\"{{receiver a}}\"', world: {receivers: {a: {}}}}]\n")
	php := does(s, func(context.Context, *plugins.Task) error { return nil })
	stuck, sent := u, u
	stuck.Cases, sent.Cases, stuck.Timeout = u.Cases[:1], u.Cases[1:], 1500*time.Millisecond
	report, err := s.Live(t.Context(), stuck, php, side, false)
	if err != nil {
		t.Fatal(err)
	}
	if r := report.Results[0]; r.Err == nil || !strings.Contains(r.Err.Error(), "case stuck: shadow run: still in Handle after 1.5 s") || !slices.Equal(r.Printed, []string{"waiting for nothing"}) {
		t.Errorf("%v, %q", r.Err, r.Printed)
	}
	if report, err = s.Live(t.Context(), sent, php, side, false); err != nil || report.Results[0].Err != nil {
		t.Errorf("the next case: %v, %v", err, report.Results[0].Err)
	}
	if got := s.longest(side, "AcmeWorker"); got != caseTime {
		t.Errorf("without a timeout and a deadline it is %v", got)
	}
	manifest.Plugins[0].Classes["AcmeWorker"] = host.Class{Deadline: time.Hour}
	if got := s.longest(side, "AcmeWorker"); got != time.Hour {
		t.Errorf("with a deadline it is %v", got)
	}
}

// TestASmallerCaseDiffersInTheSameWay: without its name the task is declined, and
// without its row nothing is changed, which differ as well.
func TestASmallerCaseDiffersInTheSameWay(t *testing.T) {
	s := newStage(t)
	u := suiteOf(t, threeCases)
	u.Cases = u.Cases[:1]
	declines := s.Handlers(plugins.Handler{
		Class: "AcmeWorker", Databases: []string{"acme"},
		Handle: func(ctx context.Context, task *plugins.Task) error {
			var data struct{ Name string }
			if err := task.Decode(&data); err != nil || data.Name == "" {
				return plugins.Decline("no name")
			}
			_, err := task.DB("acme").Exec(ctx, "UPDATE acme_thing SET name = 'Y'")
			return err
		},
	})
	report, err := s.Live(t.Context(), u, renames(s, same), declines, true)
	if err != nil {
		t.Fatal(err)
	}
	small := report.Results[0].Shrunk
	if small == nil || !strings.Contains(small.Case.Data, `"name"`) || len(small.Case.World.Rows["acme.acme_thing"]) != 1 {
		t.Errorf("the smaller case is %+v", small)
	}
}

// unknown is a Phorge that does not have the class.
type unknown struct{ Side }

func (unknown) Execute(context.Context, tasks.Task, func(time.Duration)) tasks.Outcome {
	return tasks.Outcome{Kind: tasks.Retry, Category: "unknown-class"}
}

func TestAClassThatPHPDoesNotHaveIsNotRecorded(t *testing.T) {
	s := newStage(t)
	u := suiteOf(t, threeCases)
	u.Cases = u.Cases[:1]
	php := unknown{renames(s, same)}
	goldens, err := s.Record(t.Context(), u, php, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(goldens) != 1 || goldens[0].Err == nil || !strings.Contains(goldens[0].Err.Error(), "this Phorge has no class AcmeWorker") {
		t.Errorf("recorded %+v", goldens)
	}
	if _, err := u.Folder.Golden("yes"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a golden, or %v", err)
	}
	if report, err := s.Live(t.Context(), u, php, renames(s, same), false); err != nil || report.Results[0].Status() != contract.StatusError {
		t.Errorf("live: %+v, %v", report, err)
	}
}

// TestAChangedCaseIsNotHeldAgainstItsOldRecord, and recording it again is enough.
func TestAChangedCaseIsNotHeldAgainstItsOldRecord(t *testing.T) {
	s := newStage(t)
	u := suiteOf(t, threeCases)
	u.Cases = u.Cases[1:2]
	side := renames(s, same)
	for _, c := range []struct {
		data, want string
		recorded   Recorded
	}{
		{`{"name": ""}`, "error", RecordedNew},
		{`{"name":""}`, "outdated", RecordedSame},
	} {
		u.Cases[0].Data = c.data
		report, err := s.Verify(t.Context(), u, side)
		if err != nil || report.Results[0].Status() != c.want || report.OK() {
			t.Errorf("%s: %+v, %v", c.data, report, err)
		}
		goldens, err := s.Record(t.Context(), u, side, nil, false)
		if err != nil || goldens[0].Err != nil || goldens[0].Recorded != c.recorded {
			t.Errorf("%s: recorded %+v, %v", c.data, goldens, err)
		}
		if report, err := s.Verify(t.Context(), u, side); err != nil || !report.OK() {
			t.Errorf("%s, recorded: %+v, %v", c.data, report, err)
		}
	}
}

func TestARecordedTableIsNotWrittenOverUnasked(t *testing.T) {
	s := newStage(t)
	u := suiteOf(t, threeCases[:strings.Index(threeCases, "  - name: other")])
	record := func(update bool) *Golden {
		t.Helper()
		goldens, err := s.Record(t.Context(), u, renames(s, same), nil, update)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range goldens {
			if g.Case.Name == SchemaCase {
				return &g
			}
		}
		return nil
	}
	schema := func() string {
		t.Helper()
		text, err := u.Folder.Schema()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if g := record(false); g != nil {
		t.Errorf("the first time, the tables are %s", g.Recorded)
	}
	now := schema()
	other := strings.Replace(now, "CREATE TABLE acme.acme_thing (\n", "CREATE TABLE acme.acme_thing (\n  `more` int(10) unsigned NOT NULL,\n", 1)
	lacking := other[:strings.Index(other, "CREATE TABLE worker.worker_taskdata")] + "-- by hand\n"
	if err := u.Folder.SaveSchema(other); err != nil || other == now {
		t.Fatal(err)
	}
	g := record(false)
	if g == nil || g.Recorded != RecordedNot || fieldsOf(g.Differences) != "acme.acme_thing" || schema() != other {
		t.Errorf("a table that is another one now came to %+v; recorded is\n%s", g, schema())
	}
	if err := u.Folder.SaveSchema(lacking); err != nil {
		t.Fatal(err)
	}
	if g := record(false); g == nil || g.Recorded != RecordedNot || fieldsOf(g.Differences) != "acme.acme_thing" || !strings.Contains(schema(), "`more`") || !strings.Contains(schema(), "CREATE TABLE worker.worker_taskdata (") {
		t.Errorf("a table that is new came to %+v; recorded is\n%s", g, schema())
	}
	if g := record(true); g == nil || g.Recorded != RecordedOver || schema() != now {
		t.Errorf("asked to write over it, it came to %+v; recorded is\n%s", g, schema())
	}
	if g := record(false); g != nil {
		t.Errorf("tables as they are recorded came to %+v", g)
	}
}
