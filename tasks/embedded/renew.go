package embedded

import (
	"context"
	"fmt"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	placesSQL = `SELECT id, leaseOwner, leaseExpires FROM task WHERE id IN (SELECT value FROM json_each(?))`

	extendSQL = `UPDATE task SET leaseExpires = ? WHERE id = ?`
)

// Renew implements tasks.Store. Most calls only look, and wait for nobody.
func (s *Store) Renew(ctx context.Context, renewals []tasks.Renewal) ([]tasks.Renewed, error) {
	answers := make([]tasks.Renewed, len(renewals))
	if len(renewals) == 0 {
		return answers, nil
	}
	short := false
	err := s.read(ctx, func(c *conn, now int64) error {
		short = false
		return c.renew(renewals, answers, now, func(tasks.Renewal, int64) error {
			short = true
			return nil
		})
	})
	if err == nil && short {
		err = s.write(ctx, func(tx *txn) error {
			return tx.renew(renewals, answers, tx.now, func(r tasks.Renewal, expires int64) error {
				return tx.exec(extendSQL, expires, r.ID)
			})
		})
	}
	if err != nil {
		return nil, fmt.Errorf("renew %d leases: %w", len(renewals), err)
	}
	return answers, nil
}

// renew answers renewals and extends the leases that need it. Of several
// renewals of one task each sees what the ones before it did.
func (c *conn) renew(renewals []tasks.Renewal, answers []tasks.Renewed, now int64, extend func(r tasks.Renewal, expires int64) error) error {
	ids := make([]int64, len(renewals))
	for i, r := range renewals {
		ids[i] = r.ID
	}
	places := make(map[int64]tasks.Place, len(ids))
	err := c.rows(placesSQL, []any{list(ids)}, func(scan func(...any) error) error {
		var id int64
		var p tasks.Place
		err := scan(&id, &p.Owner, &p.Expires)
		places[id] = p
		return err
	})
	if err != nil {
		return err
	}
	for i, r := range renewals {
		p, ok := places[r.ID]
		answers[i] = tasks.Renewed{ID: r.ID}
		if !ok || p.Owner == nil || *p.Owner != r.Owner {
			answers[i].Err = fmt.Errorf("task %d is no longer held by %s: %w", r.ID, r.Owner, tasks.ErrLeaseLost)
			continue
		}
		answers[i].Revived = p.Expires == nil || *p.Expires <= now
		if expires, short := r.Renew(p, now); short {
			if err := extend(r, expires); err != nil {
				return err
			}
			p.Expires = &expires
			places[r.ID] = p
		}
		answers[i].Expires = *p.Expires
	}
	return nil
}
