package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// contractCases are two cases of the class that handler-testworker takes.
const contractCases = `cases:
  - name: nothing
    taskClass: PhabricatorTestWorker
    data: "[]"
  - name: fails
    taskClass: PhabricatorTestWorker
    data: '{"doWork": "fail-permanent"}'
`

func casesFolder(t *testing.T, cases string) string {
	t.Helper()
	return filepath.Dir(writeFile(t, "cases.yaml", cases, 0o600))
}

func TestContractRefusesWhatCannotWork(t *testing.T) {
	cases := casesFolder(t, contractCases)
	other := casesFolder(t, strings.ReplaceAll(contractCases, "PhabricatorTestWorker", "AcmeWorker"))
	manifest := writeFile(t, "plugins.yaml", "plugins: [{path: /bin/true, classes: {PhabricatorTestWorker: {}}}]\n", 0o600)
	deviates := casesFolder(t, contractCases+"    deviation: {id: \"1\", reason: Go is loud.}\n")
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"verify --plugins " + manifest, exitUsage, "name the folder of cases with --cases"},
		{"verify --cases /nowhere --plugins " + manifest, exitUsage, "read the folder of cases"},
		{"verify --cases " + casesFolder(t, "cases: [{nmae: x}]\n") + " --plugins " + manifest, exitUsage, "nmae"},
		{"verify --cases " + cases, exitUsage, "name one with --plugins"},
		{"verify --cases " + cases + " --only x-* --plugins " + manifest, exitUsage, "no case of"},
		{"verify --cases " + cases + " --only [ --plugins " + manifest, exitUsage, "is no pattern"},
		{"verify --cases " + other + " --plugins " + manifest, exitUsage, "no handler binary of the manifest takes class AcmeWorker"},
		{"verify --cases " + cases + " --plugins " + manifest, exitUsage, "`gantry contract record` writes it"},
		{"verify --cases " + cases + " --server u:secret@tcp(h)/ --plugins " + manifest, exitUsage, "GANTRY_CONTRACT_SERVER"},
		{"record --cases " + cases, exitUsage, "name the directory of a Phorge with --phorge"},
		{"record --cases " + cases + " --phorge /nowhere", exitUsage, "is no checkout of phorge"},
		{"record --cases " + deviates + " --phorge /nowhere", exitUsage, "case fails declares that Go does something else"},
		{"live --cases " + cases + " --phorge /nowhere --plugins " + manifest, exitUsage, "is no checkout of phorge"},
	} {
		got := command(t, nil, "", append([]string{"contract"}, strings.Fields(c.line)...)...)
		if got.code != c.code || !strings.Contains(got.err, c.want) || strings.Contains(got.err, "secret") {
			t.Errorf("%s: exit code %d, %s", c.line, got.code, got.err)
		}
	}
}

