package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// openStage answers the recorded cases, and a stage with their tables.
func openStage(t testing.TB) (*contract.Folder, *stage.Stage) {
	t.Helper()
	folder, err := contract.LoadFolder("../../../contract/cases/herald")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := folder.Schema()
	if err != nil {
		t.Fatal(err)
	}
	s, err := stage.Open(t.Context(), stage.Config{DSN: harness.Shared(t).DSN(""), Namespace: "herald"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Prepare(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	return folder, s
}

// TestTheHandlerDoesWhatWasRecorded holds the handler against what PHP did, and
// in cases with a deviation against what is declared; and a shadow run against
// the real one.
func TestTheHandlerDoesWhatWasRecorded(t *testing.T) {
	folder, s := openStage(t)
	side := s.Handler(Handler())
	defer side.Close()
	for _, c := range folder.Cases {
		t.Run(c.Name, func(t *testing.T) {
			want, err := folder.Want(c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Run(t.Context(), c, side)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range contract.Compare(c, want, got) {
				t.Errorf("%s: want %s, got %s", d.Field, orNothing(d.Want), orNothing(d.Got))
			}
			shadowed, err := s.Shadow(t.Context(), c, side)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range shadowed.Against(c, got) {
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

func TestEveryDeclaredDeviationIsInTheDocument(t *testing.T) {
	folder, err := contract.LoadFolder("../../../contract/cases/herald")
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../../../DEVIATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	for _, c := range folder.Cases {
		if c.Deviation == nil {
			continue
		}
		declared++
		if !strings.Contains(string(document), "`"+c.Deviation.ID+"`") {
			t.Errorf("case %s declares %s, of which DEVIATIONS.md says nothing", c.Name, c.Deviation.ID)
		}
	}
	if declared == 0 {
		t.Error("no case declares a deviation; the test does not look at the cases")
	}
}

func TestB45TheSignatureIsOfTheBytesThatAreSent(t *testing.T) {
	const want = `{
  "object": {
    "type": "TASK",
    "phid": "PHID-TASK-one00000000000000000"
  },
  "triggers": [],
  "action": {
    "test": false,
    "silent": false,
    "secure": false,
    "epoch": 1000000
  },
  "transactions": []
}
`
	folder, s := openStage(t)
	side := s.Handler(Handler())
	defer side.Close()
	for _, c := range folder.Cases {
		if c.Name != "payload-bare" {
			continue
		}
		got, err := s.Run(t.Context(), c, side)
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, []byte("0123456789abcdef0123456789abcdef"))
		mac.Write([]byte(want))
		r := got.Requests[0]
		if r.Body != want || r.Headers["X-Phabricator-Webhook-Signature"] != hex.EncodeToString(mac.Sum(nil)) {
			t.Errorf("sent %q under %q", r.Body, r.Headers)
		}
		return
	}
	t.Fatal("there is no case payload-bare")
}
