package pool

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

const (
	maxLine   = 4096 // bytes of a printed line that reach the log
	maxPerSec = 200  // lines a second that reach the log
	maxTail   = 3000 // bytes kept of the last lines, for the reason of a crash
)

// traced is a line of PhutilErrorHandler::formatStacktrace. What was thrown is
// logged in front of it, so the trace is for those who debug.
var traced = regexp.MustCompile(`^  #\d+ |(^|, )arcanist\([^)]*\)(, |$)`)

// output turns what a process prints, on stdout and stderr alike, into log
// lines that name the task at work. A process can print as much as it likes: it
// is never blocked, and what is above the limits is counted instead of logged.
type output struct {
	log  zerolog.Logger // set before anything is read
	now  func() time.Time
	file *os.File
	pipe syscall.RawConn

	mu      sync.Mutex // held from a read until what was read is dealt with
	task    int64      // 0 between tasks
	line    []byte     // without its end so far
	cut     int        // bytes that the line had beyond maxLine
	tail    [][]byte   // the last lines of this task
	tailed  int        // their bytes
	second  time.Time  // start of the second being counted
	logged  int        // lines logged in it
	dropped int        // lines dropped in it
	buffer  [8192]byte
}

func newOutput(file *os.File, now func() time.Time) (*output, error) {
	pipe, err := file.SyscallConn()
	return &output{now: now, file: file, pipe: pipe}, err
}

// pump logs what comes until the output is closed.
func (o *output) pump() {
	_ = o.pipe.Read(func(fd uintptr) (ended bool) {
		for {
			n, ended := o.read(fd)
			if n == 0 {
				return ended
			}
		}
	})
}

// begin says that what is printed from now on is of a task.
func (o *output) begin(task int64) {
	o.end()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.task = task
	o.tail, o.tailed = nil, 0
}

// end says that the task has ended. What it printed is in the pipe, where the
// pump may not have seen it yet.
func (o *output) end() {
	_ = o.pipe.Control(func(fd uintptr) {
		for left := unread(fd); left > 0; {
			n, _ := o.read(fd)
			if n == 0 {
				break
			}
			left -= n
		}
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.line) > 0 {
		o.endLine()
	}
	o.task = 0
}

// close takes what a dead process printed last, and ends the pump.
func (o *output) close() {
	o.end()
	o.mu.Lock()
	o.reportDropped()
	o.mu.Unlock()
	o.file.Close()
}

// read takes what is in the pipe and answers how much that was; ended when
// nothing will come any more.
func (o *output) read(fd uintptr) (n int, ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		n, err := unix.Read(int(fd), o.buffer[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, !errors.Is(err, unix.EAGAIN)
		}
		o.take(o.buffer[:n])
		return n, n == 0
	}
}

// take splits what was printed into lines. It needs the lock.
func (o *output) take(printed []byte) {
	for len(printed) > 0 {
		line, rest, whole := bytes.Cut(printed, []byte("\n"))
		room := min(len(line), maxLine-len(o.line))
		o.line = append(o.line, line[:room]...)
		o.cut += len(line) - room
		if whole {
			o.endLine()
		}
		printed = rest
	}
}

// endLine logs the line that was gathered. It needs the lock.
func (o *output) endLine() {
	line := bytes.TrimRight(o.line, "\r")
	o.remember(line)
	if now := o.now(); now.Sub(o.second) >= time.Second {
		o.reportDropped()
		o.second, o.logged = now, 0
	}
	event := o.log.Info()
	if traced.Match(line) {
		event = o.log.Debug()
	}
	switch {
	case len(bytes.TrimSpace(line)) == 0 && o.cut == 0, !event.Enabled():
	case o.logged == maxPerSec:
		o.dropped++
	default:
		o.logged++
		if o.task != 0 {
			event = event.Int64("id", o.task)
		}
		if o.cut > 0 {
			event = event.Int("cut_bytes", o.cut)
		}
		event.Msg(valid(line))
	}
	o.line, o.cut = o.line[:0], 0
}

func (o *output) remember(line []byte) {
	if len(line) == 0 {
		return
	}
	line = bytes.Clone(line[:min(len(line), maxTail)])
	o.tail = append(o.tail, line)
	for o.tailed += len(line); o.tailed > maxTail; o.tail = o.tail[1:] {
		o.tailed -= len(o.tail[0])
	}
}

func (o *output) reportDropped() {
	if o.dropped > 0 {
		o.log.Warn().Int("lines", o.dropped).Msg("PHP printed more than is logged; lines were dropped")
		o.dropped = 0
	}
}

// lastLines answers what was printed last, for people.
func (o *output) lastLines() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.tail) == 0 {
		return ""
	}
	return "; it printed last:\n" + valid(bytes.Join(o.tail, []byte("\n")))
}

func valid(text []byte) string { return strings.ToValidUTF8(string(text), "\uFFFD") }
