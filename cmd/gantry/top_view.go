package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/phorge-gantry/gantry/tasks"
)

// topView is what top shows at a moment.
type topView struct {
	At      time.Time     `json:"at"`
	Queues  []topQueue    `json:"queues"`
	Running *topRunning   `json:"running"` // nil without a socket
	Problem string        `json:"problem,omitempty"`
	Every   time.Duration `json:"-"`
}

// topQueue is one instance. Its sums stop where counting stopped.
type topQueue struct {
	Instance string     `json:"instance"`
	Problem  string     `json:"problem,omitempty"` // why the rest is missing
	Active   int        `json:"activeCount"`
	Leased   int        `json:"leasedCount"`
	Waiting  int        `json:"waitingCount"`
	Failing  int        `json:"failingCount"`
	More     bool       `json:"more"`
	Oldest   *int64     `json:"oldestSeconds"`   // the age of the task that was queued first; nil when there is none
	Growth   *float64   `json:"growthPerSecond"` // of activeCount; nil until it is known
	In       *float64   `json:"queuedPerSecond"` // nil unless a Gantry tells what it archived
	Out      *float64   `json:"archivedPerSecond"`
	Classes  []topClass `json:"classes"`
}

// topClass is one class of an instance.
type topClass struct {
	tasks.ClassStats
	Growth *float64 `json:"growthPerSecond"`
}

// topRunning is the Gantry that answers on the socket.
type topRunning struct {
	PID       int          `json:"pid"`
	Since     time.Time    `json:"since"`
	Ready     bool         `json:"ready"`
	Problem   string       `json:"problem,omitempty"`
	Held      int          `json:"held"`
	Running   int          `json:"running"`
	Counts    counts       `json:"counts"`
	Processes []topProcess `json:"processes"`

	of map[string]counts // by instance, or those of "" when it works on one queue
}

// counts answers what it did on a queue, one of so many that are looked at.
func (r *topRunning) counts(instance string, queues int) (c counts, known bool) {
	if c, known = r.of[""]; known {
		return c, queues == 1
	}
	c, known = r.of[instance]
	return c, known
}

// topProcess is a process in which tasks run.
type topProcess struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	State string `json:"state"`
	Tasks int    `json:"tasks"` // that it has now
}

// topOrders are the orders of the classes, by the name of what is sorted by.
var topOrders = []struct {
	name  string
	order func(a, b topClass) int
}{
	{"queued", func(a, b topClass) int { return cmp.Compare(b.Active, a.Active) }},
	{"leased", func(a, b topClass) int { return cmp.Compare(b.Leased, a.Leased) }},
	{"waiting", func(a, b topClass) int { return cmp.Compare(b.Waiting, a.Waiting) }},
	{"failing", func(a, b topClass) int { return cmp.Compare(b.Failing, a.Failing) }},
	{"class", func(a, b topClass) int { return 0 }},
}

// rates answers the view with how much it changed since an earlier one.
func (v topView) rates(before topView) topView {
	passed := v.At.Sub(before.At).Seconds()
	if passed <= 0 {
		return v
	}
	growth := func(now, then int, bounded bool) *float64 {
		if bounded {
			return nil
		}
		return new(float64(now-then) / passed)
	}
	queues := slices.Clone(v.Queues)
	for i, q := range queues {
		b := slices.IndexFunc(before.Queues, func(b topQueue) bool { return b.Instance == q.Instance })
		if b < 0 || q.Problem != "" || before.Queues[b].Problem != "" {
			continue
		}
		earlier := before.Queues[b]
		queues[i].Growth = growth(q.Active, earlier.Active, q.More || earlier.More)
		queues[i].Classes = slices.Clone(q.Classes)
		for j, class := range q.Classes {
			var then topClass // none of it was there
			if b := slices.IndexFunc(earlier.Classes, func(b topClass) bool { return b.Class == class.Class }); b >= 0 {
				then = earlier.Classes[b]
			}
			queues[i].Classes[j].Growth = growth(class.Active, then.Active, class.More || then.More)
		}
	}
	v.Queues = queues
	if now, then := v.Running, before.Running; now != nil && then != nil && now.PID == then.PID && now.Since.Equal(then.Since) {
		for i := range queues {
			queues[i].flow(now, then, passed, len(queues))
		}
	}
	return v
}

// flow says how many tasks came and went, where a Gantry tells what it archived.
func (q *topQueue) flow(now, then *topRunning, seconds float64, queues int) {
	after, known := now.counts(q.Instance, queues)
	before, knew := then.counts(q.Instance, queues)
	if !known || !knew {
		return
	}
	q.Out = new(float64(after.archived()-before.archived()) / seconds)
	if q.Growth != nil {
		q.In = new(max(0, *q.Growth+*q.Out)) // the two were not counted at the same moment
	}
}

func (c counts) archived() int { return c.Succeeded + c.Failed }

