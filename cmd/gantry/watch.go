package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/runtime"
	"github.com/rs/zerolog"
)

const (
	// Progress is for a person who looks on, or for a log that is kept.
	tellOnTerminal = 2 * time.Second
	tellInLog      = time.Minute

	// queueEvery is how often the queue is searched for classes that nothing
	// here runs. The count behind it is bounded, but not free.
	queueEvery = time.Minute

	// maxUnknown is how many classes are logged that nothing here runs.
	maxUnknown = 100
)

// watch tells people what a running Gantry does, and what it cannot do.
type watch struct {
	log       zerolog.Logger
	operator  tasks.Operator
	host      *host.Host
	php       *phpRoute
	served    map[string]bool // classes that plugins take
	began     time.Time
	tellEvery time.Duration
	stopping  atomic.Bool // nothing is leased any more

	told    time.Time
	last    runtime.Stats
	queued  time.Time
	unknown map[string]bool // classes that were logged
}

func newWatch(a *app, log zerolog.Logger, operator tasks.Operator, h *host.Host, php *phpRoute) *watch {
	every := tellInLog
	if terminal(a.err) {
		every = tellOnTerminal
	}
	served := map[string]bool{}
	for class := range h.Classes() {
		served[class] = true
	}
	now := time.Now()
	return &watch{
		log: log, operator: operator, host: h, php: php, served: served, began: now,
		tellEvery: every, told: now, unknown: map[string]bool{},
	}
}

// until watches a runtime until ctx ends.
func (w *watch) until(ctx context.Context, rt *runtime.Runtime) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		w.look(ctx, time.Now(), rt.Stats())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// look tells what there is to tell now.
func (w *watch) look(ctx context.Context, now time.Time, stats runtime.Stats) {
	if now.Sub(w.queued) >= queueEvery {
		w.queued = now
		w.tellUnknown(ctx)
	}
	if passed := now.Sub(w.told); passed >= w.tellEvery {
		if stats != w.last {
			rate := float64(stats.Settled()-w.last.Settled()) / passed.Seconds()
			w.log.Info().Int("settled", stats.Settled()).Float64("per_second", float64(int(rate*10))/10).
				Int("running", stats.Running).Int("failed", stats.Failed).Int("retried", stats.Retried).
				Int("crashed", stats.Crashed).Int("lost", stats.Lost).Msg("progress")
		}
		w.told, w.last = now, stats
	}
}

// takes reports whether something here runs a class.
func (w *watch) takes(class string) bool {
	return w.served[class] || w.php.takes(class)
}

// tellUnknown logs each class of the queue that nothing here runs, once, and
// no more of them than a person reads.
func (w *watch) tellUnknown(ctx context.Context) {
	stats, err := w.operator.Stats(ctx)
	if err != nil {
		return // the runtime tells when the store does not work
	}
	for _, class := range stats.Classes {
		if w.takes(class.Class) || w.unknown[class.Class] || len(w.unknown) == maxUnknown {
			continue
		}
		w.unknown[class.Class] = true
		w.log.Warn().Str("taskClass", class.Class).Int("queued", class.Active).
			Msg("nothing here runs this class; its tasks stay as they are")
	}
}
