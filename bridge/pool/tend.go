package pool

import (
	"slices"
	"time"
)

// tend brings the processes to what they are to be: it starts, dismisses and
// hands out. Whatever changes anything calls it, with the lock.
func (p *Pool) tend() {
	if p.closed {
		p.shut()
	} else if p.started {
		for p.wants() {
			p.launch()
		}
		p.dismissReplaced()
	}
	p.handOut()
	if !p.trimming && !p.closed && max(p.target, p.count().lasting()) > p.config.Min {
		p.trimming = true
		time.AfterFunc(p.config.IdleTimeout, p.trim)
	}
}

// census counts processes.
type census struct {
	starting  int
	fresh     int // idle or busy
	unwilling int // the same, but they want to be replaced and may be
}

// lasting answers how many there will be when nothing changes.
func (n census) lasting() int { return n.starting + n.fresh }

func (p *Pool) count() (n census) {
	for _, r := range p.processes {
		switch {
		case r.phase == Starting:
			n.starting++
		case r.phase == Leaving:
		case r.mayLeave():
			n.unwilling++
		default:
			n.fresh++
		}
	}
	return n
}

// wants reports whether a process is to be started now. Successors start one
// at a time, and so does everything after a failure.
func (p *Pool) wants() bool {
	n := p.count()
	switch {
	case n.lasting() >= p.target || p.again != nil:
		return false
	case n.starting == 0:
		return true
	}
	return p.failures == 0 && n.lasting()+n.unwilling < p.target
}

func (p *Pool) launch() {
	now := time.Now()
	r := &resident{
		pool: p, began: now, phase: Starting, since: now,
		dead: make(chan struct{}), tried: make(chan struct{}),
	}
	p.processes = append(p.processes, r)
	p.running.Go(func() {
		err := r.start()
		if err == nil {
			r.serve()
		}
		p.bury(r, err)
	})
}

// dismissReplaced ends idle processes that want it and whose successors are
// there, or cannot start: what keeps a new process from starting (a Phorge that
// became read-only, say) would as well harm the tasks of the old one.
func (p *Pool) dismissReplaced() {
	n := p.count()
	for _, r := range slices.Clone(p.idle) {
		if r.mayLeave() && (n.fresh+n.unwilling > p.target || p.failures > 0) {
			p.dismiss(r)
			n.unwilling--
		}
	}
}

// dismiss ends an idle process.
func (p *Pool) dismiss(r *resident) {
	p.idle = slices.DeleteFunc(p.idle, func(other *resident) bool { return other == r })
	p.enter(r, Leaving)
	r.dismiss()
}

// handOut gives idle processes to the tasks that wait; those that want to be
// replaced only when there is no other. When no process will come, it says so.
func (p *Pool) handOut() {
	for len(p.waiters) > 0 && len(p.idle) > 0 {
		best := len(p.idle) - 1
		for i, r := range p.idle {
			if r.leave == "" {
				best = i
			}
		}
		r, w := p.idle[best], p.waiters[0]
		p.idle = slices.Delete(p.idle, best, best+1)
		p.waiters = slices.Delete(p.waiters, 0, 1)
		p.enter(r, Busy)
		r.task = w.task
		w.turn <- r
	}
	if len(p.waiters) == 0 {
		return
	}
	if n := p.count(); p.closed || !p.started || n.lasting()+n.unwilling == 0 {
		for _, w := range p.waiters {
			w.turn <- nil
		}
		p.waiters = nil
	}
}

// shut ends all processes of a closed pool.
func (p *Pool) shut() {
	if p.again != nil {
		p.again.Stop()
	}
	for _, r := range p.processes {
		switch r.phase {
		case Idle:
			p.dismiss(r)
		case Starting, Busy:
			r.kill(cut, "Gantry stopped")
		}
	}
}

// trim ends processes above the minimum that had nothing to do.
func (p *Pool) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trimming = false
	n := p.count()
	for _, r := range slices.Clone(p.idle) { // the longest idle first
		if n.lasting() > p.config.Min && !r.mayLeave() && time.Since(r.since) >= p.config.IdleTimeout {
			p.dismiss(r)
			n.fresh--
			p.target = max(p.config.Min, min(p.target, n.lasting()))
		}
	}
	p.tend()
}

// enter takes a step of a process's state machine.
func (p *Pool) enter(r *resident, next Phase) {
	r.phase = r.phase.must(next)
	r.since = time.Now()
	r.task = 0
}
