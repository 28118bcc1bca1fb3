package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/phorge-gantry/gantry/plugins"
)

// handler is the twin of PhabricatorTestWorker.
func handler() plugins.Handler {
	return plugins.Handler{
		Class:           "PhabricatorTestWorker",
		Handle:          doWork,
		MaxRetries:      maximumRetryCount,
		RequiredLease:   requiredLeaseTime,
		WaitBeforeRetry: waitBeforeRetry,
	}
}

func doWork(ctx context.Context, task *plugins.Task) error {
	data, err := decode(task.Data)
	if err != nil {
		return err
	}
	// PHP fails on this before it runs the worker; requiredLeaseTime has no
	// way to say so.
	if _, err := seconds(data["getRequiredLeaseTime"]); err != nil {
		return fmt.Errorf("getRequiredLeaseTime: %w", err)
	}
	if err := sleep(ctx, data["duration"]); err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	switch what := data["doWork"]; {
	case looselyEqual(what, "fail-temporary"):
		return errors.New("temporary failure, as the task's data asks")
	case looselyEqual(what, "fail-permanent"):
		return plugins.Fail(errors.New("permanent failure, as the task's data asks"))
	}
	return nil
}

func sleep(ctx context.Context, duration any) error {
	if !truthy(duration) {
		return nil
	}
	wait, err := seconds(duration)
	if err != nil {
		return err
	}
	if wait < 0 {
		return errors.New("nobody can sleep for less than no time")
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func maximumRetryCount(task *plugins.Task) int {
	data, err := decode(task.Data)
	limit := data["getMaximumRetryCount"]
	if err != nil || limit == nil {
		return plugins.Forever // doWork fails on the data
	}
	if n, err := number(limit); err == nil && !isBool(limit) && math.Abs(n) < math.MaxInt32 {
		return int(math.Floor(n))
	}
	if exceeds(task.FailureCount, limit) {
		return task.FailureCount - 1
	}
	return plugins.Forever
}

func requiredLeaseTime(task *plugins.Task) time.Duration {
	data, _ := decode(task.Data)
	lease, err := seconds(data["getRequiredLeaseTime"])
	if err != nil {
		return 0 // doWork fails on it
	}
	return lease
}

// waitBeforeRetry waits the default where PHP stumbles over the value: there,
// nothing is written, and the task waits for its lease of two hours to expire.
func waitBeforeRetry(task *plugins.Task, _ error) time.Duration {
	data, err := decode(task.Data)
	value := data["getWaitBeforeRetry"]
	if err != nil || value == nil {
		return plugins.DefaultWait
	}
	wait, err := seconds(value)
	if err != nil {
		return plugins.DefaultWait
	}
	return wait
}
