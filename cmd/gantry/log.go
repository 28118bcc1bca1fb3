package main

import (
	"io"
	"time"

	"github.com/rs/zerolog"
)

// newLogger writes to a stream in the configured format: lines for people on a
// terminal, JSON elsewhere.
func newLogger(w io.Writer, environ []string, c *config) zerolog.Logger {
	level, err := zerolog.ParseLevel(c.LogLevel)
	if err != nil {
		panic(err) // the settings allow only levels that zerolog has
	}
	if c.LogFormat == "console" || c.LogFormat == "auto" && terminal(w) {
		w = zerolog.ConsoleWriter{Out: w, NoColor: !colours(w, environ), TimeFormat: time.TimeOnly}
	}
	return zerolog.New(zerolog.SyncWriter(w)).Level(level).With().Timestamp().Logger()
}
