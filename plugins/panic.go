package plugins

import (
	"fmt"
	"runtime"
	"strings"
)

// maxFrames is how many frames of a panic's stack are kept.
const maxFrames = 10

// catch calls f and answers its error, or its panic as an error: the message,
// and where it happened, as far as it is the handler's own code.
func catch(f func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v\n%s", reason, stack())
		}
	}()
	return f()
}

// stack answers the frames from the panic down to this package.
func stack() string {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	var lines []string
	panicked := false
	for {
		frame, more := frames.Next()
		switch {
		case strings.HasPrefix(frame.Function, "runtime."):
			panicked = true // what follows the last of these is the culprit
			lines = lines[:0]
		case strings.HasSuffix(frame.Function, "plugins.catch") || len(lines) == maxFrames:
			return strings.Join(lines, "\n")
		case panicked:
			lines = append(lines, fmt.Sprintf("%s\n\t%s:%d", frame.Function, frame.File, frame.Line))
		}
		if !more {
			return strings.Join(lines, "\n")
		}
	}
}
