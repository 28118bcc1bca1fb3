package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
)

// recordsVariable names the file that handlers write to.
const recordsVariable = "GANTRY_FAULTS_RECORDS"

// record is one line of a handler: the beginning or the end of an execution.
type record struct {
	ID  int64 `json:"id"`
	PID int   `json:"pid"`
	Run int64 `json:"run"` // the execution, in its process
	At  int64 `json:"at"`  // nanoseconds of the machine's monotonic clock

	// Kind is empty at the beginning, and at the end what was answered.
	Kind tasks.Kind `json:"kind,omitempty"`
}

// serveHandler is the role of a handler process.
func serveHandler() {
	h, err := openRecords()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	plugins.Serve(plugins.Handler{
		Class:  class,
		Handle: h.handle,
		WaitBeforeRetry: func(*plugins.Task, error) time.Duration {
			return time.Second
		},
	})
}

// handler writes down what it does.
type handler struct {
	records *os.File
	runs    atomic.Int64
}

func openRecords() (*handler, error) {
	records, err := os.OpenFile(os.Getenv(recordsVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &handler{records: records}, err
}

func (h *handler) handle(ctx context.Context, task *plugins.Task) error {
	run := h.runs.Add(1)
	if err := h.write(record{ID: task.ID, Run: run}); err != nil {
		return err
	}
	kind, err := h.do(ctx, task)
	return errors.Join(err, h.write(record{ID: task.ID, Run: run, Kind: kind}))
}

func (h *handler) do(ctx context.Context, task *plugins.Task) (tasks.Kind, error) {
	w := work{class: task.Class}
	if err := task.Decode(&w); err != nil {
		return tasks.Failed, err
	}
	if pause(ctx, w.takes()) != nil {
		return tasks.Released, ctx.Err()
	}
	switch kind := w.kind(task.FailureCount, time.Now()); kind {
	case tasks.Retry:
		return kind, errors.New("not yet")
	case tasks.Yielded:
		return kind, plugins.Yield(tasks.MinYield)
	case tasks.Failed:
		return kind, plugins.Fail(errors.New("never"))
	}
	for _, child := range w.children() {
		task.Queue(child.task())
	}
	return tasks.Succeeded, nil
}

// write appends a line at once, so that lines of several processes never mix
// and those of a killed process are there.
func (h *handler) write(r record) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	r.PID, r.At = os.Getpid(), now.Nano()
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = h.records.Write(append(line, '\n'))
	return err
}
