package storetest

import (
	"context"
	"math/rand/v2"
	"testing"

	"golang.org/x/sync/errgroup"
)

// checkConcurrent lets two processes with two workers each work on one queue
// while time jumps under them, and checks the history.
func checkConcurrent(t *testing.T, open Open) {
	subject := open(t, Running)
	defer subject.Close()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	crew := newCrew(subject, seed)
	group, ctx := errgroup.WithContext(t.Context())
	for _, w := range crew.workers {
		group.Go(func() error { return repeat(40, func() error { return w.Round(ctx) }) })
	}
	group.Go(func() error { return repeat(15, func() error { return crew.age(ctx, 70) }) })
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := crew.drain(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	report, err := crew.check()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range report.Violations {
		t.Error(v)
	}
	t.Logf("%d tasks, %d executions: %d repeated because they asked for it, %d because their lease was lost",
		report.Tasks, report.Executions, report.Asked, report.Lost)
	if report.Archived != report.Tasks || report.Tasks < 100 || report.Asked == 0 || report.Lost == 0 {
		t.Errorf("the history proves too little: %+v", report)
	}
}

func repeat(times int, do func() error) error {
	for range times {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// age lets time pass, after a read that lets the workers come in between.
func (c *crew) age(ctx context.Context, seconds int64) error {
	if _, err := c.Operator.Now(ctx); err != nil {
		return err
	}
	return c.workers[0].Disturb(nil, func() error { return c.Rows.Age(seconds) })
}
