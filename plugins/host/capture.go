package host

import (
	"bufio"
	"errors"

	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	maxLine     = 4096 // bytes of a printed line that reach the log
	maxPerSec   = 200  // lines a second that reach the log
	maxTail     = 30   // last lines kept for the reason of a crash
	maxTailLine = 400  // bytes kept of each of them
)

// capture turns what a process prints into log lines. A process can print as
// much as it likes: it is never blocked, and what is above the limits is
// counted instead of logged.
type capture struct {
	log zerolog.Logger
	now func() time.Time

	printed func(line string) // Config.Printed

	mu        sync.Mutex
	second    time.Time // start of the second being counted
	logged    int       // lines logged in it
	dropped   int       // lines dropped in it
	tail      []string
	lastWords bool // the tail begins with a panic and is not pushed out any more
}

// pump logs the lines of one stream until it ends. Lines longer than maxLine
// are cut.
func (c *capture) pump(stream string, r *bufio.Reader) {
	for {
		line, cut, err := readLine(r)
		if len(line) > 0 || err == nil {
			c.line(stream, line, cut)
		}
		if err != nil {
			c.flush()
			return
		}
	}
}

// readLine reads up to the end of a line and answers at most maxLine bytes of
// it, and how many it left out.
func readLine(r *bufio.Reader) (line string, cut int, err error) {
	var kept []byte
	for {
		part, err := r.ReadSlice('\n')
		room := min(len(part), maxLine-len(kept))
		kept = append(kept, part[:room]...)
		cut += len(part) - room
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return strings.TrimRight(string(kept), "\r\n"), cut, err
	}
}

func (c *capture) line(stream, line string, cut int) {
	if c.printed != nil {
		c.printed(line)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remember(line)
	if now := c.now(); now.Sub(c.second) >= time.Second {
		c.reportDropped()
		c.second, c.logged = now, 0
	}
	if c.logged >= maxPerSec {
		c.dropped++
		return
	}
	c.logged++
	event := c.log.Info().Str("stream", stream)
	if cut > 0 {
		event = event.Int("cut_bytes", cut)
	}
	event.Msg(strings.ToValidUTF8(line, "\uFFFD"))
}

// remember keeps the last lines; once a Go process begins to panic, the first
// lines of that, because the goroutines that follow push out the message.
func (c *capture) remember(line string) {
	if !c.lastWords && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) {
		c.lastWords = true
		c.tail = c.tail[:0]
	}
	if len(c.tail) == maxTail {
		if c.lastWords {
			return
		}
		c.tail = append(c.tail[:0], c.tail[1:]...)
	}
	c.tail = append(c.tail, line[:min(len(line), maxTailLine)])
}

func (c *capture) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reportDropped()
}

func (c *capture) reportDropped() {
	if c.dropped > 0 {
		c.log.Warn().Int("lines", c.dropped).Msg("handler printed more than is logged; lines were dropped")
		c.dropped = 0
	}
}

// lastLines answers what was printed last, for the reason of a crash.
func (c *capture) lastLines() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tail) == 0 {
		return ""
	}
	return "; it printed last:\n" + strings.ToValidUTF8(strings.Join(c.tail, "\n"), "\uFFFD")
}
