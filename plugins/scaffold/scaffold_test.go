package scaffold

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWordsOfClassNames(t *testing.T) {
	for class, want := range map[string]string{
		"AcmeGreetingWorker":          "Acme Greeting",
		"FeedPublisherHTTPWorker":     "Feed Publisher HTTP",
		"PhabricatorMetaMTAWorker":    "Phabricator Meta MTA",
		"acme_sync_worker":            "acme sync worker",
		"HTTP2PushWorker":             "HTTP2 Push",
		"Worker":                      "Worker",
		"A":                           "A",
		"DoorkeeperJIRAFeedWorker":    "Doorkeeper JIRA Feed",
		"__":                          "",
		"PhabricatorUserV2SyncWorker": "Phabricator User V2 Sync",
	} {
		if got := strings.Join(Words(class), " "); got != want {
			t.Errorf("%s: %q, want %q", class, got, want)
		}
	}
}

func TestWhatCannotBeWrittenIsRefusedAndNothingIsWritten(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hidden := t.TempDir()
	if err := os.Mkdir(filepath.Join(hidden, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		dir     string
		path    string
		classes []string
		want    string
	}{
		{"a folder that holds something", full, "example.com/a", []string{"AWorker"}, "is not empty (it holds mine.txt)"},
		{"a folder that holds something hidden", hidden, "example.com/a", []string{"AWorker"}, "is not empty (it holds .git)"},
		{"a file", filepath.Join(full, "mine.txt"), "example.com/a", []string{"AWorker"}, "look into the folder of the new module"},
		{"no class", "", "example.com/a", nil, "name the task class"},
		{"a class with a quote", "", "example.com/a", []string{`A"Worker`}, "is no name of a PHP class"},
		{"a class with a namespace", "", "example.com/a", []string{`Acme\AWorker`}, "is no name of a PHP class"},
		{"a class that begins with a digit", "", "example.com/a", []string{"4Worker"}, "is no name of a PHP class"},
		{"a class that is too long for the queue", "", "example.com/a", []string{strings.Repeat("A", 65)}, "at most 64"},
		{"an empty class", "", "example.com/a", []string{""}, "is no name of a PHP class"},
		{"a class without a letter", "", "example.com/a", []string{"__"}, "has no letter"},
		{"a class of which only a digit is left", "", "example.com/a", []string{"_4"}, "has no letter"},
		{"the same class twice", "", "example.com/a", []string{"AWorker", "AWorker"}, "come to the same Go name"},
		{"classes of one Go name", "", "example.com/a", []string{"AcmeOneWorker", "Acme_One"}, "come to the same Go name"},
		{"a module path with a space", "", "example.com/my handler", []string{"AWorker"}, "is no module path"},
		{"a module path that leaves", "", "example.com/../a", []string{"AWorker"}, "is no module path"},
		{"no module path", "", "", []string{"AWorker"}, "is no module path"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.dir == "" {
				c.dir = filepath.Join(t.TempDir(), "new")
			}
			written, err := Module{Dir: c.dir, Path: c.path, Classes: c.classes, Version: "latest"}.Write()
			if err == nil || !strings.Contains(err.Error(), c.want) || written != nil {
				t.Errorf("wrote %v, %v; want %q", written, err, c.want)
			}
			if _, err := os.Stat(filepath.Join(c.dir, "go.mod")); err == nil {
				t.Error("there is a go.mod")
			}
		})
	}
}

func TestTheModuleNamesWhereGantryComesFrom(t *testing.T) {
	parent := t.TempDir()
	for _, c := range []struct{ name, version, checkout, want string }{
		{"a release", "v1.2.3", "", "module example.com/acme\n\ngo 1.26.0\n\nrequire github.com/phorge-gantry/gantry v1.2.3\n"},
		{"a checkout", "v0.0.0", "/src/my gantry", "module example.com/acme\n\ngo 1.26.0\n\nrequire github.com/phorge-gantry/gantry v0.0.0\n\n" +
			"replace github.com/phorge-gantry/gantry => \"/src/my gantry\"\n"},
		{"a checkout beside it", "v0.0.0", filepath.Join(parent, "gantry"), "module example.com/acme\n\ngo 1.26.0\n\n" +
			"require github.com/phorge-gantry/gantry v0.0.0\n\nreplace github.com/phorge-gantry/gantry => \"../gantry\"\n"},
	} {
		dir := filepath.Join(parent, c.name)
		if err := os.Mkdir(dir, 0o700); err != nil { // empty, but there
			t.Fatal(err)
		}
		m := Module{Dir: dir, Path: "example.com/acme", Classes: []string{"AWorker"}, Version: c.version, Checkout: c.checkout}
		if _, err := m.Write(); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// The guide shows these files.
func TestTheFilesThatTheGuideShowsAreWritten(t *testing.T) {
	dir := t.TempDir()
	m := Module{Dir: dir, Path: "example.com/handler-acme", Classes: []string{"AcmeGreetingWorker"}, Version: "v1.2.3"}
	if _, err := m.Write(); err != nil {
		t.Fatal(err)
	}
	shown, err := filepath.Glob("testdata/*")
	if err != nil || len(shown) == 0 {
		t.Fatalf("no file is shown: %v", err)
	}
	for _, file := range shown {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, filepath.Base(file)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is another now; copy it: %s", file, diff)
		}
	}
}

// A task that a new handler fails for good, PHP never sees, so nothing may stand
// before the decline.
func TestANewHandlerDoesNothingButDecline(t *testing.T) {
	dir := t.TempDir()
	m := Module{Dir: dir, Path: "example.com/handler-acme", Classes: []string{"AcmeGreetingWorker"}, Version: "v1.2.3"}
	if _, err := m.Write(); err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "workers", "acmegreeting.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var body []ast.Stmt
	for _, declared := range parsed.Decls {
		if f, ok := declared.(*ast.FuncDecl); ok && f.Name.Name == "handleAcmeGreeting" {
			body = f.Body.List
		}
	}
	if len(body) != 1 {
		t.Fatalf("the handler has %d statements", len(body))
	}
	var said strings.Builder
	if err := printer.Fprint(&said, token.NewFileSet(), body[0]); err != nil || !strings.HasPrefix(said.String(), "return plugins.Decline(") {
		t.Errorf("the handler does %s, %v", said.String(), err)
	}
}

func TestTheModuleAsksForTheGoOfGantry(t *testing.T) {
	content, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), "\ngo "+goVersion+"\n") {
		t.Errorf("go.mod of Gantry does not ask for go %s", goVersion)
	}
}