func TestTheServerOfContractVerifyComesFromTheEnvironmentWithItsPassword(t *testing.T) {
	manifest := writeFile(t, "plugins.yaml", "plugins: [{path: /bin/true, classes: {PhabricatorTestWorker: {}}}]\n", 0o600)
	dir := casesFolder(t, contractCases)
	if err := os.WriteFile(filepath.Join(dir, "schema.sql"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, err bytes.Buffer
	a := &app{out: &out, err: &err, configFile: filepath.Join(dir, "none.yaml"), environ: []string{serverVariable + "=u:secret@unix(/nowhere)/"}}
	code := a.main([]string{"contract", "verify", "--cases", dir, "--plugins", manifest})
	if code != exitUnavailable || !strings.Contains(err.String(), "/nowhere") || strings.Contains(err.String(), "secret") {
		t.Errorf("exit code %d, %s", code, err.String())
	}
}

// recordedFolder has a record of the cases, made of what the handler itself does:
// what PHP does is recorded in the live tests.
func recordedFolder(t *testing.T, server *scratch.MariaDB, manifest string) string {
	t.Helper()
	dir := casesFolder(t, contractCases)
	others, err := os.ReadFile("../../contract/stage/testdata/schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	s := suite{dir: dir}
	u, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := loadManifest(&config{Plugins: manifest})
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{}
	defer g.Close()
	a := &app{}
	if err := g.open(t.Context(), server.DSN(""), "contract_test", a.caseLogger(&config{LogLevel: "error"})); err != nil {
		t.Fatal(err)
	}
	if err := g.stage.Prepare(t.Context(), harness.RecordedSchema(string(others))); err != nil {
		t.Fatal(err)
	}
	side, err := g.handlers(t.Context(), loaded, u.Cases, a.caseLogger(&config{LogLevel: "error"}))
	if err != nil {
		t.Fatal(err)
	}
	goldens, err := g.stage.Record(t.Context(), u, side, nil, false)
	if err != nil || len(goldens) != 2 || goldens[0].Recorded != stage.RecordedNew {
		t.Fatalf("recorded %+v, %v", goldens, err)
	}
	return dir
}

func TestVerifyHoldsHandlersAgainstARecord(t *testing.T) {
	programs := t.TempDir()
	build(t, programs)
	manifest := manifestOf(t, filepath.Join(programs, "handler-testworker"), "PhabricatorTestWorker", "{}")
	server, err := scratch.Start(scratch.Options{Args: []string{"--userstat=0"}}) // as the servers of others
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	variables := globals(t, server)
	dir := recordedFolder(t, server, manifest)
	junit := filepath.Join(t.TempDir(), "report.xml")

	got := command(t, nil, "", "contract", "verify", "--cases", dir, "--plugins", manifest, "--junit", junit)
	if got.code != exitOK || !strings.Contains(got.out, "2 cases, 2 equal") ||
		!strings.Contains(got.err, "Starting a private MariaDB ...\nVerifying 2 cases ...\n") {
		t.Errorf("on a server of its own: exit code %d, %s%s", got.code, got.out, got.err)
	}
	if report, err := os.ReadFile(junit); err != nil || !strings.Contains(string(report), `tests="2" failures="0"`) {
		t.Errorf("the JUnit report is %s, %v", report, err)
	}

	got = command(t, nil, "", "contract", "verify", "--cases", dir, "--plugins", manifest, "--server", server.DSN(""), "--only", "fails", "--output", "json")
	var report struct {
		OK    bool
		Cases []struct{ Case string }
	}
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != exitOK || !report.OK || len(report.Cases) != 1 || report.Cases[0].Case != "fails" {
		t.Errorf("on a server that is there: exit code %d, %s%s", got.code, got.out, got.err)
	}

	if diff := cmp.Diff(variables, globals(t, server)); diff != "" {
		t.Errorf("variables of the server were changed: %s", diff)
	}

	// A binary that was just built is not pinned, and one that takes no such class
	// is wrong once, not in each case.
	content, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	pin := regexp.MustCompile(`sha256: *\S+`)
	unpinned := writeFile(t, "plugins.yaml", pin.ReplaceAllString(string(content), `sha256: ""`), 0o600)
	got = command(t, nil, "", "contract", "verify", "--cases", dir, "--plugins", unpinned, "--server", server.DSN(""))
	if got.code != exitOK || string(content) == pin.ReplaceAllString(string(content), `sha256: ""`) {
		t.Errorf("without a pin: exit code %d, %s%s", got.code, got.out, got.err)
	}
	noHandler := writeFile(t, "plugins.yaml", "plugins: [{path: /bin/true, classes: {PhabricatorTestWorker: {}}}]\n", 0o600)
	got = command(t, nil, "", "contract", "verify", "--cases", dir, "--plugins", noHandler, "--server", server.DSN(""))
	if got.code != exitUsage || got.out != "" || strings.Contains(got.err, "Verifying") || strings.Count(got.err, "\n") != 1 || !strings.Contains(got.err, "/bin/true ended at start") {
		t.Errorf("without a handler: exit code %d, %s%s", got.code, got.out, got.err)
	}

	golden := filepath.Join(dir, "golden", "fails.yaml")
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(golden, []byte(strings.Replace(string(text), "kind: failed", "kind: retry", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "golden", "gone.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	got = command(t, nil, "", "contract", "verify", "--cases", dir, "--plugins", manifest, "--server", server.DSN(""))
	if got.code != exitFailed || !strings.Contains(got.out, "outcome.kind") || !strings.Contains(got.err, "gone.yaml") {
		t.Errorf("what differs: exit code %d, %s%s", got.code, got.out, got.err)
	}

	if err := server.Exec(t.Context(), "", "CREATE DATABASE phabricator_worker"); err != nil {
		t.Fatal(err)
	}
	got = command(t, nil, "", "contract", "verify", "--cases", dir, "--plugins", manifest, "--server", server.DSN(""))
	if got.code != exitUsage || !strings.Contains(got.err, "holds phabricator_worker, the database of a Phorge") {
		t.Errorf("on the server of a Phorge: exit code %d, %s", got.code, got.err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	got = command(t, nil, "", "contract", "verify", "--cases", dir, "--plugins", manifest, "--server", server.DSN(""))
	if got.code != exitUnavailable {
		t.Errorf("without a server: exit code %d, %s", got.code, got.err)
	}
}

// globals answers what is set for a whole server, and stays as it is by itself.
func globals(t *testing.T, server *scratch.MariaDB) map[string]string {
	t.Helper()
	db := harness.Open(t, server.DSN(""))
	defer db.Close()
	found, err := db.Query("SELECT VARIABLE_NAME, GLOBAL_VALUE FROM information_schema.SYSTEM_VARIABLES WHERE GLOBAL_VALUE IS NOT NULL AND READ_ONLY = 'NO'")
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	variables := map[string]string{}
	for found.Next() {
		var name, value string
		if err := found.Scan(&name, &value); err != nil {
			t.Fatal(err)
		}
		variables[name] = value
	}
	return variables
}

// TestAnInterruptedReportIsWrittenAsFarAsItGoes: CI that cancels a job still shows
// which case hung.
func TestAnInterruptedReportIsWrittenAsFarAsItGoes(t *testing.T) {
	junit := filepath.Join(t.TempDir(), "report.xml")
	var out bytes.Buffer
	a := &app{print: newPrinter(&out, false)}
	report := contract.Report{Name: "acme", Interrupted: "slow", Missing: 3, Results: []contract.Result{
		{Case: contract.Case{Name: "slow"}, Err: errors.New("interrupted while it ran")},
	}}
	err := a.report(report, context.Canceled, junit)
	if exitCode(err) != exitFailed || !strings.Contains(explain(err), "interrupted in case slow; 3 cases were not run") {
		t.Errorf("the error is %v", err)
	}
	if content, err := os.ReadFile(junit); err != nil || !strings.Contains(string(content), `name="slow"`) {
		t.Errorf("the JUnit report is %s, %v", content, err)
	}
	if err := a.print.flush(); err != nil || !strings.Contains(out.String(), "1 could not run; interrupted in slow, 3 not run") {
		t.Errorf("the report is %s", out.String())
	}
}

func TestAnOptionThatPhorgeDoesNotHaveIsRefused(t *testing.T) {
	cases := []contract.Case{{Name: "a", World: contract.World{Options: map[string]any{"phabricator.silent": true, "phabricator.slient": true}}}}
	err := knownOptions([]string{"phabricator.base-uri", "phabricator.silent"}, cases)
	if exitCode(err) != exitUsage || !strings.Contains(err.Error(), `case a: this Phorge has no option "phabricator.slient"`) {
		t.Errorf("the error is %v", err)
	}
	if err := knownOptions([]string{"phabricator.slient", "phabricator.silent"}, cases); err != nil {
		t.Error(err)
	}
}

// TestRecordsAreToldAsVerifyTells: a nested part as lines, and in JSON one document
// with the keys of verify.
func TestRecordsAreToldAsVerifyTells(t *testing.T) {
	request, now := "method: POST\nheaders: {}\n", "1"
	of := contract.Case{Name: "sent", TaskClass: "AcmeWorker"}
	goldens := []stage.Golden{
		{Case: of, Side: "PHP", Recorded: stage.RecordedNot, Differences: []contract.Difference{
			{Field: "requests[1]", Want: &request}, {Field: "outcome.wait", Want: &request, Got: &now},
		}},
		{Case: of, Side: "Go", Err: errors.New("gone")},
	}
	var out bytes.Buffer
	a := &app{print: newPrinter(&out, false)}
	if err := errors.Join(a.printGoldens("acme", goldens), a.print.flush()); exitCode(err) != exitFailed {
		t.Errorf("the error is %v", err)
	}
	for _, want := range []string{
		"sent (PHP): kept, and now something else comes of it\n", "    - Recorded:\n    -   method: POST\n    -   headers: {}\n    + Now:      nothing\n",
		"sent (Go): gone\n", "acme: 0 new, 0 the same, 0 updated, 1 kept, 1 failed\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in %s", want, out.String())
		}
	}
	out.Reset()
	a.print.json = true
	if err := errors.Join(a.printGoldens("acme", goldens), a.print.flush()); exitCode(err) != exitFailed {
		t.Errorf("the error is %v", err)
	}
	var got struct {
		Name         string
		OK           bool
		Kept, Failed int
		Cases        []struct {
			Case, TaskClass, Side, Status, Error string
			Differences                          []struct {
				Field     string
				Want, Got *string
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.OK || got.Kept != 1 || got.Failed != 1 || len(got.Cases) != 2 ||
		got.Cases[0].Status != "kept" || *got.Cases[0].Differences[0].Want != request || got.Cases[1].Status != "error" {
		t.Errorf("%v: %s", err, out.String())
	}
}
