package live

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/contract"
	contractstage "github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// both are PHP and handlers of this process, on the stage of a Phorge of their
// own: what is drawn must not meet what other tests left.
type both struct {
	*testing.T
	stage  *contractstage.Stage
	php    contractstage.Side
	own    contractstage.Side
	kinds  map[tasks.Kind]int // what cases came to in Go
	called int                // cases in which Go called somebody
}

func openBoth(t *testing.T, handlers ...plugins.Handler) *both {
	t.Helper()
	harness.Live(t) // or there is no Phorge
	p, err := harness.InstallPhorge(harness.Shared(t), "both")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Remove() })
	s, err := contractstage.Open(t.Context(), contractstage.Config{DSN: p.Server().DSN(""), Namespace: p.Namespace()})
	if err != nil {
		t.Fatal(err)
	}
	b := &both{
		T: t, stage: s, php: contractstage.NewPHP(p.Phorge, zerolog.Nop()), own: s.Handlers(handlers...),
		kinds: map[tasks.Kind]int{},
	}
	t.Cleanup(func() {
		b.own.Close()
		b.php.Close()
		s.Close()
	})
	return b
}

func (b *both) run(c contract.Case, side contractstage.Side) contract.Observation {
	b.Helper()
	o, err := b.stage.Run(b.Context(), c, side)
	if err != nil {
		b.Fatal(err)
	}
	return o
}

// compare has every case come to the same, and makes the first smaller that does
// not.
func (b *both) compare(cases []contract.Case) {
	b.Helper()
	for _, c := range cases {
		if found := b.differences(c); len(found.Differences) > 0 {
			small := found
			smaller := contract.Shrink(c, func(c contract.Case) bool {
				now := b.differences(c)
				if found.Kin(now) {
					small = now
					return true
				}
				return false
			})
			text, err := contract.EncodeCases([]contract.Case{smaller})
			b.Fatalf("PHP and Go differ: %v %v\n%s", small.Differences, err, text)
		}
	}
	b.Logf("%d cases came to %v, %d of them by a call", len(cases), b.kinds, b.called)
}

func (b *both) differences(c contract.Case) contract.Pair {
	b.Helper()
	want, got := b.run(c, b.php), b.run(c, b.own)
	b.kinds[got.Outcome.Kind]++
	b.called += min(len(got.Requests), 1)
	c.Declines = got.Outcome.Kind == tasks.Declined // that it leaves no trace is what is left to compare
	return contract.Pair{Want: want, Got: got, Differences: contract.Compare(c, want, got)}
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
	cases, generator := make([]contract.Case, count), rapid.Custom(draw)
	for i := range cases {
		cases[i] = generator.Example(rand.Int())
	}
	slices.SortStableFunc(cases, contract.ByOptions)
	return cases
}
