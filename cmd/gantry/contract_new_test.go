package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestANewCaseIsOneThatCanBeLoaded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "cases")
	got := command(t, nil, "", "contract", "new", "HeraldWebhookWorker", "--cases="+dir)
	expect(t, got, exitOK, "1 case was written to "+dir+"/herald-webhook.yaml.\n"+
		"Say in it what a task finds; then let PHP do it with `gantry contract record --cases "+dir+"`.\n", "")
	folder, err := contract.LoadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(folder.Cases) != 1 || folder.Cases[0].Name != "herald-webhook" || folder.Cases[0].TaskClass != "HeraldWebhookWorker" {
		t.Errorf("the cases are %+v", folder.Cases)
	}

	// What stands in it as a comment is right too.
	file := filepath.Join(dir, "herald-webhook.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^    # ([a-z ]+:|  )`).ReplaceAllString(string(content), "    $1")
	if err := os.WriteFile(file, []byte(all), 0o600); err != nil {
		t.Fatal(err)
	}
	if folder, err = contract.LoadFolder(dir); err != nil {
		t.Fatalf("%v in\n%s", err, all)
	}
	c := folder.Cases[0]
	if !c.Declines || c.Task.FailureCount != 2 || len(c.World.Receivers) != 1 || len(c.World.Locks) != 1 || len(c.World.Rows["herald.herald_webhook"][0]) != 6 {
		t.Errorf("the whole case is %+v", c)
	}
}

func TestANewCaseIsNotWrittenOverAnotherOrUnderAWrongName(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(taken, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no class", []string{"--cases=" + dir}, "name one class"},
		{"an empty class", []string{"", "--cases=" + dir}, "is not the name of a class"},
		{"two classes", []string{"AWorker", "BWorker", "--cases=" + dir}, "name one class"},
		{"no folder", []string{"AWorker"}, "name the folder of cases with --cases"},
		{"a file that is there", []string{"AWorker", "--cases=" + dir}, "is there already; give another name with --name"},
		{"a name that is none", []string{"AWorker", "--cases=" + dir, "--name=A b"}, "is no name for cases"},
		{"the name of the world", []string{"AWorker", "--cases=" + dir, "--name=world"}, "give another name with --name"},
		{"a class that comes to no name", []string{"Ünicode", "--cases=" + dir}, "is no name for cases"},
		{"no tasks wanted", []string{"BWorker", "--cases=" + dir, "--from-queue=0"}, "--from-queue 0 must be at least 1"},
		{"rows without tasks", []string{"BWorker", "--cases=" + dir, "--rows=a.b"}, "--rows and --keep are about real tasks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := command(t, nil, "", append([]string{"contract", "new"}, c.args...)...)
			if got.code != exitUsage || !strings.Contains(got.err, c.want) || got.out != "" {
				t.Errorf("exit code %d, %s%s; want %q", got.code, got.out, got.err, c.want)
			}
		})
	}
	if content, _ := os.ReadFile(taken); string(content) != "mine" {
		t.Errorf("the file became %q", content)
	}
}

// people is a queue with tasks in which people are named.
func people(t *testing.T) memory {
	t.Helper()
	m := newMemory()
	for _, data := range []string{
		`{"address":"alice@acme.example.com"}`, `{"address":"smith@acme.example.com"}`, `{"address":null}`,
	} {
		if _, err := m.Enqueue(t.Context(), []tasks.NewTask{{Class: "InviteWorker", Data: []byte(data), ObjectPHID: new("PHID-USER-alicealicealicealice")}}); err != nil {
			t.Fatal(err)
		}
	}
	archive(t, m, tasks.NewTask{Class: "InviteWorker", Data: []byte(`{"address":"","note":"Alice"}`)}, tasks.Failed)
	return m
}

