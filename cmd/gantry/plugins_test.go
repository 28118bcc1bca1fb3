package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/plugins"
)

// role tells a process of this test binary that it is a handler binary, and
// which one.
const role = "GANTRYTEST_ROLE"

// play is what a handler binary of these tests does.
func play(role string) {
	switch role {
	case "good":
		plugins.Serve(plugins.Handler{
			Class:  "AcmeWorker",
			Handle: func(context.Context, *plugins.Task) error { return nil },
		})
	case "reaches":
		plugins.Serve(plugins.Handler{
			Class:     "AcmeWorker",
			Handle:    func(context.Context, *plugins.Task) error { return nil },
			Databases: []string{"herald"}, Options: []string{"acme.hooks"},
		})
	case "breaks":
		plugins.Serve(plugins.Handler{Class: "AcmeWorker", Handle: breakAs})
	case "of an older protocol":
		fmt.Println("1|0|unix|/nonexistent|grpc|")
		select {}
	}
	os.Exit(7)
}

// breakAs does what the data of a task says: it ends the process, unless the
// file is there that it then leaves; or it declines.
func breakAs(_ context.Context, task *plugins.Task) error {
	var data struct{ ExitOnce, Decline string }
	if err := task.Decode(&data); err != nil {
		return err
	}
	if data.Decline != "" {
		return plugins.Decline(data.Decline)
	}
	if _, err := os.Stat(data.ExitOnce); data.ExitOnce == "" || err == nil {
		return nil
	}
	if err := os.WriteFile(data.ExitOnce, nil, 0o600); err != nil {
		return err
	}
	os.Exit(3)
	return nil
}

