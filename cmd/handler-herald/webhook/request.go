package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/phpenc"
)

// What is stored of requests and webhooks, as HeraldWebhookRequest and
// HeraldWebhook have it.
const (
	statusQueued = "queued"
	statusFailed = "failed"
	statusSent   = "sent"

	resultNone = "none"
	resultOkay = "okay"
	resultFail = "fail"

	errorTypeHook    = "hook"
	errorTypeHTTP    = "http"
	errorTypeTimeout = "timeout"

	errorSilent   = "silent"
	errorDisabled = "disabled"
	errorURI      = "uri"

	retryForever = "forever"

	hookDisabled = "disabled"

	// A webhook rests for this long after that many calls have failed within
	// as long.
	backoffWindow    = 5 * time.Minute
	backoffThreshold = 10
)

// request is a HeraldWebhookRequest with its HeraldWebhook.
type request struct {
	task *plugins.Task
	db   plugins.DB

	id          int64
	phid        string
	objectPHID  string
	status      string
	stored      any // properties, as json_decode reads them
	dateCreated int64

	hook struct {
		phid, uri, status, key string
	}
}

const selectRequest = `
	SELECT r.id, r.phid, r.objectPHID, r.status, r.properties, r.dateCreated, w.phid, w.webhookURI, w.status, w.hmacKey
	FROM herald_webhookrequest r JOIN herald_webhook w ON w.phid = r.webhookPHID
	WHERE r.phid = ?`

// load reads a request. One that is not there, or whose webhook is not, fails
// the task for good.
func load(ctx context.Context, task *plugins.Task, phid string) (*request, error) {
	r := &request{task: task, db: task.DB("herald")}
	var properties []byte
	err := r.db.QueryRow(ctx, selectRequest, phid).Scan(&r.id, &r.phid, &r.objectPHID, &r.status, &properties,
		&r.dateCreated, &r.hook.phid, &r.hook.uri, &r.hook.status, &r.hook.key)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, plugins.Fail(fmt.Errorf("there is no webhook request %q, or its webhook is gone", phid))
	}
	if err != nil {
		return nil, fmt.Errorf("webhook request %q: %w", phid, err)
	}
	r.stored = phpenc.DecodeJSON(properties)
	return r, nil
}

// refresh reads the status again, which somebody may have changed who held the
// lock before.
func (r *request) refresh(ctx context.Context) error {
	err := r.db.QueryRow(ctx, "SELECT status FROM herald_webhookrequest WHERE id = ?", r.id).Scan(&r.status)
	if errors.Is(err, sql.ErrNoRows) {
		return plugins.Fail(fmt.Errorf("webhook request %s is gone", r.phid))
	}
	return err
}

// isInErrorBackoff answers to HeraldWebhook::isInErrorBackoff. The window is by
// the clock of the database, which stores the times that it is about.
func (r *request) isInErrorBackoff(ctx context.Context) (bool, error) {
	var failures int
	err := r.db.QueryRow(ctx, `
		SELECT COUNT(*) FROM (
			SELECT 1 FROM herald_webhookrequest
			WHERE webhookPHID = ? AND lastRequestResult = ? AND lastRequestEpoch >= UNIX_TIMESTAMP() - ?
			LIMIT ?) recent`,
		r.hook.phid, resultFail, int(backoffWindow/time.Second), backoffThreshold).Scan(&failures)
	return failures >= backoffThreshold, err
}

// properties answers the properties where they are to be read. A request whose
// properties are no array is not called; see find.
func (r *request) properties() phpenc.Array {
	array, _ := r.stored.(phpenc.Array)
	return array
}

// outcome is what is stored of an attempt.
type outcome struct {
	status, result string
	errorType      string
	errorCode      any // text or a number
	called         bool
}

// fail answers to HeraldWebhookWorker::failRequest.
func (r *request) fail(ctx context.Context, code string) error {
	return r.save(ctx, outcome{status: statusFailed, result: resultNone, errorType: errorTypeHook, errorCode: code})
}

// failFor is fail, and the task fails for good.
func (r *request) failFor(ctx context.Context, code string, why error) error {
	if err := r.fail(ctx, code); err != nil {
		return err
	}
	return plugins.Fail(why)
}

// LiskDAO::save sets a time of creation that is 0, too. A request that is queued
// no more was called by somebody else, whose result stays.
const updateRequest = `
	UPDATE herald_webhookrequest
	SET status = ?, properties = ?, lastRequestResult = ?, lastRequestEpoch = IF(?, UNIX_TIMESTAMP(), 0),
		dateCreated = IF(dateCreated = 0, UNIX_TIMESTAMP(), dateCreated), dateModified = UNIX_TIMESTAMP()
	WHERE id = ? AND status = ?`

func (r *request) save(ctx context.Context, o outcome) error {
	properties, err := r.propertiesWith(o)
	if err != nil {
		return fmt.Errorf("webhook request %s: %w", r.phid, err)
	}
	_, err = r.db.Exec(ctx, updateRequest, o.status, properties, o.result, o.called, r.id, statusQueued)
	return err
}

// propertiesWith answers the properties as they are stored with an outcome.
// What is in them besides stays.
func (r *request) propertiesWith(o outcome) (string, error) {
	var array phpenc.Array
	switch stored := r.stored.(type) {
	case phpenc.Array:
		array = stored
	case nil:
	case bool:
		if stored {
			return "", errProperties
		}
	default:
		return "", errProperties
	}
	return phpenc.EncodeJSON(array.With("errorType", o.errorType).With("errorCode", o.errorCode))
}

var errProperties = errors.New("its properties are no map, so nothing can be added to them")
