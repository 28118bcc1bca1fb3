package feed

import (
	"testing"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// openStage answers the recorded cases, a stage with their tables, and the
// handlers on it.
func openStage(t testing.TB) (*contract.Folder, *stage.Stage, map[string]stage.Shadower) {
	t.Helper()
	folder, err := contract.LoadFolder("../../../contract/cases/feed")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := folder.Schema()
	if err != nil {
		t.Fatal(err)
	}
	s, err := stage.Open(t.Context(), stage.Config{DSN: harness.Shared(t).DSN(""), Namespace: "feed"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Prepare(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	sides := map[string]stage.Shadower{}
	for _, h := range []plugins.Handler{Publisher(), HTTPPublisher()} {
		side := s.Handler(h)
		t.Cleanup(func() { side.Close() })
		sides[h.Class] = side
	}
	return folder, s, sides
}

// named answers a case of the folder.
func named(t testing.TB, folder *contract.Folder, name string) contract.Case {
	t.Helper()
	for _, c := range folder.Cases {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no case %s", name)
	return contract.Case{}
}

// TestTheHandlersDoWhatWasRecordedOfPHP holds the handlers against what PHP did,
// and in cases with a deviation against what is declared; and a shadow run
// against the real one.
func TestTheHandlersDoWhatWasRecordedOfPHP(t *testing.T) {
	folder, s, sides := openStage(t)
	for _, c := range folder.Cases {
		t.Run(c.Name, func(t *testing.T) {
			want, err := folder.Want(c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Run(t.Context(), c, sides[c.TaskClass])
			if err != nil {
				t.Fatal(err)
			}
			shadowed, err := s.Shadow(t.Context(), c, sides[c.TaskClass])
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range append(contract.Compare(c, want, got), shadowed.Against(c, got)...) {
				t.Errorf("%s: want %s, got %s", d.Field, orNothing(d.Want), orNothing(d.Got))
			}
		})
	}
}

func orNothing(text *string) string {
	if text == nil {
		return "nothing"
	}
	return *text
}

func TestAProviderCountsFromTheNextTaskOn(t *testing.T) {
	folder, s, sides := openStage(t)
	enabled, disabled := named(t, folder, "publisher-jira"), named(t, folder, "publisher-jira-disabled")
	disabled.World.Options = enabled.World.Options // so that the process stays
	for i, c := range []contract.Case{enabled, disabled, enabled} {
		got, err := s.Run(t.Context(), c, sides[c.TaskClass])
		if err != nil {
			t.Fatal(err)
		}
		if queued := len(got.Outcome.FollowUps); queued != 1-i%2 {
			t.Errorf("run %d queued %d tasks", i+1, queued)
		}
	}
}

func TestURIsThatPHPComparesLooselyAreDeclined(t *testing.T) {
	folder, s, sides := openStage(t)
	for _, c := range []struct {
		name, uri string
		hooks     []any
		want      tasks.Kind
	}{
		{"true is equal to any URI", `true`, []any{"http://a.example.com/"}, tasks.Declined},
		{"true is equal to nothing where there is nothing", `true`, []any{}, tasks.Failed},
		{"false is equal to no URI", `false`, []any{"http://a.example.com/"}, tasks.Failed},
		{"numbers in texts are compared as numbers", `"1e3"`, []any{"1000"}, tasks.Declined},
		{"null is equal to an empty text", `null`, []any{""}, tasks.Declined},
		{"a number is equal to no URI", `0`, []any{"http://a.example.com/"}, tasks.Failed},
		{"a URI is equal to itself", `"http://{{closed}}/"`, []any{"", "http://{{closed}}/"}, tasks.Retry},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := named(t, folder, "http-comment")
			x.Data = `{"key":4294967296000001,"uri":` + c.uri + `}`
			x.World.Options = map[string]any{"phabricator.base-uri": "http://phorge.example.com/", "feed.http-hooks": c.hooks}
			got, err := s.Run(t.Context(), x, sides[x.TaskClass])
			if err != nil {
				t.Fatal(err)
			}
			if got.Outcome.Kind != c.want {
				t.Errorf("%s: %s; want %s", got.Outcome.Kind, got.Outcome.Reason, c.want)
			}
		})
	}
}
