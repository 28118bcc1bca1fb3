package pool

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// Config says what a Pool runs.
type Config struct {
	// Command starts one process: php, the path of pool-host.php of the
	// library, --phorge and the directory of Phorge. Required.
	Command []string

	// Namespace is the storage namespace that the processes must work on.
	// Empty means that it is not checked.
	Namespace string

	// Min processes are kept running, and more, up to Max, when more tasks
	// come at once than there are processes. 1 and Min when 0.
	Min, Max int

	// Log receives what happens to the processes and, line by line, what they
	// print.
	Log zerolog.Logger

	// StartTimeout is how long a process may take to load Phorge. 30 s when 0.
	StartTimeout time.Duration

	// TakeTimeout is how long a process may take to read a task that was
	// handed to it. 15 s when 0.
	TakeTimeout time.Duration

	// LeaveTimeout is how long a process may take to end after it was told to.
	// 10 s when 0.
	LeaveTimeout time.Duration

	// IdleTimeout is how long a process above Min may be idle before it is
	// ended. 1 min when 0.
	IdleTimeout time.Duration

	// MinService is how old a process must be to be replaced because a task
	// threw what nobody caught, so that tasks that fail all the time do not keep
	// the host busy with loading Phorge. 5 s when 0.
	MinService time.Duration

	// MinBackoff and MaxBackoff bound the wait before a process is started
	// after one has failed without doing any work; it doubles each time. 500 ms
	// and 1 min when 0.
	MinBackoff, MaxBackoff time.Duration
}

// withDefaults answers the configuration with every default filled in, or says
// what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	if len(c.Command) == 0 {
		return c, errors.New("pool: Config.Command is missing")
	}
	if c.Min == 0 {
		c.Min = 1
	}
	if c.Max == 0 {
		c.Max = c.Min
	}
	if c.Min < 1 || c.Max < c.Min {
		return c, fmt.Errorf("pool: %d to %d processes are configured; at least 1, and no more at least than at most", c.Min, c.Max)
	}
	for _, d := range []struct {
		value *time.Duration
		is    time.Duration
	}{
		{&c.StartTimeout, 30 * time.Second},
		{&c.TakeTimeout, 15 * time.Second},
		{&c.LeaveTimeout, 10 * time.Second},
		{&c.IdleTimeout, time.Minute},
		{&c.MinService, 5 * time.Second},
		{&c.MinBackoff, 500 * time.Millisecond},
		{&c.MaxBackoff, time.Minute},
	} {
		if *d.value == 0 {
			*d.value = d.is
		}
	}
	return c, nil
}

// passed begin the names of the variables that PHP gets. What Gantry itself is
// configured with, which can be a password, is not among them.
var passed = []string{
	"PATH=", "HOME=", "USER=", "LANG=", "LC_", "TZ=", "TMPDIR=", "PHABRICATOR_", "PHUTIL_",
}

// environment answers the variables of a process, of those of Gantry.
func environment(all []string) []string {
	env := []string{}
	for _, variable := range all {
		for _, prefix := range passed {
			if strings.HasPrefix(variable, prefix) {
				env = append(env, variable)
			}
		}
	}
	return env
}

// backoff answers how long to wait after so many failures: doubling, and
// somewhere in its upper half, so that the pools of many hosts that failed
// together do not come back together. random is in [0, 1).
func backoff(failures int, shortest, longest time.Duration, random float64) time.Duration {
	wait := longest
	if failures <= 32 && shortest<<(failures-1) > 0 {
		wait = min(shortest<<(failures-1), longest)
	}
	return wait/2 + time.Duration(random*float64(wait/2))
}
