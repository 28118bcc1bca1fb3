package phorge

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// document answers JSON of exactly n bytes, half of which must be escaped in
// SQL.
func document(n int) []byte {
	return []byte(`"` + strings.Repeat(`\\`, (n-2)/2) + strings.Repeat("x", n%2) + `"`)
}

func TestB22PayloadsUpToThePacketLimitAreStoredAndLargerOnesNameIt(t *testing.T) {
	limit := 16 << 20
	if testing.Short() {
		limit = 2 << 20 // the race detector takes its time over a megabyte
	}
	server := start(t, fmt.Sprintf("--max-allowed-packet=%d", limit))
	s := openOn(t, server, "")
	small := tasks.NewTask{Class: "Small", Data: []byte(`{}`)}
	for _, n := range []int{insertBytes, insertBytes + 1, 1 << 20, limit / 3, limit} {
		data := document(n)
		// Neighbours, which the large one must not drag along.
		ids := enqueue(t, s, small, tasks.NewTask{Class: "Large", Data: data}, small)
		r, err := s.Get(t.Context(), ids[1])
		if err != nil || !bytes.Equal(r.Data, data) {
			t.Errorf("a payload of %d bytes comes back with %d, %v", n, len(r.Data), err)
		}
	}
	count := func() (n int) {
		if err := s.db.QueryRow("SELECT (SELECT COUNT(*) FROM worker_activetask) + (SELECT COUNT(*) FROM worker_taskdata)").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	for _, n := range []int{limit + 1, limit * 5 / 4, limit * 4} {
		_, err := s.Enqueue(t.Context(), []tasks.NewTask{small, {Class: "Large", Data: document(n)}})
		if !errors.Is(err, tasks.ErrTooLarge) || errors.Is(err, tasks.ErrUnavailable) ||
			!contains(err, fmt.Sprint(n)) || !contains(err, fmt.Sprint(limit)) {
			t.Errorf("%d bytes: error %v", n, err)
		}
	}
	if after := count(); after != before {
		t.Errorf("%d rows were stored of what was refused", after-before)
	}
	for range 20 {
		enqueue(t, s, small)
	}
	// What is stored is also leased.
	total := 0
	for leased := lease(t, s, storetest.Any(20)); len(leased) > 0; leased = lease(t, s, storetest.Any(20)) {
		total += len(leased)
	}
	if total != 35 {
		t.Errorf("%d tasks were leased, want 35", total)
	}
}

func TestB22AFollowUpThatIsTooLargeCostsOnlyItsOwnSettlement(t *testing.T) {
	const limit = 1 << 20
	server := start(t, fmt.Sprintf("--max-allowed-packet=%d", limit))
	s := openOn(t, server, "")
	large := []tasks.NewTask{{Class: "Large", Data: document(limit + 1)}}
	for name, known := range map[string]bool{"known beforehand": true, "only the server knows": false} {
		t.Run(name, func(t *testing.T) {
			if !known {
				s.server.maxPacket = 4 * limit // as read before somebody lowered it
				defer func() { s.server.maxPacket = limit }()
			}
			enqueue(t, s, news(3, "A")...)
			held := lease(t, s, storetest.Only(3, "A"))
			all := succeeded(held)
			all[0].Outcome.FollowUps = news(1, "Child")
			all[1].Outcome.FollowUps = large
			answers, err := s.Settle(t.Context(), all)
			if err != nil {
				t.Fatal(err)
			}
			if answers[0].Err != nil || answers[2].Err != nil || len(answers[0].FollowUps) != 1 {
				t.Errorf("the others: %+v", answers)
			}
			if !errors.Is(answers[1].Err, tasks.ErrTooLarge) {
				t.Errorf("the large one: %v", answers[1].Err)
			}
			// Its lease is still held, and another outcome is settled.
			settled(t, s, []tasks.Settlement{{ID: all[1].ID, Lease: all[1].Lease, Outcome: tasks.Outcome{Kind: tasks.Failed}}})
		})
	}
}

// The tables of installs from before utf8mb4 take no emoji.
func TestTextThatAColumnCannotHoldIsInvalidAndCostsNobodyElse(t *testing.T) {
	q := newQueue(t)
	q.exec("ALTER TABLE worker_taskdata MODIFY data longtext CHARACTER SET utf8mb3 NOT NULL")
	s := q.open()
	emoji := tasks.NewTask{Class: "A", Data: []byte(`"🐘"`)}
	if _, err := s.Enqueue(t.Context(), []tasks.NewTask{emoji}); !errors.Is(err, tasks.ErrInvalid) {
		t.Errorf("error %v", err)
	}
	enqueue(t, s, news(2, "A")...)
	held := lease(t, s, storetest.Any(2))
	all := succeeded(held)
	all[0].Outcome.FollowUps = []tasks.NewTask{emoji}
	answers, err := s.Settle(t.Context(), all)
	if err != nil || !errors.Is(answers[0].Err, tasks.ErrInvalid) || answers[1].Err != nil {
		t.Errorf("%+v, %v", answers, err)
	}
	if n := q.number("SELECT COUNT(*) FROM worker_activetask"); n != 1 {
		t.Errorf("%d tasks are active, want the refused one", n)
	}
}
