package main

import (
	"context"
	"slices"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/embedded"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/phorge-gantry/gantry/tasks/redis"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// claimLimit is small, so that a queue of a thousand is not empty after the calls
// whose latency is taken.
const claimLimit = 8

// claimStores are the stores whose claims must not cost more when the queue is
// long.
var claimStores = []string{"mysql", "sqlite", "redis"}

// fillClaims makes a short and a long queue on each store that is wanted.
func (b *bench) fillClaims(ctx context.Context) error {
	b.claimed = map[string]func(context.Context) (claimable, error){}
	for _, store := range claimStores {
		if !b.wanted["claim_thousand_"+store] && !b.wanted["claim_million_"+store] {
			continue
		}
		for size, n := range map[string]int{"thousand": b.few, "million": b.many} {
			b.say("queueing %d tasks on %s", n, store)
			if err := b.fillClaim(ctx, store, size, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) fillClaim(ctx context.Context, kind, size string, n int) error {
	row := "claim_" + size + "_" + kind
	switch kind {
	case "mysql":
		q, err := b.namespace(size)
		if err != nil {
			return err
		}
		b.claimed[row] = func(ctx context.Context) (claimable, error) {
			return phorge.Open(ctx, phorge.Config{DSN: q.dsn})
		}
		return q.refill(ctx, n)
	case "sqlite":
		b.claimed[row] = func(ctx context.Context) (claimable, error) {
			return embedded.Open(ctx, embedded.Config{Path: b.program(size + ".db")})
		}
	case "redis":
		server, err := harness.LaunchRedis("--appendfsync", "everysec")
		if err != nil {
			return err
		}
		b.atClose(server.Stop)
		b.claimed[row] = func(ctx context.Context) (claimable, error) {
			return redis.Open(ctx, redis.Config{URL: server.URL()})
		}
	}
	store, err := b.claimed[row](ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	const batch = 5000
	news := slices.Repeat([]tasks.NewTask{{Class: class, Data: []byte(data)}}, min(n, batch))
	for ; n > 0; n -= batch {
		if _, err := store.Enqueue(ctx, news[:min(n, batch)]); err != nil {
			return err
		}
	}
	return nil
}

// claims are the measurements of all stores.
func (b *bench) claims() (all []measurement) {
	for _, store := range claimStores {
		rows := []string{"claim_thousand_" + store, "claim_million_" + store}
		all = append(all, measurement{rows, func(ctx context.Context) error {
			return b.leaseInTurn(ctx, claimLimit, rows, func(row string) (claimable, error) { return b.claimed[row](ctx) })
		}})
	}
	return all
}
