package stage

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/rows"
	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks"
)

// manifestOf builds the handler binary of testdata, and pins it.
func manifestOf(t *testing.T, phorge bool) *host.Manifest {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "handler")
	if out, err := exec.Command("go", "build", "-o", binary, "./testdata/handler").CombinedOutput(); err != nil {
		t.Fatalf("build the handler: %v\n%s", err, out)
	}
	file := filepath.Join(dir, "plugins.yaml")
	text := fmt.Sprintf("plugins:\n  - path: handler\n    phorge: %v\n    classes:\n      AcmeWorker: {}\n", phorge)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Pin(file); err != nil {
		t.Fatal(err)
	}
	manifest, err := host.LoadManifest(file)
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

func TestHandlersOfAManifestFindTheOptionsOfEachCase(t *testing.T) {
	s := newStage(t)
	side := s.Go(manifestOf(t, true), zerolog.New(zerolog.NewTestWriter(t)))
	defer side.Close()
	var pids []int
	for _, c := range []struct {
		options map[string]any
		row     string // in the table of options
		want    string
	}{
		{nil, "", "nobody"},
		{nil, "", "nobody"},
		{map[string]any{"acme.name": "file"}, "", "file"},
		{map[string]any{"acme.name": "file"}, `"database"`, "database"},
		{nil, "", "nobody"},
	} {
		world := contract.World{Options: c.options, Receivers: map[string]contract.Receiver{"a": {}}}
		if c.row != "" {
			world.Rows = map[string][]contract.Row{"config.config_entry": {{"namespace": "default", "configKey": "acme.name", "value": c.row}}}
		}
		x := acmeCase(world)
		x.Data = `"{{receiver a}}"`
		o := run(t, s, x, side)
		changes := changesOf(o)
		if len(changes) != 1 || *changes[0].Columns["name"].After != c.want || len(o.Requests) != 1 || o.Requests[0].Body != c.want {
			t.Errorf("want %s, got %+v and %+v", c.want, changes, o.Requests)
		}
		pids = append(pids, side.(*binaries).host.List()[0].PID)
		if wrong, err := shadow(s, x, side, o); err != nil || len(wrong) > 0 {
			t.Errorf("in shadow: %v, %v", fields(wrong), err)
		}
	}
	same := []bool{pids[0] == pids[1], pids[1] == pids[2], pids[2] == pids[3], pids[3] == pids[4]}
	if diff := cmp.Diff([]bool{true, false, true, false}, same); diff != "" {
		t.Errorf("the process is started again for other options alone: %v", pids)
	}
}

func TestAHandlerThatCannotRunIsSaidAndNotObserved(t *testing.T) {
	s := newStage(t)
	forbidden := s.Go(manifestOf(t, false), zerolog.Nop())
	defer forbidden.Close()
	other := acmeCase(contract.World{})
	other.TaskClass = "AcmeOtherWorker"
	for _, c := range []struct {
		c    contract.Case
		want string
	}{
		{acmeCase(contract.World{}), "phorge: true"},
		{other, "no handler binary of the manifest takes class AcmeOtherWorker"},
	} {
		if _, err := s.Run(t.Context(), c.c, forbidden); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("the error is %v, want one that says %q", err, c.want)
		}
	}
}

func TestACrashIsObservedAndTheNextCaseRuns(t *testing.T) {
	s := newStage(t)
	side := s.Go(manifestOf(t, true), zerolog.Nop())
	defer side.Close()
	before := all(t, s)
	crash, fine := acmeCase(contract.World{}), acmeCase(contract.World{Receivers: map[string]contract.Receiver{"a": {}}})
	crash.Data, fine.Data = `"crash"`, `"{{receiver a}}"`
	if o := run(t, s, crash, side); o.Outcome.Kind != tasks.Crashed || len(changesOf(o)) != 1 {
		t.Errorf("the crash is %+v", o)
	}
	if o := run(t, s, fine, side); o.Outcome.Kind != tasks.Succeeded {
		t.Errorf("the next case is %+v", o.Outcome)
	}
	if diff := cmp.Diff(before, all(t, s), cmp.AllowUnexported(rows.Table{})); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

// BenchmarkRun measures a case that puts rows into two tables, is asked for
// once, and changes a row.
func BenchmarkRun(b *testing.B) {
	s := newStage(b)
	c := acmeCase(contract.World{
		Receivers: map[string]contract.Receiver{"a": {}},
		Rows:      map[string][]contract.Row{"acme.acme_thing": {{"name": "x"}}, "acme.acme_edge": {{"src": "a", "dst": "b"}}},
	})
	c.Data = `"{{receiver a}}"`
	db := acme(b, s)
	side := does(s, func(ctx context.Context, task *plugins.Task) error {
		if _, err := db.ExecContext(ctx, "UPDATE acme_thing SET name = 'y'"); err != nil {
			return err
		}
		response, err := http.Post("http://"+string(bytes.Trim(task.Data, `"`)), "text/plain", nil)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
	for b.Loop() {
		if o := run(b, s, c, side); len(o.Requests) != 1 {
			b.Fatalf("%+v", o)
		}
	}
}

func TestAManifestIsTriedBeforeTheFirstCase(t *testing.T) {
	s := newStage(t)
	for _, c := range []struct {
		phorge bool
		class  string
		want   string
	}{
		{true, "AcmeWorker", ""},
		{false, "AcmeWorker", "phorge: true"},
		{false, "AcmeOtherWorker", ""}, // nobody asks for it
	} {
		err := s.Try(t.Context(), manifestOf(t, c.phorge), []string{c.class})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
