package phorge

import (
	"testing"
	"time"
)

func TestIdsAreTakenForNoOlderThanTheyAre(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	var r ring
	if got := r.older(time.Second, start); got != 0 {
		t.Errorf("before the first sample, ids up to %d are taken for old", got)
	}
	for tick := range 100 { // ten ids every tenth of a second
		r.see(int64(1000 + 10*tick))
		r.add(at(float64(tick) / 10))
	}
	for _, c := range []struct {
		delay time.Duration
		want  int64
	}{
		{time.Second, 1890}, {1050 * time.Millisecond, 1880}, {9900 * time.Millisecond, 1000}, {time.Minute, 0},
	} {
		if got := r.older(c.delay, at(9.9)); got != c.want {
			t.Errorf("ids up to %d existed %s ago, want %d", got, c.delay, c.want)
		}
	}
}

func TestTheRingStaysSmallAndKeepsTheLongestDelay(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var r ring
	for n := range 100_000 {
		now = now.Add(time.Millisecond)
		r.see(int64(n))
		r.add(now)
	}
	if len(r.samples) > maxSamples+2 {
		t.Errorf("%d samples are kept, want at most %d", len(r.samples), maxSamples+2)
	}
	r.older(time.Hour, now)
	for n := range 10_000 {
		now = now.Add(time.Second)
		r.see(int64(100_000 + n))
		r.add(now)
	}
	if len(r.samples) > maxSamples+2 {
		t.Errorf("%d samples are kept for an hour, want at most %d", len(r.samples), maxSamples+2)
	}
	if got := r.older(time.Hour, now); got < 106_300 || got > 106_400 {
		t.Errorf("ids up to %d are an hour old, want about 106,399 and no more", got)
	}
}

// A process that has just started knows nothing, so the latest ids count as
// unsettled; later it is the ids of the last ten seconds.
func TestTheLatestIdsAreUnsettled(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var r ring
	r.see(7000)
	r.add(now)
	if got := r.settled(now); got != 2000 {
		t.Errorf("at the start ids up to %d are settled, want 2000", got)
	}
	r.see(8000)
	now = now.Add(settling)
	r.add(now)
	if got := r.settled(now); got != 7000 {
		t.Errorf("after ten seconds ids up to %d are settled, want 7000", got)
	}
}

func TestACounterThatBeganAgainMakesNoIdYounger(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var r ring
	r.see(500)
	r.add(now)
	now = now.Add(time.Minute)
	r.see(1)
	r.add(now)
	if got := r.older(time.Second, now.Add(time.Second)); got != 500 {
		t.Errorf("ids up to %d are old, want 500", got)
	}
}
