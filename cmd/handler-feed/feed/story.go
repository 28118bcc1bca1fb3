package feed

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/phpenc"
)

// The story types that are known here.
const (
	transactionStory = "PhabricatorApplicationTransactionFeedStory"
	tokenStory       = "PhabricatorTokenGivenFeedStory"
)

// story answers to a PhabricatorFeedStory that was loaded.
type story struct {
	id        int64
	key       uint64 // chronologicalKey: the epoch, and 32 random bits
	storyType string
	data      phpenc.Array
	author    string

	object  object
	primary *transaction // whose title is the story's; nil in a token's
}

// storyOf has no story without a reference: those are notifications.
const storyOf = `SELECT id, storyType, storyData, authorPHID FROM feed_storydata story
WHERE chronologicalKey = ? AND EXISTS (
	SELECT 1 FROM feed_storyreference ref WHERE ref.chronologicalKey = story.chronologicalKey)`

// loadStory loads the story that a task is about, as
// FeedPushWorker::loadFeedStory does by way of PhabricatorFeedQuery for the
// omnipotent viewer, whom no policy stops. The error decides over the task: a
// story that does not load is a permanent failure.
func loadStory(ctx context.Context, task *plugins.Task) (*story, error) {
	value, err := keyOf(task.Data)
	if err != nil {
		return nil, err
	}
	text, _ := phpenc.Text(value)
	missing := plugins.Fail(fmt.Errorf("the feed story with key %q does not exist or could not be loaded", text))
	key, ok, err := number(value)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, missing
	}

	s := &story{key: key}
	var data []byte
	err = task.DB("feed").QueryRow(ctx, storyOf, key).Scan(&s.id, &s.storyType, &data, &s.author)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, missing
	case err != nil:
		return nil, err
	}
	if s.data, ok = phpenc.DecodeJSON(data).(phpenc.Array); !ok {
		return nil, plugins.Decline("the story has no data")
	}
	if err := requireBaseURI(ctx, task); err != nil {
		return nil, err
	}
	visible := false
	switch s.storyType {
	case transactionStory:
		visible, err = s.loadTransactions(ctx, task)
	case tokenStory:
		visible, err = s.loadToken(ctx, task)
	default:
		err = plugins.Decline("stories of type " + s.storyType + " are not known")
	}
	if err == nil && !visible {
		err = missing
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// requireBaseURI declines on a Phorge that was never set up: PHP cannot name the
// users of a story there.
func requireBaseURI(ctx context.Context, task *plugins.Task) error {
	var uri *string
	if err := task.Option(ctx, "phabricator.base-uri", &uri); err != nil {
		return err
	}
	if uri == nil || *uri == "" {
		return plugins.Decline("phabricator.base-uri is not set")
	}
	return nil
}

// keyOf answers the key that the data of a task names.
func keyOf(data []byte) (any, error) {
	array, ok := phpenc.DecodeJSON(data).(phpenc.Array)
	if !ok {
		return nil, errors.New("the task's data is no map")
	}
	value, ok := array.Lookup("key")
	if !ok {
		return nil, errors.New("the task's data has no key")
	}
	if _, ok := phpenc.Text(value); !ok {
		return nil, errors.New("the key in the task's data is no scalar")
	}
	return value, nil
}

// number answers the chronological key that a value means to the database; not
// ok when no story can have it.
func number(value any) (key uint64, ok bool, err error) {
	switch value := value.(type) {
	case nil:
		return 0, false, nil
	case int64:
		return uint64(value), value >= 0, nil
	case string:
		if value == "" || strings.Trim(value, "0123456789") != "" {
			break
		}
		key, err := strconv.ParseUint(value, 10, 64)
		return key, err == nil, nil
	}
	return 0, false, plugins.Decline("the key of the story is not a number, and MySQL decides which it means")
}

// epoch answers when the story happened; not ok where PHP cannot tell.
func (s *story) epoch() (int64, bool) { return int64(s.key >> 32), s.key <= math.MaxInt64 }

// loadTransactions loads what PhabricatorApplicationTransactionFeedStory needs,
// and reports whether the story shows: whether all of it is there, and one of
// its transactions is not hidden.
func (s *story) loadTransactions(ctx context.Context, task *plugins.Task) (bool, error) {
	phid, _ := s.data.Get("objectPHID").(string)
	list, ok := s.data.Get("transactionPHIDs").(phpenc.Array)
	if !ok {
		return false, plugins.Decline("the story has no list of transactions")
	}
	phids := make([]string, len(list))
	for i, pair := range list {
		if phids[i], ok = pair.Value.(string); !ok || !strings.HasPrefix(phids[i], "PHID-XACT-TASK-") {
			return false, plugins.Decline("not all transactions of the story are those of a task")
		}
	}
	found, err := s.object.load(ctx, task, phid)
	if err != nil || len(phids) == 0 {
		return false, err
	}
	transactions, err := loadTransactions(ctx, task, phids)
	if err != nil {
		return false, err
	}
	for _, x := range transactions {
		if x.object != phid {
			return false, plugins.Decline("a transaction of the story is that of another object")
		}
	}
	if !found {
		return false, nil
	}
	for _, phid := range phids {
		x, ok := transactions[phid]
		if !ok {
			return false, nil
		}
		if s.primary == nil && !x.hidden {
			s.primary = x
		}
	}
	return s.primary != nil, nil
}

// loadToken loads what PhabricatorTokenGivenFeedStory needs.
func (s *story) loadToken(ctx context.Context, task *plugins.Task) (bool, error) {
	phid, _ := s.data.Get("objectPHID").(string)
	token, ok := s.data.Get("tokenPHID").(string)
	if _, known := tokens[token]; !ok || !known {
		return false, plugins.Decline("the token of the story is not known")
	}
	return s.object.load(ctx, task, phid)
}
