package pool

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// answerPipe is the end of a pipe from which answers are read. Once its read
// deadline has passed, it still gives what is in the pipe, and then io.EOF,
// whether or not somebody else holds the other end open.
type answerPipe struct{ *os.File }

func (p answerPipe) Read(b []byte) (n int, err error) {
	if n, err = p.File.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	pipe, err := p.SyscallConn()
	if err != nil {
		return 0, err
	}
	if err := pipe.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), b) }); err != nil {
		return 0, err
	}
	if n <= 0 {
		return 0, io.EOF
	}
	return n, nil
}

// waiting answers how many bytes wait in the pipe of a file, -1 when that
// cannot be known.
func waiting(file *os.File) int {
	n := -1
	if pipe, err := file.SyscallConn(); err == nil {
		_ = pipe.Control(func(fd uintptr) { n = unread(fd) })
	}
	return n
}

// unread answers how many bytes wait in a pipe, given either end of it; -1 when
// that cannot be known.
func unread(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	if err != nil {
		return -1
	}
	return n
}
