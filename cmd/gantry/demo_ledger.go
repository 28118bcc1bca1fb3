package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// ledger is what the processes of a demo write down for those who come after a
// kill -9: one line for each thing that happened, appended in one write. A line
// that a kill cut short lacks its semicolon, and is as if it were not there.
//
//	plan 20000;                   so many tasks for the plugin
//	began 4711;                   the process id of a demo
//	held 12 4710;                 the task was leased by a demo that is gone
//	queued 4711 go-1 500;         so many tasks, in the call with that key
//	ran 12 go 4720 4711;          the task, route, process id and that of its demo
//	ended 4711;                   everything was done, and proven
type ledger struct {
	path string
	read int64 // up to where
	torn bool  // it does not end with a line

	plan   int
	ended  bool
	demos  []int                // process ids, the last one last
	queued map[string]queuedRun // by key
	held   map[int64][]int      // by task: the demos that were killed
	ran    map[int64][]ran      // by task
	routes map[string]int       // executions
}

type queuedRun struct {
	demo, count int
}

type ran struct {
	route     string
	pid, demo int
}

func openLedger(path string) (*ledger, error) {
	l := &ledger{
		path: path, queued: map[string]queuedRun{}, held: map[int64][]int{}, ran: map[int64][]ran{}, routes: map[string]int{},
	}
	switch err := l.readOn(); {
	case errors.Is(err, fs.ErrNotExist):
		return l, nil
	case err != nil:
		return nil, err
	case l.torn:
		return l, appendTo(path, "\n")
	}
	return l, nil
}

// noteIn appends a line to the ledger at path.
func noteIn(path, format string, values ...any) error {
	return appendTo(path, fmt.Sprintf(format, values...)+";\n")
}

func appendTo(path, text string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// note appends a line and takes it up.
func (l *ledger) note(format string, values ...any) error {
	if err := noteIn(l.path, format, values...); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	return l.readOn()
}

// readOn takes up what was written since.
func (l *ledger) readOn() error {
	file, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	text := make([]byte, info.Size()-l.read)
	if _, err := file.ReadAt(text, l.read); err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1] // others write now
	l.torn = len(whole) < len(text)
	l.read += int64(len(whole))
	for line := range strings.Lines(string(whole)) {
		line, is := strings.CutSuffix(line, ";\n")
		if !is {
			continue
		}
		if err := l.take(line); err != nil {
			return fmt.Errorf("the ledger %s has a line that makes no sense (%q): %w; remove the folder to begin anew", l.path, line, err)
		}
	}
	return nil
}

func (l *ledger) take(line string) (err error) {
	word, rest, _ := strings.Cut(line, " ")
	var id int64
	var pid int
	switch word {
	case "plan":
		_, err = fmt.Sscan(rest, &l.plan)
	case "began":
		_, err = fmt.Sscan(rest, &pid)
		l.demos = append(l.demos, pid)
	case "held":
		_, err = fmt.Sscan(rest, &id, &pid)
		l.held[id] = append(l.held[id], pid)
	case "queued":
		var key string
		var run queuedRun
		_, err = fmt.Sscan(rest, &run.demo, &key, &run.count)
		l.queued[key] = run
	case "ran":
		var one ran
		_, err = fmt.Sscan(rest, &id, &one.route, &one.pid, &one.demo)
		l.ran[id] = append(l.ran[id], one)
		l.routes[one.route]++
	case "ended":
		_, err = fmt.Sscan(rest, &pid)
		l.ended = true
	default:
		err = errors.New("it begins with no word that is known")
	}
	return err
}

// executions answers how many there were.
func (l *ledger) executions() (n int) {
	for _, count := range l.routes {
		n += count
	}
	return n
}

// total answers how many tasks were queued.
func (l *ledger) total() (n int) {
	for _, run := range l.queued {
		n += run.count
	}
	return n
}
