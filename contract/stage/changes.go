package stage

import (
	"context"
	"database/sql"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/rows"
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
		for _, row := range after.Since(sc.was(name)) {
			changes = append(changes, change(name, after.Columns, row))
		}
	}
	return changes, nil
}

// change answers how a row differs from what it was. A new one differs in every
// column, and of one that is gone its key says all.
func change(name string, columns []string, row rows.Change) contract.Change {
	c := contract.Change{Table: name, Kind: contract.Changed, Key: row.Key, Columns: map[string]contract.Values{}}
	switch {
	case row.New == nil:
		c.Kind, c.Columns = contract.Removed, nil
	case row.Old == nil:
		c.Kind = contract.Added
	}
	for i, value := range row.New {
		switch {
		case row.Old == nil:
			c.Columns[columns[i]] = contract.Values{After: text(value)}
		case value != row.Old[i]:
			c.Columns[columns[i]] = contract.Values{Before: text(row.Old[i]), After: text(value)}
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
