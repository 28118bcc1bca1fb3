package main

import (
	"fmt"
	"io"
	"time"
)

// progressEvery is how often long work tells a person how far it is.
const progressEvery = 2 * time.Second

// progress tells a person on a terminal how far long work is. Elsewhere it is
// silent.
type progress struct {
	w    io.Writer
	last time.Time
}

func newProgress(w io.Writer) *progress {
	if !terminal(w) {
		w = nil
	}
	return &progress{w: w, last: time.Now()}
}

// tell writes a line when the last one is long enough ago.
func (p *progress) tell(now time.Time, line func() string) {
	if p.w == nil || now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	fmt.Fprintln(p.w, line())
}
