package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/phorge-gantry/gantry/tests/harness"
	"github.com/phorge-gantry/gantry/tests/recorded"
)

func TestMain(m *testing.M) { harness.Main(m) }

const cases = "../../../contract/cases/herald"

func TestTheHandlerDoesWhatWasRecorded(t *testing.T) {
	folder, s := recorded.Open(t, cases)
	side := s.Handlers(Handler())
	defer side.Close()
	recorded.Verify(t, folder, s, side)
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
	folder, s := recorded.Open(t, cases)
	side := s.Handlers(Handler())
	defer side.Close()
	got, err := s.Run(t.Context(), recorded.Named(t, folder, "payload-bare"), side)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte("0123456789abcdef0123456789abcdef"))
	mac.Write([]byte(want))
	r := got.Requests[0]
	if r.Body != want || r.Headers["X-Phabricator-Webhook-Signature"] != hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("sent %q under %q", r.Body, r.Headers)
	}
}
