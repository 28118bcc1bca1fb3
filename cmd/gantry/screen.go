package main

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// screen is a terminal that shows one picture at a time, and gives keys one by
// one. What stood on it comes back when it is left.
type screen struct {
	in, out *os.File
	before  *unix.Termios
	leave   sync.Once
}

const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l" // another picture, without a cursor, and lines are cut
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	restOfLine  = "\x1b[K"
	restOfAll   = "\x1b[J"
)

// openScreen takes a terminal over. Ctrl-C is a signal as ever; Ctrl-Z does
// nothing, since it would leave the shell with this picture.
func openScreen(in, out *os.File) (*screen, error) {
	before, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("read the settings of the terminal: %w", err)
	}
	s := &screen{in: in, out: out, before: before}
	keys := *before
	keys.Lflag &^= unix.ICANON | unix.ECHO
	keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 1, 0
	keys.Cc[unix.VSUSP] = 0
	if err := unix.IoctlSetTermios(int(in.Fd()), unix.TCSETS, &keys); err != nil {
		return nil, fmt.Errorf("set the terminal: %w", err)
	}
	_, err = out.WriteString(enterScreen)
	if err != nil {
		s.close()
	}
	return s, err
}

// close gives the terminal back. It may be called again.
func (s *screen) close() {
	s.leave.Do(func() {
		_, _ = s.out.WriteString(leaveScreen) // it may be gone
		_ = unix.IoctlSetTermios(int(s.in.Fd()), unix.TCSETS, s.before)
	})
}

// size answers how many characters are in a line, and how many lines there are.
func (s *screen) size() (width, height int) {
	size, err := unix.IoctlGetWinsize(int(s.out.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return 80, 24 // a serial line does not know
	}
	return int(size.Col), int(size.Row)
}

// show replaces the picture.
func (s *screen) show(lines []string) error {
	_, err := s.out.WriteString(home + strings.Join(lines, restOfLine+"\r\n") + restOfLine + restOfAll)
	return err
}

// keys sends each byte that is typed, until there is nobody to type.
func (s *screen) keys(typed chan<- byte) {
	var key [1]byte
	for {
		if n, err := s.in.Read(key[:]); n == 0 || err != nil {
			close(typed)
			return
		}
		typed <- key[0]
	}
}