func TestCasesOfRealTasksAreMaskedAndOfDifferentShapes(t *testing.T) {
	dir := t.TempDir()
	got := command(t, people(t), "", "contract", "new", "InviteWorker", "--cases="+dir, "--from-queue=3", "--output=json")
	var report struct {
		File  string
		Cases int
	}
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != exitOK || report.Cases != 3 || got.err != "" {
		t.Fatalf("exit code %d, %v, %s%s", got.code, err, got.out, got.err)
	}
	content, err := os.ReadFile(report.File)
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`(?i)alice|smith|acme`).FindString(string(content)); found != "" {
		t.Errorf("%q is in the file:\n%s", found, content)
	}
	folder, err := contract.LoadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	data := []string{}
	for _, c := range folder.Cases {
		data = append(data, c.Data)
	}
	if want := `{"address":"person1@host1.example"} {"address":null} {"address":"","note":"`; !strings.HasPrefix(strings.Join(data, " "), want) {
		t.Errorf("the data is %q", data)
	}
	if c := folder.Cases[0]; *c.Task.ObjectPHID != "PHID-USER-00000000000000000001" || c.Name != "invite-1" ||
		c.About != "Made of a real task; masked: 1 PHID, 1 e-mail address, 1 host." {
		t.Errorf("the first case is %+v", c)
	}
}

func TestWhereThereAreTooFewTasksThatIsSaid(t *testing.T) {
	got := command(t, people(t), "", "contract", "new", "InviteWorker", "--cases="+t.TempDir(), "--from-queue=50", "--keep=note")
	if got.code != exitOK || !strings.Contains(got.err, "warning: there are only 4 tasks of class InviteWorker") {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
	got = command(t, people(t), "", "contract", "new", "OtherWorker", "--cases="+t.TempDir(), "--from-queue=1")
	if got.code != exitNothing || !strings.Contains(got.err, "there is no task of class OtherWorker in the queue, and none in the archive") {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
	for _, c := range []struct{ arg, want string }{
		{"--rows=herald", `--rows: "herald" is no table`},
		{"--keep=/(/", "--keep: the pattern /(/ cannot be read"},
		{"--rows=herald.herald_webhook", "there is no store"},
	} {
		got = command(t, people(t), "", "contract", "new", "InviteWorker", "--cases="+t.TempDir(), "--from-queue=1", c.arg)
		if got.code != exitUsage || !strings.Contains(got.err, c.want) {
			t.Errorf("%s: exit code %d, %s", c.arg, got.code, got.err)
		}
	}
}

func TestRowsComeAlongFromTheConfiguredStore(t *testing.T) {
	dsn := harness.Namespace(t)
	db := harness.Open(t, dsn)
	// The worker database is one of the named databases too.
	for _, statement := range []string{
		"CREATE TABLE person (phid varbinary(64) NOT NULL, realName varchar(64) NOT NULL)",
		"INSERT INTO person VALUES ('PHID-USER-alicealicealicealice', 'Alice Smith'), ('PHID-USER-x', 'Nobody')",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	namespace, err := phorge.NamespaceIn(dsn)
	if err != nil {
		t.Fatal(err)
	}
	site := phorgeDir(t, fmt.Sprintf(`{"mysql.host":"127.0.0.1","mysql.port":%d,"mysql.user":"root","storage.default-namespace":"%s"}`,
		harness.Shared(t).Port(), namespace))
	for _, config := range []string{"dsn: " + dsn + "\n", "phorge: " + site + "\n"} {
		dir := t.TempDir()
		got := command(t, people(t), "", "contract", "new", "InviteWorker", "--cases="+dir, "--from-queue=1", "--rows=worker.person",
			"--config="+writeFile(t, "gantry.yaml", config, 0o600))
		if got.code != exitOK {
			t.Fatalf("exit code %d, %s", got.code, got.err)
		}
		folder, err := contract.LoadFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		rows := folder.Cases[0].World.Rows["worker.person"]
		if len(rows) != 1 || rows[0]["phid"] != "PHID-USER-00000000000000000001" || len(rows[0]["realName"].(string)) != 8 || strings.Contains(rows[0]["realName"].(string), "lice") {
			t.Errorf("the rows are %v", rows)
		}
	}
}
