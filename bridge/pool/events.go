package pool

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// ready is told that a process has loaded Phorge.
func (p *Pool) ready(r *resident, a answer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.phase != Starting {
		return errors.New("it said twice that it is ready")
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
	r.wish(reason, 0)
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
	if r.ending() == cut || phase == Leaving {
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
	p.config.Log.Error().Str("reason", p.problem).Stringer("again_in", wait.Round(time.Millisecond)).Msg("PHP process does not run")
	if p.again == nil {
		p.again = time.AfterFunc(wait, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.again = nil
			p.tend()
		})
	}
}

// finished is told that a process has answered a task, and whether something
// came out of the worker that a taskmaster would not have outlived.
func (p *Pool) finished(r *resident, task int64, a answer, uncaught bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.terminated, task)
	r.tasks++
	r.memory = a.Memory
	if uncaught {
		r.wish(cmp.Or(a.Leaving, "throwable"), p.config.MinService)
	} else {
		r.wish(a.Leaving, 0)
	}
	if r.began.After(p.failedAt) {
		p.failures, p.problem = 0, ""
	}
	p.free(r)
}

// firstTerminated is told that SIGTERM ended the process of a task, and reports
// whether that is new.
func (p *Pool) firstTerminated(task int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.terminated[task]
	p.terminated[task] = true
	return first
}

// free makes a busy process idle, unless it is killed or gone.
func (p *Pool) free(r *resident) {
	if r.phase == Busy && r.lives() {
		p.enter(r, Idle)
		p.idle = append(p.idle, r)
	}
	p.tend()
}
