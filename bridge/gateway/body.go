package gateway

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errTooLong = errors.New("the body is longer than is allowed")
	errOver    = errors.New("the call is over")
)

// body is the body of a call on its way to the Phorge. The transport reads it in
// a goroutine of its own, which can outlive the call.
type body struct {
	from    io.Reader
	control *http.ResponseController
	watch   *watch
	most    int64         // 0: no limit
	stall   time.Duration // how long the caller, and the Phorge, may pause
	answer  time.Duration // how long the Phorge may take after the last byte
	linger  time.Duration // how long what is left of it is waited for

	read  atomic.Int64
	ended atomic.Bool
	done  chan struct{} // closed when it has ended

	reading sync.Mutex // held while it is read
	err     error      // why it cannot be read further

	deadline sync.Mutex // held while the deadline is set
	over     bool
}

// Read is called by the transport.
func (b *body) Read(p []byte) (n int, err error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.ended.Load() {
		return 0, io.EOF
	}
	if !b.await(time.Now().Add(b.stall)) {
		return 0, errOver
	}
	b.watch.upload(0)
	n, err = b.from.Read(p)
	if read := b.read.Add(int64(n)); b.most > 0 && read > b.most {
		n, err = 0, errTooLong
	}
	limit := b.stall
	switch err {
	case nil:
	case io.EOF:
		b.ended.Store(true)
		close(b.done)
		limit = b.answer
	default:
		b.err = err
	}
	b.watch.upload(limit)
	return n, err
}

// await sets until when the caller is waited for, unless the call is over.
func (b *body) await(until time.Time) bool {
	b.deadline.Lock()
	defer b.deadline.Unlock()
	if !b.over {
		_ = b.control.SetReadDeadline(until) // only a server that is none has no deadlines
	}
	return !b.over
}

// Close does nothing: net/http closes what it made itself.
func (b *body) Close() error { return nil }

// stop ends every Read, also one that waits for the caller. It answers whether
// the body was read whole, and why it could not be. What is left of it, net/http
// reads for a while, and then the connection must be closed.
func (b *body) stop() (whole bool, err error) {
	b.deadline.Lock()
	already := b.over
	b.over = true
	if whole = b.ended.Load(); !whole && !already {
		_ = b.control.SetReadDeadline(time.Unix(1, 0))
	}
	b.deadline.Unlock()
	b.reading.Lock()
	defer b.reading.Unlock()
	if !whole && !already {
		_ = b.control.SetReadDeadline(time.Now().Add(b.linger))
	}
	return whole, b.err
}

// nothing is the body of a call without one. Unlike http.NoBody it keeps the
// transport from repeating the call.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }
func (nothing) Close() error             { return nil }
