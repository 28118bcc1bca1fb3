package main

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/draw"
	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"

	"example.com/handler-acme/workers"
)

// TestProperty has PHP and the handlers run cases that are drawn, which must come
// to the same.
func TestProperty(t *testing.T) {
	b := openBoth(t, workers.AcmeGreeting())
	t.Run("AcmeGreetingWorker", func(t *testing.T) { b.check(t, drawAcmeGreeting) })
}

// drawAcmeGreeting draws a case: mostly what is plausible, now and then what is odd.
func drawAcmeGreeting(t *rapid.T) contract.Case {
	c := contract.Case{Name: "drawn", TaskClass: "AcmeGreetingWorker", Task: draw.Task(t), Data: `{}`}
	if draw.Chance(t, "odd data", 2) {
		c.Data = draw.Pick(t, "data", ``, `null`, `17`, `"x"`, `[]`, `[1]`)
	}
	return c // c.World takes rows, options, receivers and locks
}

// both are PHP and the handlers, on one stage.
type both struct {
	stage    *stage.Stage
	php, own stage.Side
}

// openBoth makes a scratch copy of the Phorge that PHORGE_ROOT names, on a
// private MariaDB.
func openBoth(t *testing.T, handlers ...plugins.Handler) both {
	root := os.Getenv("PHORGE_ROOT")
	if root == "" {
		t.Skip("NOT PROVEN against a real Phorge: name its directory in PHORGE_ROOT")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	server, err := scratch.Start(scratch.Options{Args: []string{"--innodb-flush-log-at-trx-commit=0"}})
	must(err)
	t.Cleanup(func() { server.Stop() })
	arcanist := cmp.Or(os.Getenv("ARCANIST_ROOT"), filepath.Join(root, "..", "arcanist"))
	phorge, err := scratch.Install(t.Context(), server, "property", scratch.Checkouts{Phorge: root, Arcanist: arcanist})
	must(err)
	t.Cleanup(func() { phorge.Remove() })
	s, err := stage.Open(t.Context(), stage.Config{DSN: server.DSN(""), Namespace: phorge.Namespace()})
	must(err)
	b := both{s, stage.NewPHP(phorge, zerolog.Nop()), s.Handlers(handlers...)}
	t.Cleanup(func() {
		b.own.Close()
		b.php.Close()
		s.Close()
	})
	return b
}

// check draws cases until the two differ; rapid makes the first such case small.
func (b both) check(t *testing.T, generate func(*rapid.T) contract.Case) {
	came := map[tasks.Kind]int{}
	rapid.Check(t, func(rt *rapid.T) {
		c := generate(rt)
		want, err := b.stage.Run(t.Context(), c, b.php)
		if err != nil {
			rt.Fatalf("PHP: %v", err)
		}
		got, err := b.stage.Run(t.Context(), c, b.own)
		if err != nil {
			rt.Fatalf("Go: %v", err)
		}
		came[got.Outcome.Kind]++
		c.Declines = got.Outcome.Kind == tasks.Declined // it must leave no trace then
		if found := contract.Compare(c, want, got); len(found) > 0 {
			var text strings.Builder
			report := contract.Report{Name: "drawn", Results: []contract.Result{{Case: c, Differences: found}}}
			drawn, err := contract.EncodeCases([]contract.Case{c})
			if err := errors.Join(err, report.Text(&text, false)); err != nil {
				rt.Fatal(err)
			}
			rt.Fatalf("PHP and Go differ:\n%s%s", text.String(), drawn)
		}
	})
	t.Logf("the handler came to %v", came)
}
