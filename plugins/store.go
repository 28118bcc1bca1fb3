package plugins

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// storeTime is how long something may take to be stored.
	storeTime = time.Minute

	// storeGrace is what is left of it once the task was cancelled: less than
	// the five seconds after which Gantry kills the process.
	storeGrace = 4 * time.Second

	// storePause is how long a try that failed waits for the next one.
	storePause = 200 * time.Millisecond
)

// Store runs do, which stores the result of work that cannot be taken back: a
// call that was made is made again when nobody knows of it. So it goes on when
// ctx has ended, for four seconds, because Gantry waits five for a task that it
// cancelled. Where nobody cancels the task it may take a minute: do runs again
// after a statement that waited for the locks of others in vain, was killed, or
// lost its connection, while a server is being restarted too.
//
// The server may have written what a try that failed wanted, so do must be able
// to run twice.
func Store(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := outlast(ctx)
	defer cancel()
	for {
		err := do(ctx)
		if err == nil || !passes(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("what was done could not be stored in time: %w", err)
		case <-time.After(storePause):
		}
	}
}

// outlast answers a context that ends after storeTime, or storeGrace after ctx
// if that is sooner.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(storeGrace):
			cancel()
		case <-longer.Done():
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}

// passes reports whether an error of a database says nothing about the
// statement: its connection was lost or cannot be made, or others were in the
// way.
func passes(err error) bool {
	var server *mysql.MySQLError
	if errors.As(err, &server) {
		switch server.Number {
		case 1205, 1213, // a lock that others held for too long, a deadlock
			1317, 1927, 1969, // the statement or its connection was killed
			1040, 1053: // too many connections, the server shuts down
			return true
		}
		return false
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)
}
