// Package mutation checks the recorded cases themselves: small faults are put
// into the handlers, one at a time, and each has to make a case differ. Cases
// that cannot tell a handler without a header from one with it prove nothing.
package mutation

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tests/harness"
	"github.com/phorge-gantry/gantry/tests/recorded"
	"github.com/rs/zerolog"
)

func TestMain(m *testing.M) { harness.Main(m) }

// fault is one small fault.
type fault struct {
	name   string // what is wrong then
	binary string // the handler whose cases have to notice: herald or feed
	file   string // from the root of the repository
	before string // stands there exactly once
	after  string
	seen   string // the case that should notice, and is run first
}

// root is the root of the repository.
const root = "../.."

func TestEveryFaultIsFoundByARecordedCase(t *testing.T) {
	found := map[string]string{}
	for _, name := range []string{"herald", "feed"} {
		of := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return f.binary != name })
		maps.Copy(found, findAll(t, name, of))
	}
	if len(found) < 20 {
		t.Errorf("only %d faults were found; at least 20 must be", len(found))
	}
	for _, f := range faults {
		t.Logf("%-60s %s", f.name, found[f.name])
	}
}

// findAll answers what found each fault of a handler. The next binary is built
// while the cases of one run.
func findAll(t *testing.T, name string, of []fault) map[string]string {
	l := newLab(t, name)
	type built struct {
		fault
		manifest *host.Manifest
		err      error
	}
	next := make(chan built, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(next)
		for i, f := range of {
			manifest, err := l.build(ctx, fmt.Sprintf("fault%d", i), &f)
			select {
			case next <- built{f, manifest, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	found := map[string]string{}
	for b := range next {
		by := ""
		if b.err == nil {
			by, b.err = l.find(t.Context(), b.manifest, b.seen)
		}
		switch {
		case b.err != nil:
			t.Errorf("%s (%s): %v", b.name, b.file, b.err)
		case by == "":
			t.Errorf("%s (%s): no case of %s notices", b.name, b.file, l.folder.Dir)
		default:
			found[b.name] = by
		}
	}
	return found
}

// lab is where the cases of a handler meet its faults.
type lab struct {
	name   string
	dir    string
	folder *contract.Folder
	stage  *stage.Stage
	sound  stage.Side      // the handler as it is
	passes map[string]bool // cases in which the sound handler does what it should
}

func newLab(t *testing.T, name string) *lab {
	t.Helper()
	l := &lab{name: name, dir: t.TempDir(), passes: map[string]bool{}}
	l.folder, l.stage = recorded.Open(t, filepath.Join(root, "contract", "cases", name))
	quickFirst(l.folder.Cases)
	manifest, err := l.build(t.Context(), "sound", nil)
	if err != nil {
		t.Fatal(err)
	}
	l.sound = l.stage.Go(manifest, zerolog.Nop())
	t.Cleanup(func() { l.sound.Close() })
	return l
}

// quickFirst puts the cases that wait for a slow receiver last, and those of the
// same options together, since other options start the handler anew.
func quickFirst(cases []contract.Case) {
	waits := func(c contract.Case) (longest time.Duration) {
		for _, receiver := range c.World.Receivers {
			for _, answer := range receiver.Answers {
				longest = max(longest, answer.Delay)
			}
		}
		return longest.Truncate(time.Second)
	}
	slices.SortStableFunc(cases, func(a, b contract.Case) int {
		if by := waits(a) - waits(b); by != 0 {
			return int(by / time.Second)
		}
		return contract.ByOptions(a, b)
	})
}

// build builds the handler, with a fault unless it is nil, and answers a
// manifest that has it pinned.
func (l *lab) build(ctx context.Context, name string, f *fault) (*host.Manifest, error) {
	binary := filepath.Join(l.dir, name)
	args := []string{"build", "-ldflags=-s -w", "-o", binary}
	if f != nil {
		overlay, err := l.overlay(name, *f)
		if err != nil {
			return nil, err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/handler-"+l.name)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the handler: %w\n%s", err, out)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	classes := map[string]host.Class{}
	for _, c := range l.folder.Cases {
		classes[c.TaskClass] = host.Class{Fallback: host.PHP}
	}
	return &host.Manifest{Plugins: []host.Plugin{{
		Name: name, Path: binary, SHA256: fmt.Sprintf("%x", sha256.Sum256(content)), Phorge: true, Classes: classes,
	}}}, nil
}

// overlay writes a file that has Go read the faulty source in the place of the
// sound one.
func (l *lab) overlay(name string, f fault) (string, error) {
	path, err := filepath.Abs(filepath.Join(root, f.file))
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(content), f.before); n != 1 {
		return "", fmt.Errorf("%q stands there %d times, and has to stand there once: the source has changed, so change the fault with it", f.before, n)
	}
	faulty := filepath.Join(l.dir, name+".go")
	if err := os.WriteFile(faulty, []byte(strings.Replace(string(content), f.before, f.after, 1)), 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: faulty}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(l.dir, name+".json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// find runs the cases with a faulty handler, the named one first, until one
// differs that the sound one passes, and answers which it is and in what.
func (l *lab) find(ctx context.Context, manifest *host.Manifest, first string) (by string, _ error) {
	faulty := l.stage.Go(manifest, zerolog.Nop())
	defer faulty.Close()
	for _, c := range beginningWith(l.folder.Cases, first) {
		differences, err := l.run(ctx, c, faulty)
		if err != nil {
			return "", err
		}
		if len(differences) == 0 {
			continue
		}
		if _, known := l.passes[c.Name]; !known {
			sound, err := l.run(ctx, c, l.sound)
			if err != nil {
				return "", err
			}
			l.passes[c.Name] = len(sound) == 0
		}
		if l.passes[c.Name] {
			return fmt.Sprintf("%s: %s", c.Name, differences[0].Field), nil
		}
	}
	return "", nil
}

// beginningWith answers the cases with the one of a name before the others.
func beginningWith(cases []contract.Case, name string) []contract.Case {
	cases = slices.Clone(cases)
	slices.SortStableFunc(cases, func(a, b contract.Case) int {
		switch {
		case a.Name == name:
			return -1
		case b.Name == name:
			return 1
		}
		return 0
	})
	return cases
}

func (l *lab) run(ctx context.Context, c contract.Case, side stage.Side) ([]contract.Difference, error) {
	want, err := l.folder.Want(c)
	if err != nil {
		return nil, err
	}
	got, err := l.stage.Run(ctx, c, side)
	if err != nil {
		return nil, err
	}
	return contract.Compare(c, want, got), nil
}

func TestAFaultWhoseSourceIsGoneIsRefused(t *testing.T) {
	l := &lab{name: "herald", dir: t.TempDir()}
	for _, before := range []string{"this stands nowhere", "package main\n\npackage", "i"} {
		_, err := l.overlay("x", fault{file: "cmd/handler-herald/main.go", before: before})
		if err == nil || !strings.Contains(err.Error(), "the source has changed, so change the fault with it") {
			t.Errorf("%q: %v", before, err)
		}
	}
}

func TestFaultsAreSmallAndDifferentAndCanBePutIn(t *testing.T) {
	l := &lab{dir: t.TempDir()}
	seen := map[string]bool{}
	for _, f := range faults {
		if _, err := l.overlay("x", f); err != nil {
			t.Errorf("%s (%s): %v", f.name, f.file, err)
		}
		switch {
		case seen[f.name]:
			t.Errorf("two faults are called %q", f.name)
		case f.before == f.after:
			t.Errorf("%s: nothing changes", f.name)
		case strings.Count(f.before, "\n") > 3 || strings.Count(f.after, "\n") > 3:
			t.Errorf("%s: that is no small fault", f.name)
		}
		seen[f.name] = true
	}
}
