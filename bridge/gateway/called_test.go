package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestWhoCountsCallsIsToldOfEach(t *testing.T) {
	p := newPhorge(t)
	var mu sync.Mutex
	var told []string
	c := configured(p.URL)
	c.Tokens[0].Deny = []string{"user.*"}
	c.Called = func(method string, status int, took time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprintf("%q %d %v", method, status, took >= 0))
	}
	g := start(t, c)
	g.send(t, g.call(t, "conduit.ping", "a=b"))
	g.send(t, g.call(t, "user.whoami", ""))
	stranger := g.call(t, "conduit.ping", "")
	stranger.Header.Set("X-Service-Token", otherToken)
	g.send(t, stranger)
	want := []string{
		fmt.Sprintf(`"conduit.ping" %d true`, http.StatusOK),
		fmt.Sprintf(`"user.whoami" %d true`, noMethod.status),
		fmt.Sprintf(`"" %d true`, noToken.status),
	}
	harness.Eventually(t, "all are told of", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) == len(want)
	})
	if !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
}
