package stage

import (
	"sync"
	"time"
)

// quietTime is how long a pipe is waited for in which something may still be: a
// line is written before the outcome of its task, and read beside it.
const quietTime = 200 * time.Millisecond

// maxPrinted bounds the lines that are kept of one case.
const maxPrinted = 1000

// printed is what handler processes print.
type printed struct {
	mu    sync.Mutex
	lines []string
}

func (p *printed) line(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) < maxPrinted {
		p.lines = append(p.lines, line)
	}
}

func (p *printed) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.lines
	p.lines = nil
	return taken
}

// takePrinted forgets what a side has printed so far, and answers what takes the
// lines that it prints from now on: all of them, which can take a moment, or those
// that are there. What handlers of this process print nobody takes from it.
func takePrinted(side Side) func(all bool) []string {
	b, ok := side.(*binaries)
	if !ok {
		return func(bool) []string { return nil }
	}
	b.printed.take()
	return func(all bool) []string {
		if all {
			time.Sleep(quietTime)
		}
		return b.printed.take()
	}
}
