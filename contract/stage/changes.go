package stage

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/phorge-gantry/gantry/contract"
)

// changes answers what is different in the tables that were written since they
// were looked at.
func (sc *scene) changes(ctx context.Context) ([]contract.Change, error) {
	now, err := sc.stage.tally(ctx)
	if err != nil {
		return nil, err
	}
	var changes []contract.Change
	for _, name := range sc.stage.written(sc.tally, now) {
		after, err := sc.stage.reread(ctx, name)
		if err != nil {
			return nil, err
		}
		changes = append(changes, after.since(name, sc.was(name))...)
	}
	return changes, nil
}

// since answers how a table differs from what it held before.
func (t *table) since(name string, before *table) []contract.Change {
	was := map[string][]sql.NullString{}
	for _, row := range before.rows {
		was[t.keyOf(row)] = row
	}
	var changes []contract.Change
	for _, row := range t.rows {
		key := t.keyOf(row)
		old, there := was[key]
		delete(was, key)
		if there && slices.Equal(old, row) {
			continue
		}
		c := contract.Change{Table: name, Kind: contract.Added, Key: key, Columns: map[string]contract.Values{}}
		if there {
			c.Kind = contract.Changed
		}
		for i, value := range row {
			switch {
			case !there:
				c.Columns[t.columns[i]] = contract.Values{After: text(value)}
			case value != old[i]:
				c.Columns[t.columns[i]] = contract.Values{Before: text(old[i]), After: text(value)}
			}
		}
		changes = append(changes, c)
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		changes = append(changes, contract.Change{Table: name, Kind: contract.Removed, Key: key})
	}
	return changes
}

func text(value sql.NullString) *string {
	if !value.Valid {
		return nil
	}
	return &value.String
}
