package embedded

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// clocked answers a queue and a function that sets the clock of its host.
func clocked(t *testing.T) (c Config, set func(int64)) {
	now := int64(epoch)
	return Config{
		Path:  filepath.Join(t.TempDir(), "queue.db"),
		Clock: func() time.Time { return time.Unix(now, 999_999_999) },
	}, func(to int64) { now = to }
}

func now(t *testing.T, s *Store) int64 {
	t.Helper()
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func enqueue(t *testing.T, s *Store) {
	t.Helper()
	if _, err := s.Enqueue(t.Context(), some(1)); err != nil {
		t.Fatal(err)
	}
}

func TestB28TimeNeverGoesBackWithinAFile(t *testing.T) {
	c, set := clocked(t)
	one, other := open(t, c), open(t, c)
	set(epoch + 100)
	enqueue(t, one)
	set(epoch - 1000)
	later := open(t, c)
	for _, s := range []*Store{one, other, later} {
		if got := now(t, s); got != epoch+100 {
			t.Errorf("it is %d after the clock was set back, want %d", got, epoch+100)
		}
	}
	held, err := later.Lease(t.Context(), storetest.Any(1))
	if err != nil || len(held) != 1 || held[0].DateCreated != epoch+100 || held[0].Lease.Expires != epoch+160 {
		t.Fatalf("%+v (%v)", held, err)
	}
	set(epoch + 101)
	if got := now(t, one); got != epoch+101 {
		t.Errorf("it is %d after the clock has caught up", got)
	}
}

func TestB28AReadThatSawATimeIsNotFollowedByAnEarlierOne(t *testing.T) {
	c, set := clocked(t)
	s := open(t, c)
	set(epoch + 7)
	now(t, s)
	set(epoch)
	if got := now(t, s); got != epoch+7 {
		t.Errorf("it is %d after it was %d", got, epoch+7)
	}
}

func TestB28AfterAJumpAheadWhoeverLivesKeepsItsTasks(t *testing.T) {
	c, set := clocked(t)
	one, other := open(t, c), open(t, c)
	enqueue(t, one)
	held, err := one.Lease(t.Context(), storetest.Any(1))
	if err != nil || len(held) != 1 {
		t.Fatal(held, err)
	}
	set(epoch + 65) // the lease has ended, and its grace not
	if taken, err := other.Lease(t.Context(), storetest.Any(1)); err != nil || len(taken) != 0 {
		t.Fatalf("the other one took %v (%v)", taken, err)
	}
	renewed, err := one.Renew(t.Context(), []tasks.Renewal{{ID: held[0].ID, Owner: held[0].Lease.Owner, LeaseTime: time.Minute}})
	if err != nil || renewed[0].Err != nil || !renewed[0].Revived || renewed[0].Expires != epoch+125 {
		t.Errorf("%+v (%v)", renewed, err)
	}
}

func TestB28AFileFromTheFutureIsRefusedUntilItForgets(t *testing.T) {
	c, set := clocked(t)
	s := open(t, c)
	set(epoch + farAhead + 10)
	enqueue(t, s)
	s.Close()
	set(epoch + 10)
	enqueue(t, open(t, c))
	set(epoch)
	_, err := Open(t.Context(), c)
	if !errors.Is(err, tasks.ErrUnavailable) || !strings.Contains(err.Error(), "86410 seconds ahead") {
		t.Fatalf("Open answers %v", err)
	}
	_, remedy, _ := strings.Cut(err.Error(), `"`)
	remedy, _, _ = strings.Cut(remedy, `"`)
	run(t, openFile(t, c.Path), remedy)
	if got := now(t, open(t, c)); got != epoch {
		t.Errorf("after %s it is %d", remedy, got)
	}
}
