package storetest

import (
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestMemoryRunsATaskToTheArchive(t *testing.T) {
	now := int64(1_700_000_000)
	m := NewMemory(func() int64 { return now })
	ids, err := m.Enqueue(t.Context(), []tasks.NewTask{{Class: "A", Data: []byte(`{}`)}})
	if err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	held, err := m.Lease(t.Context(), tasks.LeaseRequest{Limit: 8, Others: tasks.ClassRequest{Limit: 8, LeaseTime: time.Minute}})
	if err != nil || len(held) != 1 || held[0].Lease.Expires != now+60 {
		t.Fatal(held, err)
	}
	settled, err := m.Settle(t.Context(), []tasks.Settlement{{ID: ids[0], Lease: *held[0].Lease, Outcome: tasks.Outcome{Kind: tasks.Succeeded}}})
	if err != nil || settled[0].Err != nil {
		t.Fatal(settled, err)
	}
	if record, err := m.Get(t.Context(), ids[0]); err != nil || record.Archive == nil {
		t.Fatal(record, err)
	}
}
