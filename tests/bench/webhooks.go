package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/phorge-gantry/gantry/bridge/pool"
	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// hookCount is how many webhooks are called in turn: so many that a call of one is
// over long before its next one is due. One that is not over would make the
// next task yield for 15 s, by either route, and the row would measure that.
const hookCount = 4 * runtime.DefaultSlots

// answerTime is how long the receiver of webhooks takes.
const answerTime = 200 * time.Millisecond

// prepareWebhooks makes the webhooks and what they call.
func (b *bench) prepareWebhooks(ctx context.Context) (err error) {
	b.receiver, err = harness.StartReceiver(func(call context.Context) {
		answer := time.NewTimer(answerTime)
		defer answer.Stop()
		select {
		case <-answer.C:
		case <-call.Done():
		}
	})
	if err != nil {
		return err
	}
	b.atClose(b.receiver.Close)
	b.hooks, err = b.phorge.MakeWebhooks(ctx, b.receiver.URL(), hookCount)
	return err
}

// webhooksPool measures calls of webhooks by so many PHP processes.
func (b *bench) webhooksPool(processes int) func(context.Context) error {
	return func(ctx context.Context) error {
		return b.withPool(ctx, processes, func(p *pool.Pool) error {
			return b.drainWebhooks(ctx, fmt.Sprintf("webhook_pool_%d", processes), p, p.Slots, b.scale.webhooks)
		})
	}
}

// webhooksGo measures the same by handler-herald, with the slots that gantry run
// has.
func (b *bench) webhooksGo(ctx context.Context) (err error) {
	if b.phorge == nil {
		return nil
	}
	h, err := b.startHost(ctx, "herald.yaml", harness.WebhookWorker, b.site)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	slots := func() int { return runtime.DefaultSlots }
	return b.drainWebhooks(ctx, "webhook_go", h, slots, 8*b.scale.webhooks)
}

// site is what handlers are told of the Phorge.
func (b *bench) site(applications, _ []string) (*plugins.Site, error) {
	site := &plugins.Site{
		Namespace: b.phorge.Namespace(), DSNs: map[string]string{},
		Options: map[string]json.RawMessage{"security.outbound-blacklist": []byte("[]")},
	}
	for _, application := range applications {
		site.DSNs[application] = b.server.DSN(site.Namespace + "_" + application)
	}
	return site, nil
}

// drainWebhooks measures so many calls, and makes sure that each was made, with
// never two of one webhook at once.
func (b *bench) drainWebhooks(ctx context.Context, row string, e tasks.Executor, slots func() int, n int) error {
	if err := b.stock.refill(ctx, n); err != nil {
		return err
	}
	if err := b.hooks.Fill(ctx); err != nil {
		return err
	}
	before := b.receiver.Calls()
	took, err := b.drainPHP(ctx, harness.WebhookWorker, e, slots, n)
	if err != nil {
		return err
	}
	var sent int
	err = b.stock.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+b.phorge.Namespace()+
		"_herald.herald_webhookrequest WHERE status = 'sent' AND lastRequestResult = 'okay'").Scan(&sent)
	if calls := b.receiver.Calls() - before; err == nil && (calls != n || sent != n) {
		err = fmt.Errorf("%d tasks made %d calls, and %d requests are noted as sent", n, calls, sent)
	}
	if err := errors.Join(err, b.receiver.Together()); err != nil {
		return err
	}
	b.table.add(row, rate(n, took))
	return nil
}
