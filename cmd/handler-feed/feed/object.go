package feed

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/phorge-gantry/gantry/plugins"
)

// object is the task of Maniphest that a story is about.
type object struct {
	id    int64
	title string
}

const taskOf = `SELECT id, title, bridgedObjectPHID IS NOT NULL FROM maniphest_task WHERE phid = ?`

// load reads the object and reports whether it is there, as ManiphestTaskQuery
// for the omnipotent viewer. Other objects are declined.
func (o *object) load(ctx context.Context, task *plugins.Task, phid string) (bool, error) {
	if !strings.HasPrefix(phid, "PHID-TASK-") {
		return false, plugins.Decline("the story is not about a task of Maniphest")
	}
	bridged := false
	err := task.DB("maniphest").QueryRow(ctx, taskOf, phid).Scan(&o.id, &o.title, &bridged)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case bridged:
		return false, plugins.Decline("the task is that of another tracker, which Doorkeeper loads")
	}
	return true, nil
}
