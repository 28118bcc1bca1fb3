package plugins

import (
	"context"
	"fmt"
	"strings"
)

// What of a database a rollback may not undo. A trigger, a view and a function
// can reach tables that a statement does not name.
const notUndone = `SELECT TABLE_NAME, CASE TABLE_TYPE WHEN 'VIEW' THEN 'is a view' WHEN 'SEQUENCE' THEN 'is a sequence' ELSE 'has no transactions' END
FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE() AND (TABLE_TYPE NOT IN ('BASE TABLE', 'SYSTEM VERSIONED') OR COALESCE(ENGINE, '') <> 'InnoDB')
UNION ALL SELECT EVENT_OBJECT_TABLE, 'has a trigger' FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = DATABASE()
UNION ALL SELECT CONCAT(ROUTINE_NAME, '('), 'is a stored function' FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE()`

// leavesNothing refuses a statement when a rollback might not undo it.
func (s *shadow) leavesNothing(ctx context.Context, application string, statement statement) error {
	if s == nil {
		return nil
	}
	d, err := s.database(application)
	if err != nil {
		return err
	}
	if d.fixed == nil {
		if d.fixed, err = fixed(ctx, d); err != nil {
			return err
		}
	}
	touched := statement.calls
	if statement.writes() {
		touched = append(touched, statement.names...)
	}
	for _, name := range touched {
		if why := d.fixed[name]; why != "" {
			return fmt.Errorf("%s %s, so that a shadow run cannot undo what is done there", strings.TrimSuffix(name, "("), why)
		}
	}
	return nil
}

func fixed(ctx context.Context, on querier) (map[string]string, error) {
	rows, err := on.QueryContext(ctx, notUndone)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var name, why string
		if err := rows.Scan(&name, &why); err != nil {
			return nil, err
		}
		all[strings.ToLower(name)] = why
	}
	return all, rows.Err()
}
