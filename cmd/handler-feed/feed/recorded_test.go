package feed

import (
	"testing"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
	"github.com/phorge-gantry/gantry/tests/recorded"
)

func TestMain(m *testing.M) { harness.Main(m) }

// open answers the recorded cases, a stage with their tables, and the handlers on
// it.
func open(t testing.TB) (*contract.Folder, *stage.Stage, stage.Shadower) {
	t.Helper()
	folder, s := recorded.Open(t, "../../../contract/cases/feed")
	side := s.Handlers(Publisher(), HTTPPublisher())
	t.Cleanup(func() { side.Close() })
	return folder, s, side
}

func TestTheHandlersDoWhatWasRecordedOfPHP(t *testing.T) {
	folder, s, side := open(t)
	recorded.Verify(t, folder, s, side)
}

func TestAProviderCountsFromTheNextTaskOn(t *testing.T) {
	folder, s, side := open(t)
	enabled, disabled := recorded.Named(t, folder, "publisher-jira"), recorded.Named(t, folder, "publisher-jira-disabled")
	disabled.World.Options = enabled.World.Options // so that the process stays
	for i, c := range []contract.Case{enabled, disabled, enabled} {
		got, err := s.Run(t.Context(), c, side)
		if err != nil {
			t.Fatal(err)
		}
		if queued := len(got.Outcome.FollowUps); queued != 1-i%2 {
			t.Errorf("run %d queued %d tasks", i+1, queued)
		}
	}
}

func TestURIsThatPHPComparesLooselyAreDeclined(t *testing.T) {
	folder, s, side := open(t)
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
			x := recorded.Named(t, folder, "http-comment")
			x.Data = `{"key":4294967296000001,"uri":` + c.uri + `}`
			x.World.Options = map[string]any{"phabricator.base-uri": "http://phorge.example.com/", "feed.http-hooks": c.hooks}
			got, err := s.Run(t.Context(), x, side)
			if err != nil {
				t.Fatal(err)
			}
			if got.Outcome.Kind != c.want {
				t.Errorf("%s: %s; want %s", got.Outcome.Kind, got.Outcome.Reason, c.want)
			}
		})
	}
}
