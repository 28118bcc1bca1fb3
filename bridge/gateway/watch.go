package gateway

import (
	"sync"
	"time"
)

// watch ends a call whose Phorge does not go on in time. While the caller is
// waited for, which has a time limit of its own, it rests.
type watch struct {
	mu       sync.Mutex
	timer    *time.Timer
	answered bool
}

func newWatch(limit time.Duration, late func()) *watch {
	return &watch{timer: time.AfterFunc(limit, late)}
}

// upload starts the watch anew while the call is sent, or has it rest when the
// limit is 0. Once the answer comes it is about that.
func (w *watch) upload(limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.answered {
		w.set(limit)
	}
}

// answer does the same while the answer comes.
func (w *watch) answer(limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered = true
	w.set(limit)
}

func (w *watch) set(limit time.Duration) {
	if limit == 0 {
		w.timer.Stop()
		return
	}
	w.timer.Reset(limit)
}
