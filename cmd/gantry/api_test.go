package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/phorge-gantry/gantry/tasks/queueapi"
	"github.com/rs/zerolog"
)

func TestTheSettingsOfTheAPIReachIt(t *testing.T) {
	c, err := load(t, `
sqlite: q.db
pickup_delay: 200ms
api_lease: 10m
api_retry_wait: 1m
api_keep_keys: 1h
api_query_token: true
api_max_body: 2048
`, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.observe(zerolog.Nop()).close(t.Context(), zerolog.Nop())
	m := newMemory()
	api, err := newAPI(c, []queue{{"default", c, m}}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	type reached struct {
		Lease, RetryWait, KeepKeys time.Duration
		QueryToken                 bool
		MaxBody                    int64
		Backend                    string
		PickupDelay                time.Duration
	}
	one := api.Instances["default"]
	got := reached{api.LeaseTime, api.RetryWait, api.KeepKeys, api.QueryToken, api.MaxBody, one.Backend, one.PickupDelay}
	if diff := cmp.Diff(reached{10 * time.Minute, time.Minute, time.Hour, true, 2048, "sqlite", 200 * time.Millisecond}, got); diff != "" {
		t.Errorf("the API (-want +got):\n%s", diff)
	}
}

func TestTokensOfOurOwnGoOverTheTokenOfGorge(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	if got := command(t, nil, "", "tokens", "new", "a", "--rights=read", "--sqlite=q.db", "--tokens="+file); got.code != exitOK {
		t.Fatal(got.err)
	}
	for _, c := range []struct {
		environ   []string
		instances []string
		want      []string
		code      int
	}{
		{nil, []string{"default"}, nil, exitOK},
		{[]string{"SERVICE_TOKEN="}, []string{"default"}, nil, exitOK},
		{[]string{"SERVICE_TOKEN=hunter2"}, []string{"default"}, []string{"SERVICE_TOKEN"}, exitOK},
		{[]string{"SERVICE_TOKEN=hunter2", "GANTRY_TOKENS=" + file}, []string{"default"}, []string{"a"}, exitOK},
		{[]string{"SERVICE_TOKEN=hunter2"}, []string{"alpha", "beta"}, nil, exitUsage},
	} {
		of, err := load(t, "", c.environ, nil)
		if err != nil {
			t.Fatal(err)
		}
		tokens, err := of.callers(c.instances)
		var names []string
		for _, token := range tokens {
			names = append(names, token.Name)
			if err := check(token); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff(c.want, names); diff != "" || exitCode(err) != c.code {
			t.Errorf("%v: %v, tokens (-want +got):\n%s", c.environ, err, diff)
		}
	}
}

// check answers what the API has against a token.
func check(token queueapi.Token) error {
	api, err := queueapi.New(queueapi.Config{Instances: map[string]queueapi.Instance{"default": {Store: newMemory()}}, Tokens: []queueapi.Token{token}})
	if err == nil {
		api.Close()
	}
	return err
}