// binary is this test binary, as a handler binary of its own.
func binary(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// manifest writes a plugins.yaml with one binary, pinned to what it is now, for
// a class that falls back to PHP.
func manifest(t *testing.T, path, class string) string {
	t.Helper()
	return manifestOf(t, path, class, "{slots: 3, deadline: 10m, fallback: php}")
}

func manifestOf(t *testing.T, path, class, limits string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return writeFile(t, "plugins.yaml", fmt.Sprintf(`
plugins:
  - name: acme
    path: %s
    sha256: %s
    env: [%s]
    classes:
      %s: %s
`, path, hex.EncodeToString(sum[:]), role, class, limits), 0o600)
}

func TestVerifyStartsABinaryAndAsksWhatItTakes(t *testing.T) {
	t.Setenv(role, "good")
	self := binary(t)
	got := command(t, nil, "", "plugins", "verify", "--plugins="+manifest(t, self, "AcmeWorker"))
	expect(t, got, exitOK, fmt.Sprintf(`
warning  plugin acme: class AcmeWorker falls back to php, which nothing here runs: its tasks wait while the handler cannot take them
ok       plugin acme: %s starts and takes its classes
`[1:], self), "")
	got = command(t, nil, "", "plugins", "verify", "--output=json", "--plugins="+manifest(t, self, "OtherWorker"))
	expect(t, got, exitFailed,
		`{"level":"problem","about":"plugin acme","message":"the binary has no handler for class OtherWorker; it handles AcmeWorker"}`+"\n",
		"gantry: 1 problem was found\n")
}

func TestABinaryThatCannotRunIsAProblemWithItsRemedy(t *testing.T) {
	tooOld := binary(t)
	dir := t.TempDir()
	copied := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		content, err := os.ReadFile("/bin/true")
		if err == nil {
			err = os.WriteFile(path, content, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	foreign := writeFile(t, "foreign", elfHeader(0xB7 /* AArch64 */), 0o755)
	if content, _ := os.ReadFile("/bin/true"); content[18] == 0xB7 {
		foreign = writeFile(t, "foreign", elfHeader(0x3E /* x86-64 */), 0o755)
	}
	changed := manifest(t, copied("changed", 0o755), "A")
	if err := os.Truncate(filepath.Join(dir, "changed"), 1<<20); err != nil { // longer than it was
		t.Fatal(err)
	}
	for _, c := range []struct{ name, manifest, role, want string }{
		{"its bytes differ", changed, "", "the manifest pins"},
		{"another architecture", manifest(t, foreign, "A"), "", "is built for another architecture"},
		{"not executable", manifest(t, copied("data", 0o644), "A"), "", "chmod +x"},
		{"no program at all", manifest(t, writeFile(t, "script", "#!/bin/sh\n", 0o755), "A"), "", "is not a Linux program"},
		{"an older protocol", manifest(t, tooOld, "A"), "of an older protocol", "speaks version 0 of the handler protocol"},
		{"no handler binary", manifest(t, copied("true", 0o755), "A"), "", "ended at start"},
		{"no pin", writeFile(t, "plugins.yaml", "plugins: [{path: /bin/true, classes: {A: {}}}]", 0o600), "", "gantry plugins pin"},
		{"not there", writeFile(t, "plugins.yaml", "plugins: [{path: /nonexistent, classes: {A: {}}}]", 0o600), "", "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(role, c.role)
			got := command(t, nil, "", "plugins", "verify", "--plugins="+c.manifest)
			if got.code != exitFailed || !strings.HasPrefix(got.out, "problem") || !strings.Contains(got.out, c.want) {
				t.Errorf("exit code %d, %s%s\nwant a problem that says %q", got.code, got.out, got.err, c.want)
			}
		})
	}
}

// elfHeader is the smallest ELF file there is, for a machine.
func elfHeader(machine byte) string {
	header := make([]byte, 64)
	copy(header, "\x7fELF\x02\x01\x01")
	header[16], header[18], header[20], header[52] = 2, machine, 1, 64
	return string(header)
}

func TestListShowsTheManifestAndStartsNothing(t *testing.T) {
	path := manifest(t, "/bin/true", "AcmeWorker")
	expect(t, command(t, nil, "", "plugins", "list", "--plugins="+path), exitOK, `
CLASS       PLUGIN  BINARY  SLOTS  LEASE  DEADLINE  FALLBACK  PHORGE
AcmeWorker  acme    ok          3  -      10m0s     php       -
`[1:], "")
	got := command(t, nil, "", "plugins", "list", "--output=json", "--plugins="+path)
	for _, want := range []string{`{"plugins":[{"name":"acme","path":"/bin/true","pinned":"`,
		`"phorge":false,"classes":[{"taskClass":"AcmeWorker","slots":3,"deadline":"10m0s","fallback":"php"}]}]}`} {
		if !strings.Contains(got.out, want) {
			t.Errorf("JSON is %s and does not contain %s", got.out, want)
		}
	}
	missing := writeFile(t, "plugins.yaml", "plugins: [{name: x, path: /nonexistent, classes: {A: {}}}]", 0o600)
	expect(t, command(t, nil, "", "plugins", "list", "--plugins="+missing), exitOK, `
CLASS  PLUGIN  BINARY   SLOTS  LEASE  DEADLINE  FALLBACK  PHORGE
A      x       problem  -      -      -         hold      -
`[1:], "warning: open handler binary: open /nonexistent: no such file or directory\n")
}

func TestPinWritesTheDigests(t *testing.T) {
	path := writeFile(t, "plugins.yaml", "plugins:\n  - path: /bin/true # ours\n    classes: {A: {}}\n", 0o600)
	content, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(content))
	expect(t, command(t, nil, "", "plugins", "pin", "--plugins="+path), exitOK, "true is pinned to "+digest+".\n", "")
	expect(t, command(t, nil, "", "plugins", "pin", "--plugins="+path), exitOK, "true was pinned to "+digest+" already.\n", "")
	expect(t, command(t, nil, "", "plugins", "pin", "--output=json", "--plugins="+path), exitOK,
		`{"name":"true","path":"/bin/true","sha256":"`+digest+`","changed":false}`+"\n", "")
}

func TestAManifestThatIsWrongOrMissingIsAMatterOfConfiguration(t *testing.T) {
	wrong := writeFile(t, "plugins.yaml", "plugins: [{pth: x}]", 0o600)
	empty := writeFile(t, "plugins.yaml", "# nothing yet\n", 0o600)
	for _, verb := range []string{"list", "pin", "verify"} {
		for _, c := range []struct{ arg, want string }{
			{"--plugins=", "there is no manifest of handler binaries: name one with --plugins"},
			{"--plugins=" + wrong, `unknown key "pth"`},
			{"--plugins=" + empty, empty + ": it names no plugin"},
			{"--plugins=/nonexistent.yaml", "no such file"},
		} {
			got := command(t, nil, "", "plugins", verb, c.arg)
			if got.code != exitUsage || !strings.Contains(got.err, c.want) {
				t.Errorf("%s %s: exit code %d, %s", verb, c.arg, got.code, got.err)
			}
		}
	}
}

func TestListMarksTheClassesThatRunHere(t *testing.T) {
	expect(t, command(t, seed(t), "", "tasks", "list", "--plugins="+manifest(t, "/bin/true", "PhabricatorSearchWorker")), exitOK, `
CLASS                     QUEUED  LEASED  WAITING  FAILING  RUNS HERE
PhabricatorMetaMTAWorker       1       0        0        0  no
PhabricatorSearchWorker        1       0        0        0  plugin
PhabricatorTestWorker          6       1        3        1  no
`[1:], "")
}

func TestListTellsWhatPHPRuns(t *testing.T) {
	loads := phorgeDir(t, `{"load-libraries":["`+library(t)+`"]}`)
	expect(t, command(t, seed(t), "", "tasks", "list", "--phorge="+loads, "--plugins="+manifest(t, "/bin/true", "PhabricatorSearchWorker")), exitOK, `
CLASS                     QUEUED  LEASED  WAITING  FAILING  RUNS HERE
PhabricatorMetaMTAWorker       1       0        0        0  pool
PhabricatorSearchWorker        1       0        0        0  plugin
PhabricatorTestWorker          6       1        3        1  pool
`[1:], "")
	got := command(t, seed(t), "", "tasks", "list", "--output=json", "--phorge="+loads)
	if want := `"more":false,"runnable":true,"route":"pool"}`; strings.Count(got.out, want) != 3 {
		t.Errorf("JSON is %s", got.out)
	}
	expect(t, command(t, newMemory(), "", "tasks", "list", "--phorge="+loads, "--php=off"), exitOK, "The queue is empty.\n", "")
}

func TestListDoesNotKnowWhatConduitAllows(t *testing.T) {
	plugins := "--plugins=" + manifest(t, "/bin/true", "PhabricatorSearchWorker")
	file := writeFile(t, "gantry.yaml", "conduit: https://phorge.example.com/\nconduit_key_file: keys.json\n", 0o600)
	expect(t, command(t, seed(t), "", "tasks", "list", "--config="+file, plugins), exitOK, `
CLASS                     QUEUED  LEASED  WAITING  FAILING  RUNS HERE
PhabricatorMetaMTAWorker       1       0        0        0  conduit, if allowed
PhabricatorSearchWorker        1       0        0        0  plugin
PhabricatorTestWorker          6       1        3        1  conduit, if allowed
`[1:], "")
	got := command(t, seed(t), "", "tasks", "list", "--output=json", "--config="+file, plugins)
	if strings.Count(got.out, `"runnable":null,"route":"conduit"}`) != 2 || strings.Count(got.out, `"runnable":true,"route":"plugin"}`) != 1 {
		t.Errorf("JSON is %s", got.out)
	}
}
