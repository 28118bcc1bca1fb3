package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestANewPluginBuildsPassesItsTestsAndIsStarted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "handler-acme")
	got := command(t, nil, "", "plugins", "new", dir, "--class=AcmeGreetingWorker", "--class=FeedPublisherHTTPWorker", "--gantry=../..")
	if got.code != exitOK || got.err != "" || !strings.Contains(got.out, "    gantry contract new AcmeGreetingWorker --cases cases") {
		t.Fatalf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
	for _, args := range [][]string{{"vet", "./..."}, {"test", "./..."}, {"build", "-o", "handler-acme", "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	if out, err := exec.Command("gofmt", "-l", dir).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("gofmt: %v, %s", err, out)
	}
	if out, err := exec.Command("sh", "-n", filepath.Join(dir, "ci.sh")).CombinedOutput(); err != nil {
		t.Errorf("ci.sh: %v, %s", err, out)
	}
	plugins := "--plugins=" + filepath.Join(dir, "plugins.yaml")
	if got := command(t, nil, "", "plugins", "pin", plugins); got.code != exitOK {
		t.Fatalf("pin: exit code %d, %s", got.code, got.err)
	}
	got = command(t, nil, "", "plugins", "verify", plugins)
	if got.code != exitOK || !strings.Contains(got.out, "starts and takes its classes") && !strings.Contains(got.out, "falls back to php") {
		t.Errorf("verify: exit code %d\n%s%s", got.code, got.out, got.err)
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
