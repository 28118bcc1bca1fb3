package pool

import (
	"fmt"
	"math/rand/v2"
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
	if p.target > p.config.Min && !p.trimming && !p.closed {
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
	case n.fresh+n.starting >= p.target || p.again != nil:
		return false
	case n.starting == 0:
		return true
	}
	return p.failures == 0 && n.fresh+n.unwilling+n.starting < p.target
}

func (p *Pool) launch() {
	now := time.Now()
	r := &resident{
		pool: p, began: now, phase: Starting, since: now,
		dead: make(chan struct{}), tried: make(chan struct{}),
	}
	p.processes = append(p.processes, r)
	p.failed = nil
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

// dismiss ends an idle r.
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
	if n := p.count(); p.closed || !p.started || n.starting+n.fresh+n.unwilling == 0 {
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
	for _, r := range slices.Clone(p.idle) { // the longest idle first
		if p.target > p.config.Min && time.Since(r.since) >= p.config.IdleTimeout && !p.closed {
			p.target--
			p.dismiss(r)
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

// ready is told that a process has loaded Phorge.
func (p *Pool) ready(r *resident, a answer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.phase != Starting {
		return fmt.Errorf("it said twice that it is ready")
	}
	if problem := p.misfit(a); problem != "" {
		r.kill(unfit, problem)
		return nil
	}
	p.last = a
	p.enter(r, Idle)
	p.idle = append(p.idle, r)
	close(r.tried)
	p.config.Log.Info().Int("pid", r.child.pid).Str("phorge", a.Phorge).Str("php", a.PHP).Msg("PHP process is ready")
	p.tend()
	return nil
}

// misfit answers why a process that is ready cannot be used, or "".
func (p *Pool) misfit(a answer) string {
	switch {
	case a.Protocol != protocol:
		return fmt.Sprintf("it speaks version %d of the pool's protocol, this Gantry speaks %d: use the php library of this Gantry", a.Protocol, protocol)
	case p.config.Namespace != "" && a.Namespace != p.config.Namespace:
		return fmt.Sprintf("its Phorge uses storage namespace %q, and the tasks are in %q: name the directory of the Phorge whose queue this is", a.Namespace, p.config.Namespace)
	case a.ReadOnly:
		return "its Phorge is read-only; tasks wait until it is not"
	}
	return ""
}

// wantsToLeave is told that a process wants to be replaced.
func (p *Pool) wantsToLeave(r *resident, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.wish(reason)
	p.tend()
}

// bury is told that a process is gone, or could not be started.
func (p *Pool) bury(r *resident, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isR := func(other *resident) bool { return other == r }
	p.processes = slices.DeleteFunc(p.processes, isR)
	p.idle = slices.DeleteFunc(p.idle, isR)
	phase, worked := r.phase, r.phase == Busy || r.tasks > 0
	if r.wanted() || phase == Leaving {
		p.enter(r, Stopped)
	} else {
		p.enter(r, Failed)
		p.fail(r, err, worked)
	}
	if phase == Starting {
		close(r.tried)
	}
	p.tend()
}

// fail notes a failure. After one of a process that never worked, it takes a
// while until the next is started.
func (p *Pool) fail(r *resident, err error, worked bool) {
	p.problem = r.obituary(err)
	failed := r.describe()
	p.failed = &failed
	if worked {
		p.config.Log.Warn().Str("reason", p.problem).Msg("PHP process ended")
		return
	}
	if r.began.After(p.failedAt) { // else it was started together with one that failed
		p.failures++
	}
	p.failedAt = time.Now()
	wait := backoff(p.failures, p.config.MinBackoff, p.config.MaxBackoff, rand.Float64())
	p.config.Log.Error().Str("reason", p.problem).Dur("again_in", wait).Msg("PHP process does not run")
	if p.again == nil {
		p.again = time.AfterFunc(wait, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.again = nil
			p.tend()
		})
	}
}

// finished is told that a process has answered its task.
func (p *Pool) finished(r *resident, a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.tasks++
	r.memory = a.Memory
	if a.Leaving != "" {
		r.wish(a.Leaving)
	} else if a.Outcome != nil && a.Outcome.Uncaught {
		r.wish("a task threw what nobody caught")
	}
	if r.began.After(p.failedAt) {
		p.failures, p.problem = 0, ""
	}
	if r.phase == Busy { // and not dead since
		p.enter(r, Idle)
		p.idle = append(p.idle, r)
	}
	p.tend()
}
