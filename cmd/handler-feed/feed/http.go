package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/fetch"
	"github.com/phorge-gantry/gantry/plugins/phpenc"
)

// timeout is how long a hook may take to answer.
const timeout = 30 * time.Second

// HTTPPublisher answers the handler of FeedPublisherHTTPWorker.
func HTTPPublisher() plugins.Handler {
	return plugins.Handler{
		Class:     "FeedPublisherHTTPWorker",
		Databases: []string{"feed", "maniphest", "user"},
		Options: append([]string{
			"phabricator.silent", "feed.http-hooks", "translation.override", "locale.command",
			"maniphest.statuses", "maniphest.priorities", "maniphest.default-priority",
		}, storyOptions...),
		Handle: post,
		WaitBeforeRetry: func(task *plugins.Task, _ error) time.Duration {
			return time.Duration(max(task.FailureCount, 1)) * time.Minute
		},
	}
}

// post sends a story to a hook. It is declined when the text of the story is
// not known, which is found out before anything is sent.
func post(ctx context.Context, task *plugins.Task) error {
	var silent json.RawMessage
	if err := task.Option(ctx, "phabricator.silent", &silent); err != nil {
		return err
	}
	if phpenc.Truth(phpenc.DecodeJSON(silent)) {
		return nil
	}
	s, err := loadStory(ctx, task)
	if err != nil {
		return err
	}
	uri, err := configured(ctx, task)
	if err != nil {
		return err
	}
	epoch, ok := s.epoch()
	if !ok {
		return plugins.Decline("the story is of a time beyond PHP's integers")
	}
	text, err := s.text(ctx, task)
	if err != nil {
		return err
	}
	return send(ctx, task, uri, phpenc.HTTPBuildQuery(phpenc.Array{
		{Key: "storyID", Value: s.id},
		{Key: "storyType", Value: s.storyType},
		{Key: "storyData", Value: s.data},
		{Key: "storyAuthorPHID", Value: s.author},
		{Key: "storyText", Value: text},
		{Key: "epoch", Value: epoch},
	}))
}

// configured answers the URI of a task, which fails for good when it is no
// longer in feed.http-hooks. PHP compares loosely; where that may differ from
// comparing texts, the task is declined.
func configured(ctx context.Context, task *plugins.Task) (string, error) {
	uris, err := hooks(ctx, task)
	if err != nil {
		return "", err
	}
	data, _ := phpenc.DecodeJSON(task.Data).(phpenc.Array)
	loose := slices.ContainsFunc(uris, func(uri string) bool { return !strings.Contains(uri, "://") })
	switch uri := data.Get("uri").(type) {
	case string:
		if slices.Contains(uris, uri) {
			return uri, nil
		}
	case bool:
		loose = loose || uri // true is equal to any text but "" and "0"
	}
	if loose && len(uris) > 0 {
		return "", plugins.Decline("feed.http-hooks holds what is no URI")
	}
	return "", plugins.Fail(errors.New("the URI of the task is not in feed.http-hooks"))
}

// send posts a form as HTTPSFuture::resolvex does. Anything but a status of 2xx
// is a failed attempt. A hook is an option, so that every address may be called.
func send(ctx context.Context, task *plugins.Task, uri, form string) error {
	status, err := fetch.Do(ctx, task.Transport, fetch.Request{
		Method: http.MethodPost, URL: uri, Body: form, Timeout: timeout,
	})
	if err != nil {
		return err
	}
	if status.IsError() {
		return fmt.Errorf("the hook did not take the story: %s", status)
	}
	return nil
}
