package queueapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/tasks/token"
)

// API is the handler.
type API struct {
	Config
	queues    map[string]*queue
	holders   token.Holders[*principal]
	everybody *principal // without tokens
	bodies    atomic.Int64
	now       func() time.Time
	closing   sync.Once
	closed    chan struct{}
}

var _ http.Handler = (*API)(nil)

// queue is one instance at work.
type queue struct {
	Instance
	name   string
	room   room
	gather gatherer
	given  given
	counts sample[stats]
	ready  sample[struct{}]
}

// New answers the handler. Close it when no call is served any more.
func New(c Config) (*API, error) {
	c.defaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("queue API: %w", err)
	}
	a := &API{Config: c, queues: map[string]*queue{}, now: time.Now, closed: make(chan struct{})}
	for name, instance := range c.Instances {
		q := &queue{Instance: instance, name: name}
		q.room = room{limit: c.MaxWaiters}
		q.gather = gatherer{store: instance.Store, timeout: c.StoreTimeout}
		q.counts = sample[stats]{every: c.StatsEvery, take: q.count, timeout: c.StoreTimeout}
		q.ready = sample[struct{}]{every: c.StatsEvery / 5, take: q.readiness, timeout: c.StoreTimeout}
		a.queues[name] = q
		if len(c.Tokens) == 0 {
			a.everybody = &principal{Token: Token{Name: "local", Instance: name, Rights: everyRight}}
		}
	}
	for _, t := range c.Tokens {
		if err := a.holders.Add(t.Digest, &principal{t, t.rate().Bucket()}); err != nil {
			return nil, fmt.Errorf("queue API: token %q: %w", t.Name, err)
		}
	}
	return a, nil
}

// EndWaits answers the calls that wait for tasks, and lets none wait any more,
// so that a server can be shut down.
func (a *API) EndWaits() { a.closing.Do(func() { close(a.closed) }) }

// Close ends what goes on behind the calls. It can be called any number of
// times.
func (a *API) Close() {
	a.EndWaits()
	for _, q := range a.queues {
		q.gather.wait()
		q.counts.wait()
		q.ready.wait()
	}
}

// call is one request on its way.
type call struct {
	*API
	w      http.ResponseWriter
	r      *http.Request
	id     string
	route  string     // its method and path, with {id}; empty for none
	taskID string     // the last segment of /api/queue/tasks/{id}
	who    *principal // nil before it is known, and on open paths
	queue  *queue
	held   int64 // bytes of the body

	// What became of it, for the log.
	status  int
	written int
	failed  *failure
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	c := &call{API: a, w: w, r: r, id: requestID(r)}
	w.Header().Set("X-Request-Id", c.id)
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// A proxy that goes by a length beside the chunks, which net/http does not
		// tell of, disagrees about where this call ended, and so about whose the
		// next one is.
		w.Header().Set("Connection", "close")
	}
	defer func() {
		a.bodies.Add(-c.held)
		if problem := recover(); problem != nil {
			c.panicked(problem)
		}
		took := time.Since(began)
		c.log(took)
		c.observe(took)
	}()
	c.respond(c.serve())
}

// serve finds the route, the caller and the answer.
func (c *call) serve() (answer, error) {
	route, taskID, err := find(c.r)
	if err != nil {
		if allow, ok := errors.AsType[*methodError](err); ok {
			c.w.Header().Set("Allow", strings.Join(allow.allowed, ", "))
			err = refuse(http.StatusMethodNotAllowed, codeBadRequest, "%v", err)
		}
		return answer{}, err
	}
	c.taskID, c.route = taskID, route.name
	if !route.open {
		if c.who, err = c.identify(c.r); err != nil {
			return answer{}, err
		}
		if err := c.who.admit(c.now()); err != nil {
			return answer{}, err
		}
		if !c.who.may(route.right) {
			return answer{}, refuse(http.StatusForbidden, codeUnauthorized, "this token has not the right %q", route.right)
		}
		c.queue = c.queues[c.who.Instance]
	}
	return route.handle(c)
}

// panicked answers for a handler that panicked.
func (c *call) panicked(problem any) {
	if problem == http.ErrAbortHandler {
		panic(problem)
	}
	c.Log.Error().Str("requestID", c.id).Interface("panic", problem).Bytes("stack", debug.Stack()).Msg("queue API: a handler panicked")
	if c.status == 0 {
		c.respond(answer{}, fmt.Errorf("panic: %v", problem))
	}
}

// store answers a context for what is asked of the store. It does not end with
// the client: half a transaction helps nobody.
func (c *call) store() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.r.Context()), c.StoreTimeout)
}

// requestID answers the caller's id when it is short and plain, else a new one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("-_.:", r)
	}
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(r rune) bool { return !plain(r) }) {
		return rand.Text()
	}
	return id
}

// log writes the access line. It has the path and never the query, which can
// hold a token, nor any header but the request id.
func (c *call) log(took time.Duration) {
	line := c.Log.WithLevel(c.level())
	if c.who != nil {
		line = line.Str("token", c.who.Name).Str("instance", c.who.Instance)
	}
	if c.failed != nil {
		line = line.Err(c.failed)
	}
	line.Str("requestID", c.id).Str("remote", c.r.RemoteAddr).Str("method", clip(c.r.Method, 16)).Str("path", clip(c.r.URL.Path, 200)).
		Int("status", c.status).Int64("read", c.held).Int("written", c.written).Dur("took", took).Msg("queue API")
}

func (c *call) observe(took time.Duration) {
	instance := ""
	if c.queue != nil {
		instance = c.queue.name
	}
	c.Observer.Answered(instance, c.route, c.status, took)
}

// level is error for what somebody should look at.
func (c *call) level() zerolog.Level {
	switch {
	case c.status >= http.StatusInternalServerError:
		return zerolog.ErrorLevel
	case (c.queue == nil || c.route == metricsRoute) && c.status < http.StatusBadRequest:
		return zerolog.DebugLevel // probes
	}
	return zerolog.InfoLevel
}

func clip(text string, n int) string { return text[:min(n, len(text))] }
