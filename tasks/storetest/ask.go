package storetest

import (
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// Any asks for up to limit tasks of whatever class, for a minute.
func Any(limit int) tasks.LeaseRequest {
	return tasks.LeaseRequest{Limit: limit, Others: tasks.ClassRequest{Limit: limit, LeaseTime: time.Minute}}
}

// Only asks for up to limit tasks of some classes, for a minute.
func Only(limit int, classes ...string) tasks.LeaseRequest {
	req := tasks.LeaseRequest{Limit: limit, Classes: map[string]tasks.ClassRequest{}}
	for _, class := range classes {
		req.Classes[class] = tasks.ClassRequest{Limit: limit, LeaseTime: time.Minute}
	}
	return req
}

// But asks for up to limit tasks of all classes except some, for a minute.
func But(limit int, classes ...string) tasks.LeaseRequest {
	req := Any(limit)
	req.Classes = map[string]tasks.ClassRequest{}
	for _, class := range classes {
		req.Classes[class] = tasks.ClassRequest{}
	}
	return req
}

// BenchmarkClaim measures a lease and giving it back, which leave the queue as it
// was.
func BenchmarkClaim(b *testing.B, s tasks.Store, req tasks.LeaseRequest) {
	for b.Loop() {
		leased, err := s.Lease(b.Context(), req)
		if err != nil {
			b.Fatal(err)
		}
		back := make([]tasks.Settlement, len(leased))
		for i, task := range leased {
			back[i] = tasks.Settlement{ID: task.ID, Lease: *task.Lease, Outcome: tasks.Outcome{Kind: tasks.Released}}
		}
		if _, err := s.Settle(b.Context(), back); err != nil {
			b.Fatal(err)
		}
	}
}
