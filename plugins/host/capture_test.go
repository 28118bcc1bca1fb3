package host

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func contains(log *harness.Buffer, text string) bool { return strings.Contains(log.String(), text) }

func TestWhatAHandlerPrintsIsLogged(t *testing.T) {
	h, log := startReady(t, Config{Manifest: manifest(t, "")})
	run(t.Context(), h, "Do", map[string]any{"do": "print", "text": "1|2|tcp|x|grpc\nwithout an end"})
	for _, text := range []string{
		fmt.Sprintf(`"plugin":"handler","pid":%d,"stream":"stdout","message":"1|2|tcp|x|grpc"`, h.List()[0].PID),
		fmt.Sprintf(`"plugin":"handler","pid":%d,"stream":"stderr","message":"1|2|tcp|x|grpc"`, h.List()[0].PID),
	} {
		eventually(t, text, func() bool { return contains(log, text) })
	}
	h.Close()
	if !contains(log, "without an end") {
		t.Errorf("the last line is lost:\n%s", log)
	}
}

func TestHugeLinesAreCutAndTasksGoOn(t *testing.T) {
	h, log := startReady(t, Config{Manifest: manifest(t, "")})
	for range 3 {
		want(t, run(t.Context(), h, "Do", map[string]any{"do": "spam", "size": 1 << 20}), tasks.Succeeded, "")
	}
	h.Close()
	if got := len(log.String()); got > 300*(maxLine+300) {
		t.Errorf("300 lines of a megabyte became %d bytes of log", got)
	}
	if !contains(log, fmt.Sprintf(`"cut_bytes":%d`, 1<<20+1-maxLine)) {
		t.Error("the log does not say that lines were cut")
	}
}

func TestLinesAboveTheRateAreCounted(t *testing.T) {
	log := &harness.Buffer{}
	now := time.Unix(0, 0)
	c := &capture{log: zerolog.New(log), now: func() time.Time { return now }}
	for range maxPerSec + 50 {
		c.line("stderr", "again", 0)
	}
	if got := strings.Count(log.String(), "again"); got != maxPerSec {
		t.Errorf("%d lines were logged in a second", got)
	}
	now = now.Add(time.Second)
	c.line("stderr", "later", 0)
	if !contains(log, `"lines":50`) || !contains(log, "later") {
		t.Errorf("the next second begins with:\n%s", log.String()[strings.LastIndex(log.String(), "again"):])
	}
}

func TestThePanicIsKeptWhenItsStackIsLong(t *testing.T) {
	c := &capture{log: zerolog.Nop(), now: time.Now}
	var printed strings.Builder
	printed.WriteString("working\npanic: boom\n")
	for i := range 1000 {
		fmt.Fprintf(&printed, "goroutine %d\n", i)
	}
	c.pump("stderr", bufio.NewReader(strings.NewReader(printed.String())))
	if got := c.lastLines(); !strings.HasPrefix(got, "; it printed last:\npanic: boom\ngoroutine 0\n") || len(got) > 2000 {
		t.Errorf("kept:\n%s", got)
	}
}
