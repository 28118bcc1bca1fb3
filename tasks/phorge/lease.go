package phorge

import (
	"context"

	"github.com/phorge-gantry/gantry/tasks"
)

type leaser struct{}

// Lease answers no task.
func (s *Store) Lease(_ context.Context, _ tasks.LeaseRequest) ([]tasks.Task, error) {
	return nil, nil
}
