package conduit

import "time"

// callWorth is how much work a call should have: enough that what a call costs
// Phorge counts little, and so little that no task waits long for the answer of
// the others.
const callWorth = 250 * time.Millisecond

// pace knows how long tasks take, as moving averages.
type pace struct {
	classes map[string]time.Duration
	all     time.Duration
}

func newPace() pace { return pace{classes: map[string]time.Duration{}, all: callWorth} }

func (p *pace) learn(class string, took time.Duration) {
	known, ok := p.classes[class]
	if !ok {
		known = took
	}
	p.classes[class] = known + (took-known)/8
	p.all += (took - p.all) / 8
}

// expect answers how long a task of a class may take. One whose class is not
// known yet goes alone.
func (p *pace) expect(class string) time.Duration {
	if known, ok := p.classes[class]; ok {
		return known
	}
	return callWorth
}

// together answers how many tasks make up a call, at most so many.
func (p *pace) together(most int) int {
	return int(max(1, min(time.Duration(most), callWorth/max(p.all, 1))))
}
