package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// upkeepEvery is how often one of all the Stores on a queue looks after it, and
	// upkeepRows how many entries it then looks at, and how many old archived tasks
	// it deletes.
	upkeepEvery = time.Second
	upkeepRows  = 500
)

// mender is how far this Store came with looking for entries that lost their other
// half: a task that no index knows, or an entry of an index without a task. They come
// from a dump that was restored in part, or keys that a person deleted.
//
// It goes through all the keys of the server by SCAN. Of a key that is a task it
// looks at the task; an index that it meets it then goes through by ZSCAN, before it
// goes on.
type mender struct {
	mu     sync.Mutex
	cursor uint64
	index  string // that is gone through now
	within uint64
	others []string // that come next
}

// upkeep does, now and then, what nobody asked for: it forgets old archived tasks
// and mends indexes. What fails is tried again another time.
func (s *Store) upkeep(ctx context.Context) {
	due := s.upkeepDue.Load()
	now := time.Since(s.opened)
	if int64(now) < due || !s.upkeepDue.CompareAndSwap(due, int64(now+upkeepEvery)) {
		return
	}
	rows, age := s.archiveBounds()
	mine, err := s.run(ctx, upkeepScript, int(upkeepEvery/time.Second), upkeepRows, rows, age)
	if err == nil && number(mine) == 1 {
		_, err = s.mend(ctx)
	}
	if err != nil && !errors.Is(err, tasks.ErrUnavailable) { // of which the caller hears anyway
		s.config.Log.Warn().Err(err).Msg("looking after the queue failed; it is tried again")
	}
}

// mend looks at some entries, and mends what is wrong with them. It answers whether
// that was the end of a round.
func (s *Store) mend(ctx context.Context) (round bool, err error) {
	m := &s.mender
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []any // pairs of an index and an id
	if m.index != "" {
		found, err = s.mendIndex(ctx)
	} else {
		found, err = s.mendKeys(ctx)
	}
	// The server may answer more than it was asked for.
	for part := range slices.Chunk(found, 2*upkeepRows) {
		if err != nil {
			break
		}
		var mended any
		if mended, err = s.run(ctx, mendScript, part...); err == nil && number(mended) > 0 {
			s.config.Log.Warn().Int64("mended", number(mended)).Msgf("%s: entries had lost their other half", s.place)
		}
	}
	return m.index == "" && m.cursor == 0, err
}

// mendIndex goes on in the index that is gone through.
func (s *Store) mendIndex(ctx context.Context) (found []any, err error) {
	m := &s.mender
	pairs, next, err := s.client.ZScan(ctx, s.key(m.index), m.within, "", upkeepRows).Result()
	if err != nil {
		return nil, s.explain(err)
	}
	for i := 0; i < len(pairs); i += 2 { // a member, its score
		if id, err := memberID(pairs[i]); err == nil {
			found = append(found, m.index, id)
		}
	}
	m.within = next
	if next == 0 {
		m.nextIndex()
	}
	return found, nil
}

func (m *mender) nextIndex() {
	m.index, m.within = "", 0
	if len(m.others) > 0 {
		m.index, m.others = m.others[0], m.others[1:]
	}
}

// mendKeys goes on with the keys of the server.
func (s *Store) mendKeys(ctx context.Context) (found []any, err error) {
	m := &s.mender
	node, err := s.node(ctx)
	if err != nil {
		return nil, s.explain(err)
	}
	keys, next, err := node.Scan(ctx, m.cursor, s.key("*"), upkeepRows).Result()
	if err != nil {
		return nil, s.explain(err)
	}
	m.cursor = next
	for _, key := range keys {
		name := strings.TrimPrefix(key, s.root)
		kind, of, _ := strings.Cut(name, ":")
		switch kind {
		case "task", "attempts":
			if _, err := strconv.ParseInt(of, 10, 64); err == nil {
				found = append(found, strings.TrimSuffix(kind, "task"), of)
			}
		case "active", "fresh", "unripe", "parked", "lent", "held", "failing", "archive", "aged":
			m.others = append(m.others, name)
		}
	}
	m.nextIndex()
	return found, nil
}
