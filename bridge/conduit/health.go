package conduit

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

var errNotStarted = errors.New("conduit: not started")

// State is what a person wants to know of an Executor.
type State struct {
	URL     string    `json:"url"`
	Ready   bool      `json:"ready"`
	Since   time.Time `json:"since"`   // when it became so
	Waiting int       `json:"waiting"` // tasks in line for a call
	Calls   int       `json:"calls"`   // under way

	// Problem is why it is not ready.
	Problem string `json:"problem,omitempty"`

	// TaskClasses is what Phorge lets be executed.
	TaskClasses []string `json:"taskClasses"`
}

// health knows whether tasks can be executed now.
type health struct {
	times times
	log   zerolog.Logger
	asked chan struct{} // closed when the Phorge was asked for the first time
	wake  chan struct{} // a call failed

	mu       sync.Mutex
	good     bool
	since    time.Time
	problem  error
	told     sort          // of the problem that was logged last
	failures int           // in a row, of calls that execute, and of asking
	after    time.Duration // how long the server wants to be left alone
	offer    Capabilities
}

// sort is what makes one problem another one than the last for a person.
type sort struct {
	status int
	code   string
}

func newHealth(c Config) health {
	return health{
		times:   c.times,
		log:     c.Log.With().Str("url", c.URL).Logger(),
		asked:   make(chan struct{}),
		wake:    make(chan struct{}, 1),
		since:   time.Now(),
		problem: errNotStarted,
	}
}

// State answers how the executor is.
func (e *Executor) State() State {
	e.mu.Lock()
	s := State{URL: e.config.URL, Waiting: len(e.waiting), Calls: e.lines}
	e.mu.Unlock()
	h := &e.health
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Ready, s.Since, s.TaskClasses = h.good, h.since, h.offer.TaskClasses
	if !h.good {
		s.Problem = h.problem.Error()
	}
	return s
}

// Classes answers what Phorge lets be executed, by exact spelling.
func (e *Executor) Classes() []string { return e.State().TaskClasses }

// Publishers answers the classes that FeedPublisherWorker queues a task for, see
// Capabilities. It is empty before the Phorge was asked.
func (e *Executor) Publishers() []string {
	h := &e.health
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.offer.Publishers
}

// watch keeps asking what the Phorge offers, and soon when something failed.
func (e *Executor) watch() {
	h := &e.health
	timer := time.NewTimer(0)
	defer timer.Stop()
	for first := true; ; first = false {
		select {
		case <-e.life.Done():
			return
		case <-timer.C:
		case <-h.wake:
			timer.Reset(h.pause())
			continue
		}
		offer, err := e.Check(e.life)
		if e.life.Err() != nil {
			return
		}
		timer.Reset(h.learned(offer, err))
		if first {
			close(h.asked)
		}
	}
}

func (h *health) ready(class string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, allowed := slices.BinarySearch(h.offer.TaskClasses, class)
	return h.good && allowed
}

// maxTasks is how many tasks Phorge takes in a call.
func (h *health) maxTasks() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(1, h.offer.MaxTasks)
}

// learned notes what came of asking, and answers when to ask again.
func (h *health) learned(offer Capabilities, err error) time.Duration {
	if err != nil {
		h.mu.Lock()
		h.failures++
		h.bad(err)
		h.mu.Unlock()
		return h.pause()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.offer, h.after = offer, 0
	if !h.good {
		h.good, h.since, h.problem, h.told = true, time.Now(), nil, sort{}
		h.log.Info().Strs("taskClasses", offer.TaskClasses).Str("phorge", offer.Phorge).Msg("Phorge executes tasks")
	}
	return h.times.refresh
}

// failed notes that a call failed: no class is ready until the Phorge was asked
// again.
func (h *health) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.good {
		h.failures++
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
	h.bad(err)
}

// bad notes a problem and logs it when it is another one. It needs the lock.
func (h *health) bad(err error) {
	now := sort{}
	var failed *failure
	if errors.As(err, &failed) {
		now = sort{failed.status, failed.code}
		h.after = failed.after
	}
	if h.good || h.problem == errNotStarted || now != h.told {
		h.log.Warn().Err(err).Msg("Phorge does not execute tasks as it should; no more are leased for it until it answers")
	}
	if h.good {
		h.good, h.since = false, time.Now()
	}
	h.problem, h.told = err, now
}

// worked notes that tasks were executed.
func (h *health) worked() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures = 0
}

// disallow notes that Phorge does not let a class be executed any more.
func (h *health) disallow(class string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i, found := slices.BinarySearch(h.offer.TaskClasses, class); found {
		h.offer.TaskClasses = slices.Concat(h.offer.TaskClasses[:i], h.offer.TaskClasses[i+1:]) // State gave out the old one
	}
}

// pause is how long to wait before asking again: not at all after one failure,
// which may be the death of one PHP process.
func (h *health) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	pause := time.Duration(0)
	if h.failures > 1 {
		pause = jittered(min(h.times.pause<<min(h.failures-2, 20), h.times.pauseMost))
	}
	return max(pause, min(h.after, h.times.toldMost))
}

// jittered answers a pause that is up to a quarter longer or shorter.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}
