package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func writeManifest(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugins.yaml")
	if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadManifest(t *testing.T) {
	path := writeManifest(t, `
plugins:
  - path: bin/handler-feed
    sha256: 0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0
    env: [TZ]
    classes:
      FeedPublisherWorker:
        slots: 4
        lease: 90s
        deadline: 10m
        max_retries: 0
        wait: 1m30s
        fallback: php
      FeedPublisherHTTPWorker: {}
  - name: hooks
    path: /srv/handler
    classes:
      HeraldWebhookWorker:
`)
	got, err := LoadManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	want := &Manifest{Plugins: []Plugin{
		{
			Name:   "handler-feed",
			Path:   filepath.Join(filepath.Dir(path), "bin/handler-feed"),
			SHA256: "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0",
			Env:    []string{"TZ"},
			Classes: map[string]Class{
				"FeedPublisherWorker": {
					Slots: 4, Lease: 90 * time.Second, Deadline: 10 * time.Minute,
					MaxRetries: new(0), Wait: new(90 * time.Second), Fallback: PHP,
				},
				"FeedPublisherHTTPWorker": {},
			},
		},
		{Name: "hooks", Path: "/srv/handler", Classes: map[string]Class{"HeraldWebhookWorker": {}}},
	}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Manifest{})); diff != "" {
		t.Error(diff)
	}
}

func TestAnEmptyManifestHasNoPlugins(t *testing.T) {
	for _, content := range []string{"", "# nothing yet\n", "plugins: []\n"} {
		if m, err := LoadManifest(writeManifest(t, content)); err != nil || len(m.Plugins) != 0 {
			t.Errorf("%q: %v, %v", content, m, err)
		}
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	for _, c := range []struct{ name, content, reason string }{
		{"an unknown key", "plugins:\n- path: h\n  classes: {A: {}}\n  slotz: 3\n", `line 4: unknown key "slotz"`},
		{"an unknown key of a class", "plugins:\n- path: h\n  classes:\n    A:\n      slots: 1\n      leese: 3s\n", `line 6: unknown key "leese"`},
		{"an unknown key at the top", "plugin:\n- path: h\n", `line 1: unknown key "plugin"`},
		{"a key twice", "plugins:\n- path: h\n  path: g\n", `line 3: mapping key "path" already defined at line 2`},
		{"no YAML", "plugins: [", "line 1"},
		{"two documents", "plugins: []\n---\nplugins: []\n", "more than one YAML document"},
		{"no path", "plugins:\n- classes: {A: {}}\n", "path is missing"},
		{"no class", "plugins:\n- path: h\n", "plugin 1 (h): classes is empty"},
		{"a class with a space before it", "plugins:\n- path: h\n  classes: {\" A\": {}}\n", `class " A" has spaces around its name`},
		{"a class with a space after it", "plugins:\n- path: h\n  classes: {\"A \": {}}\n", `class "A " has spaces around its name`},
		{"a digest that is none", "plugins:\n- path: h\n  sha256: abc\n  classes: {A: {}}\n", `sha256 "abc" is not 64 hexadecimal digits`},
		{"a value for a variable", "plugins:\n- path: h\n  env: [A=1]\n  classes: {A: {}}\n", `env "A=1" must be the name`},
		{"negative slots", "plugins:\n- path: h\n  classes: {A: {slots: -1}}\n", "class A: slots -1"},
		{"a lease without a unit", "plugins:\n- path: h\n  classes: {A: {lease: 60}}\n", `line 3: "60": a duration with its unit belongs here`},
		{"a deadline of less than a second", "plugins:\n- path: h\n  classes: {A: {deadline: 60ms}}\n", "deadline 60ms is less than a second"},
		{"a wait of less than a second", "plugins:\n- path: h\n  classes: {A: {wait: 60ms}}\n", "wait 60ms is less than a second"},
		{"slots of 0", "plugins:\n- path: h\n  classes: {A: {slots: 0}}\n", "class A: slots 0 must be 1 or more"},
		{"a lease of 0", "plugins:\n- path: h\n  classes: {A: {lease: 0s}}\n", "class A: lease 0s is less than a second"},
		{"a deadline of 0", "plugins:\n- path: h\n  classes: {A: {deadline: 0s}}\n", "class A: deadline 0s is less than a second"},
		{"a list at the top", "- path: h\n", "line 1: `plugins:` with a list of handler binaries belongs here"},
		{"a map of plugins", "plugins: {a: b}\n", "line 1: a list of handler binaries belongs here"},
		{"a plugin that is a path", "plugins: [h]\n", `line 1: "h": the path and the classes of a handler binary belong here`},
		{"a list of classes", "plugins:\n- path: h\n  classes: [A]\n", "line 3: names of task classes and their limits belong here"},
		{"a class that is a number", "plugins:\n- path: h\n  classes: {A: 16}\n", `line 3: "16": the limits of a class belong here`},
		{"slots in words", "plugins:\n- path: h\n  classes: {A: {slots: many}}\n", `line 3: "many": a whole number belongs here`},
		{"a path that is a list", "plugins:\n- path: [h]\n  classes: {A: {}}\n", "line 2: a text belongs here"},
		{"variables that are no list", "plugins:\n- path: h\n  env: A\n  classes: {A: {}}\n", `line 3: "A": a list of names belongs here`},
		{"negative retries", "plugins:\n- path: h\n  classes: {A: {max_retries: -1}}\n", "max_retries -1 must be 0 or more"},
		{"an unknown fallback", "plugins:\n- path: h\n  classes: {A: {fallback: perl}}\n", `fallback "perl" must be "hold" or "php"`},
		{"one name twice", "plugins:\n- path: a/h\n  classes: {A: {}}\n- path: b/h\n  classes: {B: {}}\n", "two plugins are named h"},
		{"one class twice", "plugins:\n- path: g\n  classes: {A: {}}\n- path: h\n  classes: {A: {}}\n", "class A is listed by g and by h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := writeManifest(t, c.content)
			_, err := LoadManifest(path)
			if err == nil || !strings.Contains(err.Error(), c.reason) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v; want the path and %q in it", err, c.reason)
			}
		})
	}
	if _, err := LoadManifest("/nowhere/plugins.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing manifest answers %v", err)
	}
}

