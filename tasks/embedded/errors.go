package embedded

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/phorge-gantry/gantry/tasks"
)

// passing are errors after which the same call may succeed, and what a person
// can do about them.
var passing = map[int]string{
	sqlite3.SQLITE_BUSY:     "other processes were in the way",
	sqlite3.SQLITE_PROTOCOL: "other processes were in the way",
	sqlite3.SQLITE_LOCKED:   "it is locked",
	sqlite3.SQLITE_READONLY: "it cannot be written; see the owner and the mode of the file and its directory, and whether the filesystem is mounted read-only",
	sqlite3.SQLITE_FULL:     "the disk is full; make room, or keep less in the archive",
	sqlite3.SQLITE_IOERR:    "the disk reports an error; see the log of the kernel, and whether the disk is full",
	sqlite3.SQLITE_CANTOPEN: "it, or what SQLite puts beside it, cannot be opened; see the owner and the mode of the file and its directory",
	sqlite3.SQLITE_NOMEM:    "there is no memory left",
	sqlite3.SQLITE_PERM:     "this process may not use it",
}

// remedies are for errors that do not pass.
var remedies = map[int]string{
	sqlite3.SQLITE_NOTADB:  "it is no SQLite file; name another one",
	sqlite3.SQLITE_CORRUPT: "it is damaged; restore a backup, or save what is left with `sqlite3 FILE .recover`",
}

// explain puts the place and, where there is one, the remedy to an error. What
// may pass wraps tasks.ErrUnavailable.
func (s *Store) explain(err error) error {
	var refusal *sqlite.Error
	if !errors.As(err, &refusal) || errors.Is(err, tasks.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	code := refusal.Code() & 0xff
	if why, ok := passing[code]; ok {
		return fmt.Errorf("%w: queue %s: %s: %w", tasks.ErrUnavailable, s.path, why, err)
	}
	if code == sqlite3.SQLITE_TOOBIG {
		return fmt.Errorf("%w: queue %s: %w", tasks.ErrTooLarge, s.path, err)
	}
	if remedy, ok := remedies[code]; ok {
		return fmt.Errorf("queue %s: %s: %w", s.path, remedy, err)
	}
	return fmt.Errorf("queue %s: %w", s.path, err)
}

// busy reports whether other processes were in the way.
func busy(err error) bool {
	var refusal *sqlite.Error
	if !errors.As(err, &refusal) {
		return false
	}
	code := refusal.Code() & 0xff
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_PROTOCOL
}
