package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/phorge-gantry/gantry/tasks"
)

// Exit codes. exitHelp explains them to people.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnavailable = 3
	exitNothing     = 4
)

const exitHelp = `Exit codes:
  0  done
  1  something did not work, or a check found a problem
  2  the command line or the configuration is wrong; nothing was done
  3  the store cannot be reached or cannot be worked with
  4  no task matched, or none that matched could be changed`

// coded is an error with the exit code that it means.
type coded struct {
	error
	code int
}

func (c coded) Unwrap() error { return c.error }

// usagef is an error in what the user wrote.
func usagef(format string, a ...any) error {
	return coded{fmt.Errorf(format, a...), exitUsage}
}

// exitCode answers the code for what a command returned.
func exitCode(err error) int {
	var c coded
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &c):
		return c.code
	case errors.Is(err, tasks.ErrUnavailable):
		return exitUnavailable
	case errors.Is(err, tasks.ErrInvalid), errors.Is(err, tasks.ErrTooLarge):
		return exitUsage
	}
	return exitFailed
}

// explain answers the text for what a command returned.
func explain(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted: what was reported is done; look at the rest again"
	}
	return err.Error()
}
