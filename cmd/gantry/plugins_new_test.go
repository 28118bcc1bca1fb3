package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/tasks"
)

func TestANewPluginBuildsPassesItsTestsAndIsStarted(t *testing.T) {
	dir := newModule(t, "--class=AcmeGreetingWorker", "--class=FeedPublisherHTTPWorker")
	for _, args := range [][]string{{"vet", "./..."}, {"test", "./..."}, {"build", "-o", "handler-acme", "."}} {
		inModule(t, dir, "go", args...)
	}
	if out, err := exec.Command("gofmt", "-l", dir).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("gofmt: %v, %s", err, out)
	}
	plugins := filepath.Join(dir, "plugins.yaml")
	for _, want := range []string{"", "and it uses none"} {
		if got := command(t, nil, "", "plugins", "pin", "--plugins="+plugins); got.code != exitOK {
			t.Fatalf("pin: exit code %d, %s", got.code, got.err)
		}
		got := command(t, nil, "", "plugins", "verify", "--plugins="+plugins)
		if got.code != exitOK || !strings.Contains(got.out, "starts and takes its classes") && !strings.Contains(got.out, "falls back to php") || !strings.Contains(got.out, want) {
			t.Errorf("verify: exit code %d\n%s%s", got.code, got.out, got.err)
		}
		// What stands in it as a comment is right too.
		replaceIn(t, plugins, "# phorge: true", "phorge: true")
	}
}

// newModule writes a new module that takes this Gantry.
func newModule(t *testing.T, args ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "handler-acme")
	got := command(t, nil, "", append([]string{"plugins", "new", dir, "--gantry=../.."}, args...)...)
	if got.code != exitOK || got.err != "" || !strings.Contains(got.out, "    gantry contract new AcmeGreetingWorker --cases cases --name real") {
		t.Fatalf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
	return dir
}

// inModule runs a program in a module, without a Phorge.
func inModule(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off", "PHORGE_ROOT=", "GANTRY_CONFIG="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func replaceIn(t *testing.T, file, old, replacement string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.ReplaceAll(string(content), old, replacement)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheScriptForCIHoldsTheBinaryAndLeavesTheTreeAsItIs(t *testing.T) {
	dir := newModule(t, "--class=AcmeGreetingWorker")
	bin := t.TempDir()
	build(t, bin)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	schema, err := os.ReadFile("../../contract/cases/feed/schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	folder, err := contract.LoadFolder(filepath.Join(dir, "cases"))
	if err != nil {
		t.Fatal(err)
	}
	recorded := contract.Observation{Outcome: contract.Outcome{Kind: tasks.Succeeded}}
	if err := errors.Join(folder.SaveSchema(string(schema)), folder.SaveGolden(folder.Cases[0], recorded)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}} {
		inModule(t, dir, "git", args...)
	}
	for range 2 {
		if out := inModule(t, dir, "./ci.sh"); !strings.Contains(out, "1 case, 1 equal") {
			t.Errorf("ci.sh says\n%s", out)
		}
	}
	for _, args := range [][]string{{"diff"}, {"status", "--porcelain", "--untracked-files=all"}} {
		for line := range strings.Lines(inModule(t, dir, "git", args...)) {
			if !strings.HasPrefix(line, "A  ") {
				t.Errorf("git %s: %s", args[0], line)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "build", "report.xml")); err != nil {
		t.Error(err)
	}
}

func TestACommandForNewCasesGoesOnWhereANewPluginEnds(t *testing.T) {
	cases := filepath.Join(newModule(t, "--class=AcmeGreetingWorker", "--class=WorldWorker"), "cases")
	if got := command(t, nil, "", "contract", "new", "AcmeGreetingWorker", "--cases="+cases); got.code != exitUsage || !strings.Contains(got.err, "acme-greeting.yaml is there already; give another name with --name") {
		t.Errorf("the first case is written once more: exit code %d, %s", got.code, got.err)
	}
	if got := command(t, nil, "", "contract", "new", "AcmeGreetingWorker", "--cases="+cases, "--name=more"); got.code != exitOK {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
	folder, err := contract.LoadFolder(cases)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range folder.Cases {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "acme-greeting-empty more world-task-empty" {
		t.Errorf("the cases are %s", got)
	}
}

func TestAModuleWhoseDependenciesCannotBeHadIsNotLeftBehind(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	parent := t.TempDir()
	empty := filepath.Join(parent, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(parent, "a", "b", "handler-acme"), empty} {
		got := command(t, nil, "", "plugins", "new", dir, "--class=AcmeGreetingWorker")
		if got.code != exitFailed || got.out != "" || !strings.Contains(got.err, "go mod tidy") || !strings.Contains(got.err, "--gantry /path/to/gantry") {
			t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(parent, "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if left, err := filepath.Glob(filepath.Join(parent, "*")); err != nil || len(left) != 1 || left[0] != empty {
		t.Errorf("of the folders, %v are left, and %s was there before; %v", left, empty, err)
	}
}

func TestANewPluginIsNotWrittenOverAnythingOrUnderAWrongName(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "new")
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no folder", nil, "name one folder for the module"},
		{"two folders", []string{empty, "b"}, "name one folder for the module"},
		{"no class", []string{empty}, "name the task class that the binary is for"},
		{"a class that is none", []string{empty, "--class=no class"}, "is no name of a PHP class"},
		{"a folder that is not empty", []string{".", "--class=AWorker", "--module=example.com/a"}, "is not empty"},
		{"a folder whose name is no module path", []string{empty + "/a b", "--class=AWorker"}, `"example.com/a b" is no module path`},
		{"a checkout that is not there", []string{empty, "--class=AWorker", "--gantry=/nonexistent"}, "--gantry: open /nonexistent/go.mod"},
		{"a checkout of something else", []string{empty, "--class=AWorker", "--gantry=" + otherModule(t)}, "is no checkout of Gantry"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := command(t, nil, "", append([]string{"plugins", "new"}, c.args...)...)
			if got.code != exitUsage || !strings.Contains(got.err, c.want) || got.out != "" {
				t.Errorf("exit code %d, %s%s; want %q", got.code, got.out, got.err, c.want)
			}
			if _, err := os.Stat(empty); err == nil {
				t.Error("something was written")
			}
		})
	}
}

func otherModule(t *testing.T) string {
	return filepath.Dir(writeFile(t, "go.mod", "module example.com/other\n", 0o600))
}

func TestTheVersionThatANewModuleRequires(t *testing.T) {
	for version, want := range map[string]string{
		"1.2.3": "v1.2.3", "v1.2.3": "v1.2.3", "v1.2.3-rc.1": "v1.2.3-rc.1",
		"(devel)": "latest", "": "latest", "v1.2.3+dirty": "latest",
	} {
		if got := requirable(version); got != want {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
	}
}