func TestPinSaysThatAManifestNamesNoPlugin(t *testing.T) {
	for _, content := range []string{"", "# nothing yet\n", "plugins: []\n"} {
		path := writeManifest(t, content)
		if pinned, err := Pin(path); err == nil || !strings.Contains(err.Error(), path+": the manifest names no plugin") {
			t.Errorf("%q: %v, %v", content, pinned, err)
		}
	}
}

func TestPinWritesDigestsAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(handler, filepath.Join(dir, "handler")); err != nil {
		t.Fatal(err)
	}
	file, digest, err := openBinary(handler)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	const before = `# Our handlers.
plugins:

    # The feed, see T123.
    - sha256: "0000000000000000000000000000000000000000000000000000000000000000" # pinned by hand
      path: handler   # relative
      name: one
      classes: {A: {}}

    - name: two
      path:   'handler'

      classes:
        B: {slots: 3}   # three is enough
    - name: three
      sha256:
      path: handler
      classes: {C: {}}
    - name: four
      classes: {D: {}}
      path: handler`
	path := filepath.Join(dir, "plugins.yaml")
	if err := os.WriteFile(path, []byte(before), 0o640); err != nil {
		t.Fatal(err)
	}
	pinned, err := Pin(path)
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(
		`"0000000000000000000000000000000000000000000000000000000000000000"`, digest,
		"      path:   'handler'\n", "      path:   'handler'\n      sha256: "+digest+"\n",
		"      sha256:\n", "      sha256: "+digest+"\n",
		"D: {}}\n      path: handler", "D: {}}\n      path: handler\n      sha256: "+digest+"\n",
	).Replace(before)
	if diff := cmp.Diff(want, string(after)); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("permissions became %v, %v", info.Mode(), err)
	}
	if len(pinned) != 4 || !pinned[0].Changed || pinned[3].SHA256 != digest {
		t.Errorf("answered %+v", pinned)
	}

	m, err := LoadManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, checked := range m.Verify() {
		if checked.Err != nil || checked.Actual != digest {
			t.Errorf("after pinning, verify says %+v", checked)
		}
	}
	if again, err := Pin(path); err != nil || again[0].Changed {
		t.Errorf("pinning again: %+v, %v", again, err)
	}
}

func TestPinRefusesWhatItCannotDoAndChangesNothing(t *testing.T) {
	for _, c := range []struct{ name, content, reason string }{
		{"a missing binary", "plugins:\n- path: nowhere\n  classes: {A: {}}\n", "pin nowhere: open handler binary"},
		{"a plugin in braces", "plugins:\n- {path: " + handler + ", classes: {A: {}}}\n", "written in braces"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := writeManifest(t, c.content)
			if _, err := Pin(path); err == nil || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%v; want %q in it", err, c.reason)
			}
			if after, _ := os.ReadFile(path); string(after) != c.content {
				t.Errorf("the manifest became %q", after)
			}
		})
	}
}

func TestVerifySaysWhatIsWrong(t *testing.T) {
	m := manifestOf(t, handler)
	m.Plugins = append(m.Plugins, m.Plugins[0], Plugin{Name: "gone", Path: "/nowhere/handler"})
	m.Plugins[1].SHA256 = strings.Repeat("0", 64)
	checked := m.Verify()
	if checked[0].Err != nil || checked[0].Actual != checked[0].Pinned {
		t.Errorf("a good binary: %+v", checked[0])
	}
	if err := checked[1].Err; err == nil || !strings.Contains(err.Error(), "has changed") || checked[1].Actual != checked[0].Actual {
		t.Errorf("a changed binary: %+v", checked[1])
	}
	if err := checked[2].Err; err == nil || !strings.Contains(err.Error(), "no such file") || checked[2].Actual != "" {
		t.Errorf("a missing binary: %+v", checked[2])
	}
}
