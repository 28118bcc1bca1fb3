package runtime

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/tasks"
)

// Defaults of Config.
const (
	DefaultSlots        = 64
	DefaultLeaseTime    = time.Minute
	DefaultIdlePoll     = 40 * time.Millisecond
	DefaultDrainTimeout = 30 * time.Second
	DefaultMaxCrashes   = 3
)

// Config says what a Runtime works on and how much of it at once.
type Config struct {
	// Store is the queue. Required.
	Store tasks.Store

	// Classes are the classes that can run here, by their exact spelling.
	Classes map[string]Class

	// Others says how each class runs that Classes does not name. Nil means
	// that they are never leased; then Classes names at least one.
	//
	// No task is leased to learn that it cannot run here. So those of whatever
	// class are leased only while the executor is ready for the class "", which
	// no task has: one that takes every class is, or is not, ready for all of
	// them alike, and one that takes some of them never is.
	Others *Class

	// OtherClasses answers classes that run as Others and are leased by name,
	// each while the executor is ready for it. It is asked before each lease
	// call, may answer something else every time, and does not block. Nil means
	// that there are none.
	OtherClasses func() []string

	// Slots is the number of tasks that run at the same time, without those of
	// classes that have a Limit. 0 means DefaultSlots.
	Slots int

	// Turns bounds these tasks together with those of other runtimes of the
	// process. Nil means that there are none to share with.
	Turns *Turns

	// LeaseTime is how long a lease lasts unless it is renewed, in whole
	// seconds: the work of a dead host resumes after it. 0 means
	// DefaultLeaseTime; at least one second.
	LeaseTime time.Duration

	// IdlePoll is how often an empty queue is looked at. 0 means
	// DefaultIdlePoll.
	IdlePoll time.Duration

	// DrainTimeout is how long Drain waits for running tasks before it cancels
	// them. 0 means DefaultDrainTimeout.
	DrainTimeout time.Duration

	// MaxCrashes is how often a task may take down what runs it before it is
	// archived as failed. 0 means DefaultMaxCrashes.
	MaxCrashes int

	// Observer is told what becomes of tasks, for metrics. Nil: nobody is.
	Observer Observer

	// Log is told what a person needs to know. The zero value discards it.
	Log zerolog.Logger
}

// Class says how the tasks of one class run.
type Class struct {
	// Executor runs the tasks. Required.
	Executor tasks.Executor

	// Fallback runs the tasks that Executor declines, and all of them while
	// Executor is not ready. They stay in the slots of their class and wait
	// there until Fallback has room. Nil means that there is none.
	Fallback tasks.Executor

	// Route and FallbackRoute name Executor and Fallback in the log and in
	// attempts: plugin, pool or conduit.
	Route, FallbackRoute string

	// Slots is the number of tasks of this class that run at the same time. 0
	// means no limit but Config.Slots, or Limit.
	Slots int

	// Limit is shared with other classes. Nil means Config.Slots.
	Limit *Limit

	// LeaseTime is as Config.LeaseTime, for this class. 0 means that one.
	LeaseTime time.Duration

	// Deadline is how long one execution may take before it is cancelled and
	// counted as a failed attempt. 0 means no limit.
	Deadline time.Duration

	// PickupDelay leaves a task alone until it has existed for so long. See
	// tasks.ClassRequest. 0 means no delay.
	PickupDelay time.Duration

	// MaxCrashes is as Config.MaxCrashes, for this class. 0 means that one.
	MaxCrashes int
}

// withDefaults answers the configuration with every default filled in, in the
// classes as well, or says what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	if c.Store == nil {
		return c, errors.New("runtime: no store is configured")
	}
	if len(c.Classes) == 0 && c.Others == nil {
		return c, errors.New("runtime: no class is configured, so nothing would be leased; name at least one")
	}
	if c.OtherClasses != nil && c.Others == nil {
		return c, errors.New("runtime: OtherClasses is set and Others is not, so nothing says how those classes run")
	}
	if c.Turns != nil && c.Turns.Total < 1 {
		return c, fmt.Errorf("runtime: Turns.Total is %d; there must be at least one turn for each runtime", c.Turns.Total)
	}
	c.Slots = orDefault(c.Slots, DefaultSlots)
	c.LeaseTime = orDefault(c.LeaseTime, DefaultLeaseTime)
	c.IdlePoll = orDefault(c.IdlePoll, DefaultIdlePoll)
	c.DrainTimeout = orDefault(c.DrainTimeout, DefaultDrainTimeout)
	c.MaxCrashes = orDefault(c.MaxCrashes, DefaultMaxCrashes)
	if c.Observer == nil {
		c.Observer = nobody{}
	}

	problems := []error{
		positive("Slots", c.Slots),
		atLeastASecond("LeaseTime", c.LeaseTime),
		positive("IdlePoll", c.IdlePoll),
		positive("DrainTimeout", c.DrainTimeout),
		positive("MaxCrashes", c.MaxCrashes),
	}
	c.Classes = maps.Clone(c.Classes)
	for _, name := range slices.Sorted(maps.Keys(c.Classes)) {
		class, err := c.Classes[name].withDefaults(c)
		if err != nil {
			problems = append(problems, fmt.Errorf("class %q: %w", name, err))
		}
		c.Classes[name] = class
	}
	if c.Others != nil {
		others, err := c.Others.withDefaults(c)
		if err != nil {
			problems = append(problems, fmt.Errorf("the other classes: %w", err))
		}
		c.Others = &others
	}
	if err := errors.Join(problems...); err != nil {
		return c, fmt.Errorf("runtime: %w", err)
	}
	return c, nil
}

func (c Class) withDefaults(all Config) (Class, error) {
	if c.Executor == nil {
		return c, errors.New("it has no executor")
	}
	if c.Limit == nil {
		c.Slots = orDefault(c.Slots, all.Slots)
	} else {
		c.Slots = orDefault(c.Slots, math.MaxInt)
		if c.Limit.Slots == nil {
			return c, errors.New("its limit does not say how many slots there are")
		}
	}
	c.LeaseTime = orDefault(c.LeaseTime, all.LeaseTime)
	c.MaxCrashes = orDefault(c.MaxCrashes, all.MaxCrashes)
	return c, errors.Join(
		positive("Slots", c.Slots),
		atLeastASecond("LeaseTime", c.LeaseTime),
		notNegative("Deadline", c.Deadline),
		notNegative("PickupDelay", c.PickupDelay),
		positive("MaxCrashes", c.MaxCrashes),
	)
}

type number interface{ ~int | ~int64 }

func orDefault[N number](value, standard N) N {
	if value == 0 {
		return standard
	}
	return value
}

func positive[N number](name string, value N) error {
	if value < 1 {
		return fmt.Errorf("%s is %v; it must be positive", name, value)
	}
	return nil
}

func notNegative(name string, value time.Duration) error {
	if value < 0 {
		return fmt.Errorf("%s is %v; it cannot be negative", name, value)
	}
	return nil
}

func atLeastASecond(name string, value time.Duration) error {
	if value < time.Second {
		return fmt.Errorf("%s is %v; the queue counts in whole seconds, so it must be at least 1s", name, value)
	}
	return nil
}
