package runtime

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// logEvery bounds how often a failing store is logged, for each kind of call.
const logEvery = 30 * time.Second

// health is whether one kind of store call works. It logs the first failure,
// then one line now and then, and the recovery.
type health struct {
	call     string // as a person reads it: "lease tasks"
	log      zerolog.Logger
	observer Observer

	mu     sync.Mutex
	err    error     // of the latest call
	since  time.Time // when it began to fail
	logged time.Time // when a failure was last logged
	silent bool      // this failure was not logged, so neither is its end
	missed int       // failures not logged since then
}

func (h *health) failed(err error) {
	verb, _, _ := strings.Cut(h.call, " ")
	h.observer.StoreFailed(verb)
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.err == nil {
		h.since, h.silent = now, true
	}
	h.err = err
	if !h.logged.IsZero() && now.Sub(h.logged) < logEvery {
		h.missed++
		return
	}
	h.log.Error().Err(err).Int("unlogged", h.missed).
		Msgf("cannot %s; trying again until it works", h.call)
	h.logged, h.silent, h.missed = now, false, 0
}

func (h *health) worked() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil && !h.silent {
		h.log.Info().Stringer("after", time.Since(h.since).Round(time.Millisecond)).Msgf("can %s again", h.call)
	}
	h.err = nil
}

// problem answers nil, or why calls of this kind fail now.
func (h *health) problem() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		return nil
	}
	return fmt.Errorf("cannot %s since %s: %w", h.call, h.since.Format(time.RFC3339), h.err)
}
