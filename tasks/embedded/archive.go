package embedded

import "time"

const (
	// trimEvery is how often old archived tasks are looked for when none are
	// archived, and trimRows how many are then deleted.
	trimEvery = time.Minute
	trimRows  = 500
)

const (
	oldestSQL = `SELECT id FROM archive INDEXED BY archiveAge ORDER BY archivedEpoch, id LIMIT ?`

	olderSQL = `SELECT id FROM archive INDEXED BY archiveAge WHERE archivedEpoch < ? ORDER BY archivedEpoch, id LIMIT ?`

	forgetSQL = `DELETE FROM archive WHERE id IN (SELECT value FROM json_each(?))`

	forgetDataSQL = `DELETE FROM data WHERE id IN (SELECT value FROM json_each(?))`
)

// trim deletes archived tasks, with their data and attempts, that are too old or too many:
// twice as many as this transaction archived, so that it keeps up with any
// rate and costs no call much; and now and then some more.
func (tx *txn) trim() error {
	n := int64(2 * tx.moved)
	if now := tx.now; now-tx.store.trimmed.Load() >= int64(trimEvery/time.Second) {
		tx.store.trimmed.Store(now)
		n += trimRows
	}
	if n == 0 {
		return nil
	}
	if most := tx.store.config.ArchiveRows; most > 0 && tx.archived > most {
		if err := tx.forget(oldestSQL, min(n, tx.archived-most)); err != nil {
			return err
		}
	}
	if age := tx.store.config.ArchiveAge; age > 0 {
		return tx.forget(olderSQL, tx.now-int64(age/time.Second), n)
	}
	return nil
}

func (tx *txn) forget(query string, args ...any) error {
	var ids []int64
	err := tx.rows(query, args, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	tx.archived -= int64(len(ids))
	for _, statement := range []string{forgetSQL, forgetDataSQL, forgetAttemptsSQL} {
		if err := tx.exec(statement, list(ids)); err != nil {
			return err
		}
	}
	return nil
}

// trimDue reports whether nothing was trimmed for so long that a call which
// has nothing to write should.
func (s *Store) trimDue(now int64) bool {
	return now-s.trimmed.Load() >= int64(trimEvery/time.Second)
}
