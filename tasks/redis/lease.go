package redis

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// leaseRows bounds what one call leases, and leaseBytes the data that comes with
	// it: no more is taken once there is so much.
	leaseRows  = 500
	leaseBytes = 64 << 20
)

// Lease implements tasks.Store.
//
// What a call looks at is bounded by the number of classes and by the limit of the
// request, never by the number of tasks: lua/lease.lua reads the ends of the indexes
// of each class, and merges them.
func (s *Store) Lease(ctx context.Context, req tasks.LeaseRequest) ([]tasks.Task, error) {
	return s.leaseFor(ctx, "", req)
}

// LeaseFor implements tasks.Service.
func (s *Store) LeaseFor(ctx context.Context, name string, req tasks.LeaseRequest) ([]tasks.Task, error) {
	if err := (tasks.Caller{Name: name}).Check(); err != nil {
		return nil, err
	}
	return s.leaseFor(ctx, name, req)
}

// leaseFor leases for a caller of that name, or for this Gantry.
func (s *Store) leaseFor(ctx context.Context, name string, req tasks.LeaseRequest) ([]tasks.Task, error) {
	req.Limit = min(req.Limit, leaseRows)
	if !req.WantsAny() {
		return nil, nil
	}
	s.upkeep(ctx)
	s.mu.Lock()
	after := s.after
	s.mu.Unlock()
	answer, err := s.runOnce(ctx, leaseScript, s.leaseArgs(name, req, after)...)
	if err != nil {
		return nil, fmt.Errorf("lease up to %d tasks: %w", req.Limit, err)
	}
	r := replied(answer)
	_, fence, more, until := r.number(), r.number(), r.number() == 1, r.text()
	leased := leasedOf(fence, r.list())
	if fence < 0 {
		return nil, fmt.Errorf("%w: %s: the answer was lost until others had taken some of the tasks", tasks.ErrUnavailable, s.place)
	}
	s.mu.Lock()
	s.after = until
	s.mu.Unlock()
	if len(leased) == 0 && (more || until != "") {
		return nil, fmt.Errorf("%w: no task was due among those looked at so far", tasks.ErrSearching)
	}
	return leased, nil
}

func (s *Store) leaseArgs(name string, req tasks.LeaseRequest, after string) []any {
	args := make([]any, 0, 12+4*len(req.Classes))
	args = append(args, name, s.nonce, s.ownHost(), tasks.AttemptsKept, lostAttempt, req.Limit, leaseBytes)
	args = append(appendWant(args, req.Others), after)
	for class, want := range req.Classes {
		args = appendWant(append(args, class), want)
	}
	return args
}

func appendWant(args []any, want tasks.ClassRequest) []any {
	return append(args, max(0, want.Limit), max(1, seconds(want.LeaseTime)), max(0, seconds(want.PickupDelay)))
}

// seconds rounds up, so that no lease is shorter than asked.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// ownHost answers the host as owner strings hold it.
func (s *Store) ownHost() string {
	owner := tasks.Owner{Nonce: s.nonce, Host: s.config.Host}.String()
	return owner[strings.LastIndexByte(owner, ':')+1:]
}

// leasedOf reads the tasks that a script leased.
func leasedOf(fence int64, r *reply) []tasks.Task {
	leased := make([]tasks.Task, 0, len(r.values))
	for len(r.values) > 0 {
		entry := r.list()
		t := taskOf(entry.number(), entry.list().values)
		lease := &tasks.Lease{Fence: fence, Prior: t.Place}
		lease.Crashes = int(entry.number())
		lease.Owner, lease.Expires = entry.text(), entry.number()
		t.Lease, t.Place = lease, tasks.Place{Owner: &lease.Owner, Expires: &lease.Expires}
		leased = append(leased, t)
	}
	return leased
}
