package queueapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/token"
)

// Config says which queues are served to whom. Fields that are zero stand for
// their defaults; none may be negative.
type Config struct {
	// Instances are the queues by name. At least one, and exactly one without
	// Tokens.
	Instances map[string]Instance

	// Tokens are those who may call. Without any, everybody on this machine may
	// do everything, and nobody else anything.
	Tokens []Token

	// QueryToken accepts the token as the query parameter "token" as well, for
	// callers that cannot set headers. Proxies log it, so it is off by default.
	QueryToken bool

	// LeaseTime is how long leases last, in whole seconds. Default: two hours,
	// as PhabricatorWorkerLeaseQuery, because callers need not renew.
	LeaseTime time.Duration

	// RetryWait is how long a failed task waits when the caller says nothing, in
	// whole seconds. Default: tasks.DefaultWait.
	RetryWait time.Duration

	// KeepKeys is how long idempotency keys are remembered, in whole seconds.
	// Default: a day.
	KeepKeys time.Duration

	// MaxBody bounds the body of a request, in bytes. Default: 64 MiB.
	MaxBody int64

	// MaxBodies bounds all the bodies held at one time, in bytes; beyond it
	// calls are answered 503, but for those with short bodies. Default: twice
	// MaxBody, because a store can hold a body several times while it writes it.
	MaxBodies int64

	// MaxTasks bounds the tasks of one enqueue, the follow-ups of one task and
	// the outcomes of one settle. Default: 1000.
	MaxTasks int

	// MaxWait bounds how long a lease call waits for tasks. Default: 30 seconds.
	MaxWait time.Duration

	// MaxWaiters bounds the lease calls of one instance that wait at one time;
	// beyond it they are answered 503. Default: 256.
	MaxWaiters int

	// PollEvery is how often who waits looks for tasks that no call to this API
	// queued. Default: one second.
	PollEvery time.Duration

	// StoreTimeout bounds what is asked of the store for one call. Default: 30
	// seconds.
	StoreTimeout time.Duration

	// StatsEvery is how old counts may be, and what /readyz answers a fifth of
	// it. Default: 5 seconds.
	StatsEvery time.Duration

	// Observer is told what callers do. Nil: nobody is.
	Observer Observer

	// Tracer makes spans. Nil: tasks keep the trace context of who queued them,
	// and nothing is traced here.
	Tracer Tracer

	// Metrics answers the page of /metrics, as far as it is about an instance,
	// and its media type. Nil: there is none.
	Metrics func(ctx context.Context, instance string) (page []byte, mime string, err error)

	// Log gets a line for every call.
	Log zerolog.Logger
}

// Instance is one queue.
type Instance struct {
	Store   tasks.Service
	Backend string // what kind of store it is, for people: mysql, sqlite, redis

	// PickupDelay is the one of tasks.ClassRequest, for every class.
	PickupDelay time.Duration
}

// Right is what a token may be used for.
type Right string

// Rights.
const (
	Enqueue Right = "enqueue"
	Work    Right = "work" // lease and settle
	Operate Right = "operate"
	Read    Right = "read"
)

var everyRight = []Right{Enqueue, Work, Operate, Read}

// Token is a caller. The token itself is not kept: token.Digest answers what is.
type Token struct {
	Name     string // for the log and for people
	Digest   string // SHA-256 of the token, in hexadecimal
	Instance string // of Config.Instances
	Rights   []Right

	// Rate and Burst bound the calls: so many a second over time, so many at
	// once. Rate 0 does not bound them; Burst 0 stands for one second's worth.
	Rate  float64
	Burst int
}

func (t Token) rate() token.Rate { return token.Rate{PerSecond: t.Rate, Burst: t.Burst} }

func (c *Config) defaults() {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.LeaseTime, 2 * time.Hour},
		{&c.RetryWait, tasks.DefaultWait},
		{&c.KeepKeys, 24 * time.Hour},
		{&c.MaxWait, 30 * time.Second},
		{&c.PollEvery, time.Second},
		{&c.StoreTimeout, 30 * time.Second},
		{&c.StatsEvery, 5 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.MaxBody == 0 {
		c.MaxBody = 64 << 20
	}
	if c.MaxBodies == 0 {
		c.MaxBodies = 2 * c.MaxBody
	}
	if c.MaxTasks == 0 {
		c.MaxTasks = 1000
	}
	if c.MaxWaiters == 0 {
		c.MaxWaiters = 256
	}
	if c.Observer == nil {
		c.Observer = nobody{}
	}
}

func (c *Config) check() error {
	switch {
	case len(c.Instances) == 0:
		return errors.New("there is no instance to serve")
	case len(c.Tokens) == 0 && len(c.Instances) != 1:
		return errors.New("several instances need tokens, because the token says which one a caller works on")
	case min(c.LeaseTime, c.RetryWait, c.KeepKeys, c.MaxWait, c.PollEvery, c.StoreTimeout, c.StatsEvery) < 0 ||
		min(c.MaxBody, c.MaxBodies) < 0 || min(c.MaxTasks, c.MaxWaiters) < 0:
		return errors.New("a limit is negative")
	case min(c.LeaseTime, c.KeepKeys) < time.Second:
		return errors.New("leases and idempotency keys last at least one second")
	}
	for name, instance := range c.Instances {
		if instance.Store == nil {
			return fmt.Errorf("instance %q has no store", name)
		}
	}
	names := map[string]bool{}
	for _, t := range c.Tokens {
		if err := c.checkToken(t); err != nil {
			return fmt.Errorf("token %q: %w", t.Name, err)
		}
		if names[t.Name] {
			return fmt.Errorf("there are two tokens called %q", t.Name)
		}
		names[t.Name] = true
	}
	return nil
}

func (c *Config) checkToken(t Token) error {
	_, known := c.Instances[t.Instance]
	switch {
	case t.Name == "":
		return errors.New("it has no name")
	case !known:
		return fmt.Errorf("there is no instance %q", t.Instance)
	case len(t.Rights) == 0:
		return fmt.Errorf("it has no rights; they are %v", everyRight)
	}
	if err := t.rate().Check(); err != nil {
		return fmt.Errorf("its rate: %w", err)
	}
	for _, right := range t.Rights {
		if !slices.Contains(everyRight, right) {
			return fmt.Errorf("there is no right %q; they are %v", right, everyRight)
		}
	}
	return nil
}
