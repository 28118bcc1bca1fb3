package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
)

func TestCheckTellsWhatIsRightAndWhatIsNot(t *testing.T) {
	t.Setenv(role, "good")
	plugins := manifest(t, binary(t), "AcmeWorker")
	file := writeFile(t, "gantry.yaml", `
dsn: gantry:hunter2@tcp(db:3306)/phabricator_worker
plugins: `+plugins+`
classes: {AcmeWorker: {slots: 2}, Gone: {deadline: 1m}}
`, 0o644)
	got := command(t, queued(t, 1, "OtherWorker"), "", "config", "check", "--config="+file, "--slots=8")
	expect(t, got, exitOK, strings.NewReplacer("FILE", file, "PLUGINS", plugins, "BINARY", binary(t)).Replace(`
ok       store: it opens; tasks of 1 class are queued
ok       storage: Gantry's own tables are there
warning  class OtherWorker: tasks are queued and nothing here runs them; they stay as they are for whoever can
warning  php: nothing runs PHP, so classes without a plugin stay in the queue: neither phorge nor conduit is set
warning  plugin acme: class AcmeWorker falls back to php, which nothing here runs: its tasks wait while the handler cannot take them
ok       plugin acme: BINARY starts and takes its classes
warning  classes.Gone: nothing here runs the class, so its settings do nothing
`[1:])+settingsTable(file, plugins), fmt.Sprintf("warning: %s is where a password is and everybody on this machine may read it: chmod o-rwx %s\n", file, file))
}

// settingsTable is the second half of the text of a check.
func settingsTable(file, plugins string) string {
	rows := [][]string{
		{"SETTING", "VALUE", "FROM"},
		{"dsn", "gantry:***@tcp(db:3306)/phabricator_worker", file},
		{"dsn_file", "-", "default"}, {"phorge", "-", "default"}, {"sqlite", "-", "default"},
		{"redis", "-", "default"}, {"redis_file", "-", "default"}, {"instance", "-", "default"},
		{"plugins", plugins, file},
		{"php", "auto", "default"}, {"library", "-", "default"}, {"php_binary", "php", "default"},
		{"php_processes", "1..4", "default"}, {"php_pickup_delay", "200ms", "default"},
		{"conduit", "-", "default"}, {"conduit_key_file", "-", "default"}, {"conduit_host", "-", "default"},
		{"conduit_ca", "-", "default"}, {"conduit_token_file", "-", "default"}, {"conduit_connections", "4", "default"}, {"conduit_tasks_per_call", "20", "default"},
		{"slots", "8", "command line"},
		{"lease", "1m0s", "default"}, {"idle_poll", "40ms", "default"}, {"drain_timeout", "30s", "default"},
		{"max_crashes", "3", "default"}, {"pickup_delay", "0s", "default"},
		{"api", "-", "default"}, {"tokens", "-", "default"}, {"api_lease", "2h0m0s", "default"},
		{"api_retry_wait", "5m0s", "default"}, {"api_keep_keys", "24h0m0s", "default"},
		{"api_query_token", "false", "default"}, {"api_max_body", "67108864", "default"},
		{"gateway", "-", "default"}, {"gateway_host", "-", "default"}, {"gateway_ca", "-", "default"},
		{"gateway_listen", "127.0.0.1:8150", "default"}, {"gateway_certificate", "-", "default"},
		{"gateway_certificate_key", "-", "default"}, {"gateway_query_token", "false", "default"}, {"gateway_max_body", "0", "default"},
		{"socket", "-", "default"}, {"metrics", "-", "default"},
		{"log_level", "info", "default"}, {"log_format", "auto", "default"},
		{"classes.AcmeWorker.slots", "2", file}, {"classes.Gone.deadline", "1m0s", file},
	}
	width := max(len(plugins), len(rows[1][1]))
	table := "\n"
	for _, row := range rows {
		table += fmt.Sprintf("%-24s  %-*s  %s\n", row[0], width, row[1], row[2])
	}
	return table
}

func TestCheckAsJSONIsOneDocument(t *testing.T) {
	got := command(t, nil, "", "config", "check", "--output=json")
	if got.code != exitFailed || strings.Count(got.out, "\n") != 1 {
		t.Errorf("exit code %d, %s", got.code, got.out)
	}
	for _, want := range []string{
		`{"findings":[{"level":"problem","about":"store","message":"no store in this test"},{"level":"warning","about":"php","message":"nothing runs PHP, so classes without a plugin stay in the queue: neither phorge nor conduit is set"},{"level":"problem","about":"plugins","message":"there is no manifest and nothing runs PHP`,
		`{"name":"slots","value":"64","origin":"default"}`,
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("JSON is %s\nand does not contain %s", got.out, want)
		}
	}
	if got.err != "gantry: 2 problems were found\n" {
		t.Errorf("it says %q", got.err)
	}
}

func TestCheckRefusesAConfigurationThatItCannotRead(t *testing.T) {
	got := command(t, nil, "", "config", "check", "--config="+writeFile(t, "gantry.yaml", "slotz: 3", 0o600))
	if got.code != exitUsage || !strings.Contains(got.err, "did you mean slots?") {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
}

func TestHelpOfConfigNamesEverySetting(t *testing.T) {
	got := command(t, nil, "", "help", "config")
	for _, s := range settings {
		if !strings.Contains(got.out, "\n  "+s.name+" ") {
			t.Errorf("%s is not explained", s.name)
		}
	}
}

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, line := range []string{"", "--help", "help tasks", "run --help", "version", "version --output=json", "tasks list", "completion bash"} {
		var said strings.Builder
		a := &app{out: full, err: &said, configFile: "none.yaml", open: func(context.Context, *config) (store, error) { return seed(t), nil }}
		code := a.main(strings.Fields(line))
		if code != exitFailed || !strings.Contains(said.String(), "write the results: write /dev/full: no space left on device") {
			t.Errorf("`gantry %s`: exit code %d, %s", line, code, said.String())
		}
	}
}

func TestEveryCommandHasAnExampleAndSaysWhatItDoes(t *testing.T) {
	root := newApp().root()
	for _, cmd := range append(root.Commands(), root) {
		for _, c := range append(cmd.Commands(), cmd) {
			if c.Example == "" || c.Short == "" {
				t.Errorf("`%s` has no example or no description", c.CommandPath())
			}
		}
	}
}

func TestCheckTellsOfATornStorage(t *testing.T) {
	torn := phorgeDir(t, `{"cluster.databases":[{"host":"a","role":"master","partition":["worker"]},{"host":"b","role":"master","partition":["default"]}]}`)
	got := command(t, newMemory(), "", "config", "check", "--phorge="+torn)
	if want := "problem  storage: cluster.databases puts the applications worker and gantry on different masters"; got.code != exitFailed || !strings.Contains(got.out, want) {
		t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
}

// torn is a queue beside which this table of Gantry's own is missing.
type torn struct {
	memory
	table string
}

func (s torn) MissingStorage(context.Context, fs.FS) ([]string, error) {
	return []string{s.table}, nil
}

func TestCheckNamesATableThatIsMissing(t *testing.T) {
	got := command(t, torn{newMemory(), "phabricator_gantry.receipts"}, "", "config", "check")
	want := "warning  storage: not all of Gantry's own tables are there, or this user has no right to them: phabricator_gantry.receipts; create what is missing with `gantry storage upgrade`\n"
	if !strings.Contains(got.out, want) || strings.Contains(got.out, "ok       storage") {
		t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
}
