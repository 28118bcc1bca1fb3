package token

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNewTokensAreLongAndKnownByTheirDigests(t *testing.T) {
	token, digest := New()
	other, _ := New()
	if digest != Digest(token) || token == other || len(token) < 26 {
		t.Errorf("%q %q %q", token, digest, other)
	}
	var h Holders[string]
	for name, d := range map[string]string{"one": digest, "other": Digest(other)} {
		if err := h.Add(d, name); err != nil {
			t.Fatal(err)
		}
	}
	for given, want := range map[string]string{token: "one", other: "other", digest: "", "": "", token + " ": ""} {
		if got, found := h.Find(given); got != want || found != (want != "") {
			t.Errorf("%q is held by %q", given, got)
		}
	}
	if _, found := (&Holders[string]{}).Find(""); found {
		t.Error("nobody's token is held by somebody")
	}
}

func TestWhatIsNoDigestIsRefusedAndNotRepeated(t *testing.T) {
	var h Holders[int]
	if err := h.Add(Digest("x"), 1); err != nil {
		t.Fatal(err)
	}
	for digest, want := range map[string]string{
		"secret": "SHA-256 of the token", Digest("y")[1:]: "SHA-256 of the token", Digest(""): "an empty token",
		Digest("x"): "twice", strings.ToUpper(Digest("x")): "twice",
	} {
		if err := h.Add(digest, 2); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), digest) {
			t.Errorf("%q: %v", digest, err)
		}
	}
}

func TestTokensStandInTwoHeaders(t *testing.T) {
	h := http.Header{"X-Service-Token": {"a", "b"}, "Authorization": {"Basic x", "bearer  c ", "Bearer", "Bearerd"}}
	if got := Presented(h); !slices.Equal(got, []string{"a", "b", "c", ""}) {
		t.Errorf("%q", got)
	}
}

func TestABucketSaysWhenItIsWorthTryingAgain(t *testing.T) {
	now := time.Unix(1e9, 0)
	b := Rate{PerSecond: 0.25}.Bucket()
	if wait := b.Take(now); wait != 0 {
		t.Fatalf("a full bucket waits %s", wait)
	}
	for range 3 { // asking does not take
		if wait := b.Take(now.Add(time.Second)); wait != 3*time.Second {
			t.Errorf("waits %s, want 3s", wait)
		}
	}
	if wait := (Rate{}).Bucket().Take(now); wait != 0 {
		t.Errorf("without limit: %s", wait)
	}
}
