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
	was := map[string][][]sql.NullString{} // rows of a table without a key can be equal
	for _, row := range before.rows {
		key := t.keyOf(row)
		was[key] = append(was[key], row)
	}
	var changes []contract.Change
	for _, row := range t.rows {
		key := t.keyOf(row)
		var old []sql.NullString
		if there := was[key]; len(there) > 0 {
			old, was[key] = there[0], there[1:]
		}
		if old == nil || !slices.Equal(old, row) {
			changes = append(changes, t.change(name, key, old, row))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		for range was[key] {
			changes = append(changes, contract.Change{Table: name, Kind: contract.Removed, Key: key})
		}
	}
	return changes
}

// change answers how a row differs from what it was. A new one differs in every
// column.
func (t *table) change(name, key string, old, row []sql.NullString) contract.Change {
	c := contract.Change{Table: name, Kind: contract.Changed, Key: key, Columns: map[string]contract.Values{}}
	if old == nil {
		c.Kind = contract.Added
	}
	for i, value := range row {
		switch {
		case old == nil:
			c.Columns[t.columns[i]] = contract.Values{After: text(value)}
		case value != old[i]:
			c.Columns[t.columns[i]] = contract.Values{Before: text(old[i]), After: text(value)}
		}
	}
	return c
}

func text(value sql.NullString) *string {
	if !value.Valid {
		return nil
	}
	return &value.String
}