// draw makes a picture of the view, of at most so many lines of so many
// characters. Nothing in it does anything to a terminal but show itself, unless
// colour is set, and then only what this program wrote.
func (v topView) draw(width, height, order int, colour bool) []string {
	p := picture{width: width, colour: colour}
	head, foot := "gantry top  "+v.At.Format("15:04:05"), ""
	if v.Every > 0 {
		head += fmt.Sprintf("  every %v", v.Every)
		foot = fmt.Sprintf("q quits, s sorts (by %s)", topOrders[order].name)
	}
	p.line(bold, head)
	v.drawRunning(&p)
	p.line("", "")
	p.table(v.queueRows())
	header, classes := v.classRows(order)
	if room := max(0, height-len(p.lines)-3); len(classes) > room { // an empty line, the header, the foot
		foot += fmt.Sprintf("; %s not shown", plural(len(classes)-room, "class is", "classes are"))
		classes = classes[:room]
	}
	p.line("", "")
	if len(classes) > 0 {
		p.table(header, classes)
	}
	p.lines = p.lines[:min(len(p.lines), max(0, height-1))]
	if foot != "" {
		p.line("", foot)
	}
	return p.lines
}

func (v topView) drawRunning(p *picture) {
	if v.Problem != "" {
		p.line(red, v.Problem)
	}
	r := v.Running
	if r == nil {
		return
	}
	state := "ready"
	if !r.Ready {
		state = "not ready"
	}
	p.line("", fmt.Sprintf("gantry run, process %d, %s for %s: %d running, %d held; so far %d succeeded, %d failed, %d lost",
		r.PID, state, age(r.Since, v.At), r.Running, r.Held, r.Counts.Succeeded, r.Counts.Failed, r.Counts.Lost))
	if r.Problem != "" {
		p.line(red, r.Problem)
	}
	for _, one := range r.Processes {
		p.line("", fmt.Sprintf("  %s, process %d, %s, %s", one.Name, one.PID, one.State, plural(one.Tasks, "task", "tasks")))
	}
}

func (v topView) queueRows() (header []string, rows [][]string) {
	header = []string{"QUEUE", "QUEUED", "LEASED", "WAITING", "FAILING", rate("IN/S"), rate("OUT/S"), rate("GROWTH/S"), "OLDEST"}
	for _, q := range v.Queues {
		if q.Problem != "" {
			rows = append(rows, []string{plain(q.Instance), "", "", "", "", rate("-"), rate("-"), rate("-"), plain(q.Problem)})
			continue
		}
		oldest := "-"
		if q.Oldest != nil {
			oldest = span(*q.Oldest)
		}
		rows = append(rows, append(countCells(q.Instance, q.Active, q.Leased, q.Waiting, q.Failing, q.More), perSecond(q.In), perSecond(q.Out), perSecond(q.Growth), oldest))
	}
	return header, rows
}

func (v topView) classRows(order int) (header []string, rows [][]string) {
	header = []string{"CLASS", "QUEUED", "LEASED", "WAITING", "FAILING", rate("GROWTH/S")}
	type line struct {
		topClass
		instance string
	}
	var lines []line
	for _, q := range v.Queues {
		for _, class := range q.Classes {
			lines = append(lines, line{class, q.Instance})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(topOrders[order].order(a.topClass, b.topClass), cmp.Compare(a.Class, b.Class), cmp.Compare(a.instance, b.instance))
	})
	if len(v.Queues) > 1 {
		header = append(header, "QUEUE")
	}
	for _, l := range lines {
		cells := append(countCells(l.Class, l.Active, l.Leased, l.Waiting, l.Failing, l.More), perSecond(l.Growth))
		if len(v.Queues) > 1 {
			cells = append(cells, plain(l.instance))
		}
		rows = append(rows, cells)
	}
	return header, rows
}

func countCells(name string, active, leased, waiting, failing int, more bool) []string {
	cells := []string{plain(name)}
	for _, n := range []int{active, leased, waiting, failing} {
		text := strconv.Itoa(n)
		if more {
			text += "+"
		}
		cells = append(cells, text)
	}
	return cells
}

func perSecond(n *float64) string {
	if n == nil {
		return rate("-")
	}
	return rate(strconv.FormatFloat(*n, 'f', 1, 64))
}

// rate aligns what is in a column of rates, which has no numbers yet at first.
func rate(text string) string { return fmt.Sprintf("%9s", text) }

// picture gathers the lines of a screen.
type picture struct {
	width  int
	colour bool
	lines  []string
}

// line adds a line in a style, cut to the width.
func (p *picture) line(style, text string) {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, plain(text))
	if utf8.RuneCountInString(text) > p.width {
		runes := []rune(text)
		text = string(runes[:max(0, p.width-1)]) + "…"
	}
	if p.colour && style != "" && text != "" {
		text = style + text + reset
	}
	p.lines = append(p.lines, text)
}

// table adds rows under a header.
func (p *picture) table(header []string, rows [][]string) {
	var text bytes.Buffer
	printer := newPrinter(&text, false)
	printer.table(header, rows)
	_ = printer.flush() // to memory
	for i, line := range strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n") {
		style := ""
		if i == 0 {
			style = bold
		}
		p.line(style, line)
	}
}
