package main

import (
	"fmt"
	"os"
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

// introduce says who is there, and what the last demo left.
func (d *demo) introduce() {
	process := func(pid int, who string) { d.say("  process %-8d %s", pid, who) }
	d.say("The queue is one SQLite file, %s.", d.path("queue.db"))
	process(os.Getpid(), "gantry demo: queues tasks, leases them, and settles what they come to")
	process(d.run.host.List()[0].PID, demoHandler+", a plugin, which is this program once more: runs "+demoGoClass)
	if d.run.pool == nil {
		d.say("  no PHP           tasks of %s are left out: %s", demoPHPClass, plain(d.run.why))
	} else {
		php := d.run.pool.State()
		for _, p := range php.Processes {
			process(p.PID, "PHP "+plain(php.PHP)+", a short script in the place of a Phorge: runs "+demoPHPClass)
		}
	}
	d.say("Each task takes %d ms, and writes into a ledger that it ran. To try what it stands, and to look on:", demoPause)
	d.say("  kill -9 %d, and run it again", os.Getpid())
	if d.socket != "" {
		d.say("  gantry top --sqlite %s --socket %s", d.path("queue.db"), d.socket)
	}
	if before := d.demos[:len(d.demos)-1]; len(before) > 0 {
		d.say("Process %d was here before and did not come to the end: %d tasks were queued by then, and %d had run.", before[len(before)-1], d.total(), len(d.ran))
	}
	if d.found > 0 {
		d.say("It held %d when it was killed. Their leases end by themselves, and within %v they run here.", d.found, demoLease+takeoverDelay)
	}
	d.say("")
}

// takeoverDelay is how long a Gantry leaves the expired lease of another alone.
const takeoverDelay = 5 * time.Second

// say tells a person, at once. JSON says everything at the end.
func (d *demo) say(format string, values ...any) {
	if d.print.json {
		return
	}
	d.print.linef(format, values...)
	_ = d.print.flush() // which the end of the command reports
}
