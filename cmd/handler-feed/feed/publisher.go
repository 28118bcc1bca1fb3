package feed

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/phpenc"
	"github.com/phorge-gantry/gantry/tasks"
)

// storyOptions are the options that decide whether a story loads.
var storyOptions = []string{"phabricator.base-uri"}

// Publisher answers the handler of FeedPublisherWorker.
func Publisher() plugins.Handler {
	return plugins.Handler{
		Class:     "FeedPublisherWorker",
		Databases: []string{"feed", "maniphest", "auth"},
		Options:   append([]string{"feed.http-hooks", "asana.workspace-id"}, storyOptions...),
		Handle:    publish,
	}
}

// publish queues a task for every receiver of a story: the hooks in the order
// of the configuration, then Asana, then JIRA.
func publish(ctx context.Context, task *plugins.Task) error {
	s, err := loadStory(ctx, task)
	if err != nil {
		return err
	}
	key := phpenc.Pair{Key: "key", Value: strconv.FormatUint(s.key, 10)}
	uris, err := hooks(ctx, task)
	if err != nil {
		return err
	}
	for _, uri := range uris {
		if err := queue(task, "FeedPublisherHTTPWorker", key, phpenc.Pair{Key: "uri", Value: uri}); err != nil {
			return err
		}
	}
	workers, err := doorkeepers(ctx, task)
	if err != nil {
		return err
	}
	for _, class := range workers {
		if err := queue(task, class, key); err != nil {
			return err
		}
	}
	return nil
}

func queue(task *plugins.Task, class string, data ...phpenc.Pair) error {
	text, err := phpenc.EncodeJSON(phpenc.Array(data))
	if err != nil {
		return err
	}
	priority := task.Priority
	task.Queue(tasks.NewTask{Class: class, Data: []byte(text), Priority: &priority})
	return nil
}

// hooks answers the URIs of feed.http-hooks.
func hooks(ctx context.Context, task *plugins.Task) ([]string, error) {
	value := json.RawMessage("[]")
	if err := task.Option(ctx, "feed.http-hooks", &value); err != nil {
		return nil, err
	}
	list, ok := phpenc.DecodeJSON(value).(phpenc.Array)
	if !ok || !isTexts(list) {
		return nil, plugins.Decline("feed.http-hooks is no list of URIs")
	}
	uris := make([]string, len(list))
	for i, pair := range list {
		uris[i] = pair.Value.(string)
	}
	return uris, nil
}

// doorkeepers answers which subclasses of DoorkeeperFeedWorker are enabled:
// Asana by its option, JIRA by a provider for authentication.
func doorkeepers(ctx context.Context, task *plugins.Task) (classes []string, err error) {
	var workspace json.RawMessage
	if err := task.Option(ctx, "asana.workspace-id", &workspace); err != nil {
		return nil, err
	}
	if phpenc.Truth(phpenc.DecodeJSON(workspace)) {
		classes = append(classes, "DoorkeeperAsanaFeedWorker")
	}
	const jiras = `SELECT COUNT(*) FROM auth_providerconfig WHERE providerClass = 'PhabricatorJIRAAuthProvider' AND isEnabled = 1`
	providers := 0
	if err := task.DB("auth").QueryRow(ctx, jiras).Scan(&providers); err != nil {
		return nil, err
	}
	if providers > 0 {
		classes = append(classes, "DoorkeeperJIRAFeedWorker")
	}
	return classes, nil
}
