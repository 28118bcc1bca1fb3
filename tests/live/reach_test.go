package live

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// What the two sides read: a locked option, and two that administrators set on
// the web.
const (
	lockedOption = "feed.http-hooks"
	openOption   = "phabricator.cookie-prefix"
	mapOption    = "ui.favicons"
)

// siteOf answers what Gantry tells handlers of a Phorge.
func siteOf(t *testing.T, p *harness.Phorge) *plugins.Site {
	t.Helper()
	read, err := phorge.ReadPhorge(p.Root())
	if err != nil {
		t.Fatal(err)
	}
	s := &plugins.Site{Namespace: read.Namespace, DSNs: map[string]string{}, Options: read.Options}
	for _, application := range []string{"config", "repository"} {
		if s.DSNs[application], err = read.Database(application); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// reached is what reach.php prints.
type reached struct {
	Lock    string
	Free    bool
	Options map[string]any
}

func reachByPHP(t *testing.T, p *harness.Phorge, lock string) reached {
	t.Helper()
	out, err := p.PHP(t.Context(), "reach.php", lock, lockedOption, openOption, mapOption)
	if err != nil {
		t.Fatal(err)
	}
	var r reached
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

func reachByGo(t *testing.T, s *plugins.Site, do func(context.Context, *plugins.Task) error) {
	t.Helper()
	h := plugins.Handler{Class: "AcmeWorker", Handle: do, Options: []string{lockedOption, openOption, mapOption}}
	if o := h.ExecuteAt(t.Context(), s, tasks.Task{ID: 1}, nil); o.Kind != tasks.Succeeded {
		t.Errorf("%s: %s", o.Kind, o.Reason)
	}
}

func TestPHPAndHandlersExcludeOneAnother(t *testing.T) {
	p := harness.Live(t)
	s := siteOf(t, p)
	for _, name := range []string{"webhook(PHID-HWBH-abcdefghijklmnopqrst)", "x", "Straße", "trigger"} {
		reachByGo(t, s, func(ctx context.Context, task *plugins.Task) error {
			unlock, err := task.Lock(ctx, name)
			if err != nil {
				return err
			}
			held := reachByPHP(t, p, name)
			if want := plugins.LockName(s.Namespace, name); held.Lock != want {
				t.Errorf("PHP calls the lock %s, and handlers %s", held.Lock, want)
			}
			if held.Free {
				t.Errorf("PHP takes the lock %s, which a handler holds", name)
			}
			unlock()
			if !reachByPHP(t, p, name).Free {
				t.Errorf("PHP cannot take the lock %s, which a handler gave back", name)
			}
			return nil
		})
	}
}

func TestHandlersReadOptionsAsPHPDoes(t *testing.T) {
	p := harness.Live(t)
	db := harness.Open(t, p.Server().DSN(p.Namespace()+"_config"))
	defer func() {
		if _, err := db.Exec("DELETE FROM config_entry WHERE phid LIKE 'PHID-TEST-%'"); err != nil {
			t.Error(err)
		}
	}()
	hooks := func(name string) []any { return []any{"http://" + name + ".example/"} }
	for i, c := range []struct {
		name    string
		file    map[string]any
		stored  map[string]string // JSON
		deleted int
	}{
		{"nobody sets them", nil, nil, 0},
		{"the file sets them", map[string]any{lockedOption: hooks("file"), openOption: "[File]", mapOption: map[string]any{"1": "x"}}, nil, 0},
		{"the database sets them", nil, map[string]string{lockedOption: `["http://stored.example/"]`, openOption: `"[Stored]"`, mapOption: `{"2":"y"}`}, 0},
		{"both set them", map[string]any{lockedOption: hooks("file"), openOption: "[File]", mapOption: map[string]any{"1": "x"}},
			map[string]string{lockedOption: `["http://stored.example/"]`, openOption: `"[Stored]"`, mapOption: `{"2":"y"}`}, 0},
		{"the database has them deleted", map[string]any{lockedOption: hooks("file"), openOption: "[File]"},
			map[string]string{lockedOption: `["http://stored.example/"]`, openOption: `"[Stored]"`}, 1},
		{"the database has empty ones", map[string]any{lockedOption: hooks("file"), openOption: "[File]"},
			map[string]string{lockedOption: `[]`, openOption: `""`, mapOption: `[]`}, 0},
		{"the database has null", map[string]any{lockedOption: hooks("file"), openOption: "[File]"},
			map[string]string{lockedOption: `null`, openOption: `null`}, 0},
		{"the name is spelt in capitals", map[string]any{openOption: "[File]"}, map[string]string{"PHABRICATOR.COOKIE-PREFIX": `"[Stored]"`}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := db.Exec("DELETE FROM config_entry WHERE phid LIKE 'PHID-TEST-%'"); err != nil {
				t.Fatal(err)
			}
			for key, value := range c.stored {
				_, err := db.Exec(`INSERT INTO config_entry (phid, namespace, configKey, value, isDeleted, dateCreated, dateModified)
VALUES (?, 'default', ?, ?, ?, 0, 0)`, fmt.Sprintf("PHID-TEST-%d-%.18s", i, key), key, value, c.deleted)
				if err != nil {
					t.Fatal(err)
				}
			}
			reset, err := p.Override(c.file)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := reset(); err != nil {
					t.Fatal(err)
				}
			}()
			php, s := reachByPHP(t, p, "x"), siteOf(t, p)
			reachByGo(t, s, func(ctx context.Context, task *plugins.Task) error {
				for _, key := range []string{lockedOption, openOption, mapOption} {
					value := php.Options[key]
					if c.file[key] == nil && (c.stored[key] == "" || c.deleted == 1) {
						value = "the default" // which PHP alone knows
					}
					var got any = "the default"
					if err := task.Option(ctx, key, &got); err != nil {
						return err
					}
					if diff := cmp.Diff(value, got); diff != "" {
						t.Errorf("%s (-PHP +Go):\n%s", key, diff)
					}
				}
				return nil
			})
		})
	}
}
