package live

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/cmd/handler-feed/feed"
	"github.com/phorge-gantry/gantry/contract"
	feedcases "github.com/phorge-gantry/gantry/contract/cases/feed"
	contractstage "github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// TestStoriesDrawnAtRandomComeToTheSameInPHPAndGo runs as many cases as
// GANTRY_PROPERTY_CASES says.
func TestStoriesDrawnAtRandomComeToTheSameInPHPAndGo(t *testing.T) {
	p := harness.Live(t)
	s, err := contractstage.Open(t.Context(), contractstage.Config{DSN: p.Server().DSN(""), Namespace: p.Namespace()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	php := contractstage.NewPHP(p.Phorge, zerolog.Nop())
	defer php.Close()
	sides := map[string]contractstage.Side{}
	for _, h := range []plugins.Handler{feed.Publisher(), feed.HTTPPublisher()} {
		sides[h.Class] = s.Handler(h)
		defer sides[h.Class].Close()
	}
	declined := 0
	differences := func(c contract.Case) []contract.Difference {
		t.Helper()
		want, err := s.Run(t.Context(), c, php)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Run(t.Context(), c, sides[c.TaskClass])
		if err != nil {
			t.Fatal(err)
		}
		if got.Outcome.Kind == tasks.Declined {
			declined++
			c.Declines = true // that it leaves no trace is what is left to compare
		}
		return contract.Compare(c, want, got)
	}

	cases := drawn(t, feedcases.Generate)
	for _, c := range cases {
		if found := differences(c); len(found) > 0 {
			smaller := contract.Shrink(c, func(c contract.Case) bool { return len(differences(c)) > 0 })
			text, err := contract.EncodeCases([]contract.Case{smaller})
			t.Fatalf("PHP and Go differ: %+v %v\n%s", differences(smaller), err, text)
		}
	}
	if declined > len(cases)/2 {
		t.Errorf("%d of %d cases were declined, too many to prove anything", declined, len(cases))
	}
}

// drawn answers random cases, those with the same options together: PHP is
// started anew for each set.
func drawn(t *testing.T, draw func(*rapid.T) contract.Case) []contract.Case {
	t.Helper()
	count := 100
	if text, set := os.LookupEnv("GANTRY_PROPERTY_CASES"); set {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatalf("GANTRY_PROPERTY_CASES: %v", err)
		}
	}
	options := func(c contract.Case) string {
		text, err := json.Marshal(c.World.Options)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	cases, generator := make([]contract.Case, count), rapid.Custom(draw)
	for i := range cases {
		cases[i] = generator.Example(rand.Int())
	}
	slices.SortStableFunc(cases, func(a, b contract.Case) int { return strings.Compare(options(a), options(b)) })
	return cases
}
