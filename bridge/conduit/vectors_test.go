package conduit

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

// The same vectors are read by the tests of the PHP library, so that both sides
// sign alike.
func TestVectorsSharedWithPHPAreSignedAlike(t *testing.T) {
	text, err := os.ReadFile("../../php/tests/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, Method, Namespace, Secret string
		signature
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) == 0 {
		t.Fatal("there are no vectors")
	}
	for _, v := range vectors {
		got := Secret(v.Secret).sign(v.Method, v.Namespace, v.KeyID, v.Nonce, v.Body, time.Unix(v.Timestamp, 0))
		if got != v.signature {
			t.Errorf("%s: %+v, not %+v", v.Name, got, v.signature)
		}
		if !validKeyID.MatchString(v.KeyID) {
			t.Errorf("%s: key id %q is refused here", v.Name, v.KeyID)
		}
	}
}
