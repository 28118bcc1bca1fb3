package phorge

import (
	"slices"
	"time"
)

const (
	// settling is how late a task may become visible after its id was given
	// out and still be found as quickly as the others: PHP takes the id first
	// and commits the row later.
	settling = 10 * time.Second

	// youngest is how many ids below the counter are taken for that new as
	// long as this process has not watched the counter for so long.
	youngest = 5000

	// maxSamples bounds the ring; so the time between two samples is a 500th of
	// the longest delay.
	maxSamples = 500
)

// ring remembers how high the ids stood at times past. Ids tell how old a task
// is with a precision that dateCreated has not, and by one clock: the one of
// this process, which is compared with itself alone.
type ring struct {
	newest  int64 // the highest id that is known to exist
	samples []sample
	keep    time.Duration // the longest delay asked for
}

type sample struct {
	at  time.Time
	ids int64 // every id up to this one existed then
}

// see enters that an id exists. A counter that somebody lost, and that began
// again, makes no id younger.
func (r *ring) see(id int64) { r.newest = max(r.newest, id) }

// add takes a sample of what was seen up to now.
func (r *ring) add(now time.Time) {
	span := max(settling, r.keep)
	if n := len(r.samples); n > 0 && now.Sub(r.samples[n-1].at) < span/maxSamples {
		return
	}
	r.samples = append(r.samples, sample{now, r.newest})
	if n := r.before(now.Add(-span)); n > 1 {
		r.samples = slices.Delete(r.samples, 0, n-1)
	}
}

// before counts the samples taken at or before a time.
func (r *ring) before(t time.Time) int {
	n, _ := slices.BinarySearchFunc(r.samples, t, func(s sample, t time.Time) int {
		if s.at.After(t) {
			return 1
		}
		return -1
	})
	return n
}

// older answers the highest id that is certain to have existed for a while.
func (r *ring) older(than time.Duration, now time.Time) int64 {
	r.keep = max(r.keep, than)
	if n := r.before(now.Add(-than)); n > 0 {
		return r.samples[n-1].ids
	}
	return 0
}

// settled answers the highest id that is taken for old enough to be visible.
func (r *ring) settled(now time.Time) int64 {
	if ids := r.older(settling, now); ids > 0 {
		return ids
	}
	if len(r.samples) == 0 {
		return 0
	}
	return max(0, r.samples[0].ids-youngest)
}
