package main

import (
	"fmt"
	"time"
)

const (
	demoLiveEvery  = 100 * time.Millisecond // on a terminal, where one line is written over
	demoPlainEvery = time.Second
)

// demoLine tells how far a demo is.
type demoLine struct {
	demo  *demo
	live  bool
	every time.Duration

	told time.Time
	ran  int // at that time
}

func newDemoLine(d *demo) *demoLine {
	l := &demoLine{demo: d, every: demoPlainEvery}
	if terminal(d.out) {
		l.live, l.every = true, demoLiveEvery
	}
	return l
}

// tell reads the ledger on and writes a line, when the last one is long enough
// ago.
func (l *demoLine) tell(now time.Time) error {
	passed := now.Sub(l.told)
	if passed < l.every {
		return nil
	}
	d := l.demo
	if err := d.readOn(); err != nil {
		return err
	}
	ran := d.executions()
	text := fmt.Sprintf("%6d queued, %6d ran in the plugin, %5d in PHP", d.total(), d.routes["go"], d.routes["php"])
	if !l.told.IsZero() {
		text += fmt.Sprintf(", %5.0f a second", float64(ran-l.ran)/passed.Seconds())
	}
	l.told, l.ran = now, ran
	switch {
	case d.print.json:
	case l.live:
		fmt.Fprintf(d.print.w, "\r%s\x1b[K", text)
		_ = d.print.flush() // which the end of the command reports
	default:
		d.say("%s", text)
	}
	return nil
}

// end leaves the last line where it is.
func (l *demoLine) end() {
	l.told = time.Time{}
	_ = l.tell(time.Now()) // of a ledger that could be read before
	if l.live && !l.demo.print.json {
		l.demo.say("")
	}
}
