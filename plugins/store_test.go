package plugins_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/plugins"
)

func TestAResultMayTakeAMinuteAndFourSecondsOnceItsTaskIsCancelled(t *testing.T) {
	for _, c := range []struct{ cancelled, want time.Duration }{
		{0, 4 * time.Second},
		{10 * time.Second, 14 * time.Second},
		{58 * time.Second, time.Minute},
		{2 * time.Minute, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.cancelled)
			defer cancel()
			began := time.Now()
			err := plugins.Store(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				return fmt.Errorf("database: %w", driver.ErrBadConn)
			})
			if took := time.Since(began); took != c.want || !errors.Is(err, driver.ErrBadConn) {
				t.Errorf("cancelled after %v: %v after %v, want %v", c.cancelled, err, took, c.want)
			}
		})
	}
}

func TestAResultIsStoredAgainWhenNothingSpeaksAgainstIt(t *testing.T) {
	for _, c := range []struct {
		err   error
		again bool
	}{
		{driver.ErrBadConn, true},
		{mysql.ErrInvalidConn, true},
		{io.EOF, true},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
		{&mysql.MySQLError{Number: 1205}, true},
		{&mysql.MySQLError{Number: 1213}, true},
		{&mysql.MySQLError{Number: 1927}, true},
		{&mysql.MySQLError{Number: 1053}, true},
		{&mysql.MySQLError{Number: 1062}, false},
		{&mysql.MySQLError{Number: 1146}, false},
		{errors.New("its properties are no map"), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			err := plugins.Store(t.Context(), func(context.Context) error {
				if tries++; tries == 1 {
					return fmt.Errorf("database of herald: %w", c.err)
				}
				return nil
			})
			if again := tries == 2; again != c.again || (err == nil) != c.again {
				t.Errorf("%v: %d tries, and %v", c.err, tries, err)
			}
		})
	}
}
