package phorge

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-sql-driver/mysql"
	"github.com/phorge-gantry/gantry/tasks"
)

// explain wraps outages in tasks.ErrUnavailable.
func (i *serverInfo) explain(err error) error {
	var network net.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn),
		errors.Is(err, io.EOF), errors.As(err, &network):
		return fmt.Errorf("%w: %s: %w", tasks.ErrUnavailable, i.place, err)
	}
	return err
}
