package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// WebhookWorker is the taskClass that calls webhooks.
const WebhookWorker = "HeraldWebhookWorker"

// Webhooks are webhooks of a Phorge, and an object to call them about.
type Webhooks struct {
	p      *Phorge
	hooks  []string // PHIDs
	object string   // PHID
}

// MakeWebhooks makes so many webhooks, the n-th of which is called at
// receiver/n, from 0 on.
func (p *Phorge) MakeWebhooks(ctx context.Context, receiver string, count int) (*Webhooks, error) {
	if err := p.Configure(map[string]any{"security.outbound-blacklist": []string{}}); err != nil {
		return nil, err
	}
	out, err := p.PHP(ctx, "hooks.php", receiver, fmt.Sprint(count))
	if err != nil {
		return nil, err
	}
	var made struct {
		Hooks  []string
		Object string
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		return nil, fmt.Errorf("make webhooks: it printed %s: %w", out, err)
	}
	return &Webhooks{p: p, hooks: made.Hooks, object: made.Object}, nil
}

// Requests are named after their tasks. They hold what a firehose webhook's do
// for an edit without transactions.
const callWebhooks = `
UPDATE {ns}_worker.worker_activetask t JOIN {ns}_worker.worker_taskdata d ON d.id = t.dataID
SET t.taskClass = '` + WebhookWorker + `', t.objectPHID = CONCAT('PHID-HWBR-', LPAD(t.id, 20, '0')),
  d.data = CONCAT('{"webhookRequestPHID":"PHID-HWBR-', LPAD(t.id, 20, '0'), '"}');
DELETE FROM {ns}_herald.herald_webhookrequest;
INSERT INTO {ns}_herald.herald_webhookrequest
  (phid, webhookPHID, objectPHID, status, properties, lastRequestResult, lastRequestEpoch, dateCreated, dateModified)
SELECT objectPHID, ELT(1 + id % {count}, {hooks}), '{object}', 'queued',
  '{"retry":"never","triggerPHIDs":[],"transactionPHIDs":[],"silent":false,"test":false,"secure":false}',
  'none', 0, UNIX_TIMESTAMP(), UNIX_TIMESTAMP()
FROM {ns}_worker.worker_activetask`

// Fill makes every task of the queue a call of a webhook, each of which gets its
// turn, and forgets the calls before. Nothing may be working on the queue.
func (w *Webhooks) Fill(ctx context.Context) error {
	statements := strings.NewReplacer(
		"{ns}", w.p.Namespace(),
		"{count}", fmt.Sprint(len(w.hooks)),
		"{hooks}", "'"+strings.Join(w.hooks, "', '")+"'",
		"{object}", w.object,
	).Replace(callWebhooks)
	if err := w.p.Server().Exec(ctx, "", statements); err != nil {
		return fmt.Errorf("make tasks into calls of webhooks: %w", err)
	}
	return nil
}
