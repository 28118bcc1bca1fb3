package live

import (
	"testing"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/cmd/handler-herald/webhook"
	"github.com/phorge-gantry/gantry/contract"
	heraldcases "github.com/phorge-gantry/gantry/contract/cases/herald"
	contractstage "github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// TestWebhooksDrawnAtRandomComeToTheSameInPHPAndGo runs as many cases as
// GANTRY_PROPERTY_CASES says.
func TestWebhooksDrawnAtRandomComeToTheSameInPHPAndGo(t *testing.T) {
	p := harness.Live(t)
	s, err := contractstage.Open(t.Context(), contractstage.Config{DSN: p.Server().DSN(""), Namespace: p.Namespace()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	php, own := contractstage.NewPHP(p.Phorge, zerolog.Nop()), s.Handler(webhook.Handler())
	defer php.Close()
	defer own.Close()
	kinds, called := map[tasks.Kind]int{}, 0
	differences := func(c contract.Case) []contract.Difference {
		t.Helper()
		want, err := s.Run(t.Context(), c, php)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Run(t.Context(), c, own)
		if err != nil {
			t.Fatal(err)
		}
		kinds[got.Outcome.Kind]++
		called += min(len(got.Requests), 1)
		c.Declines = got.Outcome.Kind == tasks.Declined // that it leaves no trace is what is left to compare
		return contract.Compare(c, want, got)
	}
	cases := drawn(t, heraldcases.Generate)
	for _, c := range cases {
		if found := differences(c); len(found) > 0 {
			smaller := contract.Shrink(c, func(c contract.Case) bool { return len(differences(c)) > 0 })
			text, err := contract.EncodeCases([]contract.Case{smaller})
			t.Fatalf("PHP and Go differ: %+v %v\n%s", differences(smaller), err, text)
		}
	}
	t.Logf("%d cases came to %v, %d of them by a call", len(cases), kinds, called)
	if called < len(cases)/4 {
		t.Errorf("only %d of %d webhooks were called, too few to prove anything", called, len(cases))
	}
}

// TestLiveTheDefaultBlacklistIsPhorges asks both sides about an address of each
// block that Phorge refuses when nobody set security.outbound-blacklist.
func TestLiveTheDefaultBlacklistIsPhorges(t *testing.T) {
	p := harness.Live(t)
	s, err := contractstage.Open(t.Context(), contractstage.Config{DSN: p.Server().DSN(""), Namespace: p.Namespace()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	php, own := contractstage.NewPHP(p.Phorge, zerolog.Nop()), s.Handler(webhook.Handler())
	defer php.Close()
	defer own.Close()
	for _, address := range []string{
		"0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1", "169.254.169.254",
		"172.16.0.0", "172.31.255.255", "192.0.0.255", "192.0.2.1", "192.88.99.1", "192.168.255.255", "198.18.0.0",
		"198.19.255.255", "198.51.100.1", "203.0.113.255", "224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255",
	} {
		c := webhookCase("http://" + address + ":1/")
		c.World.Options = nil
		for name, side := range map[string]contractstage.Side{"PHP": php, "Go": own} {
			o, err := s.Run(t.Context(), c, side)
			if err != nil {
				t.Fatal(err)
			}
			if !failedWith(o, `"hook","errorCode":"uri"`) {
				t.Errorf("%s calls %s: %+v", name, address, o)
			}
		}
	}
}
