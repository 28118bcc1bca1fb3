// Package webhook is HeraldWebhookWorker: it calls a webhook about something
// that happened to an object, and stores what came of the call.
//
// It does what PHP does, byte for byte, in the order of PHP, where
// DEVIATIONS.md says nothing else. Objects that it does not know how to find
// are PHP's: their tasks are declined before anything is written or sent.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/fetch"
	"github.com/phorge-gantry/gantry/plugins/phpenc"
)

// concurrency is how many calls are under way at once, if there are slots for
// as many. Calls wait for others, and need a connection to the receiver while
// they do, and none to the database; so files are what bounds them, of which a
// process may have 1024 where the system was left as it is. No more than one
// call goes to the same webhook.
const concurrency = 256

const (
	// lockWait is how long a task waits while another one calls its webhook.
	lockWait = 15 * time.Second

	// callTimeout is how long a receiver may take, with all redirects.
	callTimeout = 15 * time.Second
)

// Handler answers the handler of HeraldWebhookWorker.
func Handler() plugins.Handler {
	return plugins.Handler{
		Class:       "HeraldWebhookWorker",
		Handle:      handle,
		Concurrency: concurrency,
		Databases:   databases(),
		Options:     []string{optionSilent, optionBlacklist},
	}
}

// handle answers to HeraldWebhookWorker::doWork.
func handle(ctx context.Context, task *plugins.Task) error {
	phid, err := requestPHID(task.Data)
	if err != nil {
		return err
	}
	r, err := load(ctx, task, phid)
	if err != nil {
		return err
	}
	if r.status != statusQueued {
		return notQueued(r)
	}
	silent, err := isSilent(ctx, task)
	if err != nil {
		return err
	}
	if silent {
		return r.fail(ctx, errorSilent)
	}
	if r.hook.status == hookDisabled {
		return r.failFor(ctx, errorDisabled, fmt.Errorf("webhook %s, of request %s, is disabled", r.hook.phid, r.phid))
	}
	checked, err := check(ctx, task, r.hook.uri)
	if err != nil {
		var invalid *invalidURI
		if errors.As(err, &invalid) {
			return r.failFor(ctx, errorURI, fmt.Errorf("webhook %s, of request %s, cannot be called: %w", r.hook.phid, r.phid, err))
		}
		return err
	}
	transactions, err := r.find(ctx)
	if err != nil {
		return err
	}
	unlock, err := task.Lock(ctx, "webhook("+r.hook.phid+")")
	if errors.Is(err, plugins.ErrLocked) {
		return plugins.Yield(lockWait)
	}
	if err != nil {
		return err
	}
	defer unlock()
	return r.call(ctx, checked, transactions)
}

// requestPHID answers what the data of a task names.
func requestPHID(data []byte) (string, error) {
	var value any
	if string(data) != "0" { // PHP takes it for no data
		value = phpenc.DecodeJSON(data)
	}
	array, ok := value.(phpenc.Array)
	if !ok {
		return "", errors.New("the task's data is no map, so it names no webhook request")
	}
	phid, ok := phpenc.Text(array.Get("webhookRequestPHID"))
	if !ok {
		return "", errors.New("webhookRequestPHID in the task's data is no text")
	}
	return phid, nil
}

func notQueued(r *request) error {
	return plugins.Fail(fmt.Errorf("webhook request %s is not in status %q but %q, so it is not sent", r.phid, statusQueued, r.status))
}

// call answers to HeraldWebhookWorker::callWebhookWithLock.
func (r *request) call(ctx context.Context, checked *fetch.Checked, transactions []string) error {
	resting, err := r.isInErrorBackoff(ctx)
	if err != nil {
		return err
	}
	if resting {
		return plugins.Yield(backoffWindow)
	}
	if err := r.refresh(ctx); err != nil {
		return err
	}
	if r.status != statusQueued {
		return notQueued(r)
	}
	payload, err := r.payload(transactions)
	if err != nil {
		return err
	}
	signature, err := sign(payload, r.hook.key)
	if err != nil {
		return err
	}
	// From here on the loss of the lock changes nothing: the receiver has the
	// call, and would get it again.
	ctx = r.task.UntilCancelled()
	status, err := fetch.Do(ctx, r.task.Transport, fetch.Request{
		Method: "POST",
		URL:    r.hook.uri,
		Headers: []fetch.Header{
			{Name: "Content-Type", Value: "application/json"},
			{Name: "X-Phabricator-Webhook-Signature", Value: signature, SameOrigin: true},
		},
		Body:    payload,
		Timeout: callTimeout,
		Checked: checked,
	})
	if err != nil {
		return fmt.Errorf("webhook request %s: the call was not finished: %w", r.phid, err)
	}
	return r.settle(ctx, status)
}

// settle stores what came of a call, and answers what becomes of the task.
func (r *request) settle(ctx context.Context, status fetch.Status) error {
	errorType := errorTypeHTTP
	if status.IsTimeout() {
		errorType = errorTypeTimeout
	}
	again := r.properties().Get("retry") == retryForever
	result := outcome{errorType: errorType, errorCode: int64(status.Code), result: resultOkay, status: statusSent, called: true}
	if status.IsError() {
		result.result, result.status = resultFail, statusFailed
		if again {
			result.status = statusQueued
		}
	}
	// The call was made. Without its result it would be made again.
	err := plugins.Store(ctx, func(ctx context.Context) error { return r.save(ctx, result) })
	if err != nil {
		return fmt.Errorf("webhook request %s was called, and the result is not stored: %w", r.phid, err)
	}
	if !status.IsError() {
		return nil
	}
	err = fmt.Errorf("webhook request %s, to %s, failed (%s / %d)", r.phid, redacted(r.hook.uri), errorType, status.Code)
	if again {
		return err
	}
	return plugins.Fail(err)
}
