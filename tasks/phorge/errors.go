package phorge

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/phorge-gantry/gantry/tasks"
)

// remedies says, for errors of the server that a person can do something
// about, what that is.
var remedies = map[uint16]string{
	1044: "this user may not use the database; grant it the rights that Phorge's own user has",
	1045: "the user or the password is wrong; Phorge's own are mysql.user and mysql.pass of `bin/config get`",
	1046: "the DSN names no database; its path is <namespace>_worker",
	1049: "there is no such database; check the namespace (storage.default-namespace) and that `bin/storage upgrade` was run",
	1054: "a table lacks a column of today's Phorge; run `bin/storage upgrade`",
	1130: "the server lets nobody in from this host; let Gantry's host in as Phorge's own",
	1142: "this user lacks a right on a table; grant it the rights that Phorge's own user has",
	1146: "the database is not a Phorge's worker database, or an unfinished one; check the namespace and run `bin/storage upgrade`",
	1665: "the server logs statements since Gantry connected (binlog_format=STATEMENT); restart Gantry, or set MIXED or ROW",
	1698: "the server does not let this user in with a password; use Phorge's own user (mysql.user)",
}

// passing are errors of the server that say nothing of the statement: the
// same statement can succeed later.
var passing = map[uint16]string{
	1021: "the disk of the server is full",
	1040: "the server has no connection left; raise max_connections or stop something else",
	1047: "the node of the cluster is not ready",
	1053: "the server is shutting down",
	1114: "a table is full",
	1203: "the user has no connection left",
	1226: "the user has used up what max_user_connections and the like allow",
	1290: "the server is read-only; use the master, or wait until it is writable",
	1317: "the statement was interrupted",
	1792: "the server is read-only; use the master, or wait until it is writable",
	1836: "the server is read-only; use the master, or wait until it is writable",
	1927: "the connection was killed",
	1969: "the statement took longer than the server allows",
	3024: "the statement took longer than the server allows",
}

// explain puts the place and, where there is one, the remedy to an error. What
// may pass wraps tasks.ErrUnavailable.
func (i *serverInfo) explain(err error) error {
	var refusal *mysql.MySQLError
	var network net.Error
	switch {
	case err == nil, errors.Is(err, tasks.ErrUnavailable), errors.Is(err, tasks.ErrTooLarge):
		return err
	case errors.As(err, &refusal):
		return i.explainRefusal(refusal, err)
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn),
		errors.Is(err, io.EOF), errors.As(err, &network):
		return fmt.Errorf("%w: cannot reach %s: %w", tasks.ErrUnavailable, i.place, err)
	}
	return fmt.Errorf("%s: %w", i.place, err)
}

func (i *serverInfo) explainRefusal(refusal *mysql.MySQLError, err error) error {
	if why, ok := passing[refusal.Number]; ok {
		return fmt.Errorf("%w: %s: %s: %w", tasks.ErrUnavailable, i.place, why, err)
	}
	// 1105 is any error that has no number of its own; such is a parameter of a
	// prepared statement that is too large.
	if refusal.Number == 1153 || refusal.Number == 1105 && strings.Contains(refusal.Message, "max_allowed_packet") {
		return fmt.Errorf("%w: %s: raise max_allowed_packet, or store the content elsewhere and queue a reference: %w", tasks.ErrTooLarge, i.place, err)
	}
	// Out of range. All other values are checked before they are written.
	if refusal.Number == 1264 && strings.Contains(refusal.Message, "'id'") {
		return fmt.Errorf("%s: the task ids that worker_activetask of lisk_counter counts are used up: set counterValue back to the highest id in use if something raised it, else widen the column id of worker_activetask and worker_archivetask: %w", i.place, err)
	}
	if remedy, ok := remedies[refusal.Number]; ok {
		return fmt.Errorf("%s: %s: %w", i.place, remedy, err)
	}
	return fmt.Errorf("%s: %w", i.place, err)
}
