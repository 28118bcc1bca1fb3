package storetest

import (
	"fmt"

	"github.com/phorge-gantry/gantry/tasks"
)

// row is what the checker knows of a task at one point of an order of calls.
type row struct {
	is      condition
	owner   string
	unowned bool  // leaseOwner is NULL
	expires int64 // or unknown, or never
	result  int   // of an archived row

	// doubted is the lease whose settlement made the row, when the answer of
	// that settlement says otherwise.
	doubted string
}

type condition string

const (
	absent   condition = "not queued"
	active   condition = "active"
	archived condition = "archived"

	// wild: anything may have become of the row.
	wild condition = "anywhere"
)

const (
	unknown = -1 // an epoch that the history does not tell
	never   = -2 // leaseExpires is NULL
)

// someStranger is the owner of a lease whose call was never answered.
const someStranger = "a lease that no answer names"

func (r row) String() string {
	switch {
	case r.is == archived:
		return fmt.Sprintf("archived with result %d under %s", r.result, r.owner)
	case r.is == active && r.unowned:
		return fmt.Sprintf("active without owner until %d", r.expires)
	case r.is == active:
		return fmt.Sprintf("active under %s until %d", r.owner, r.expires)
	}
	return string(r.is)
}

func placed(p tasks.Place) row {
	r := row{is: active, unowned: p.Owner == nil, expires: never}
	if p.Owner != nil {
		r.owner = *p.Owner
	}
	if p.Expires != nil {
		r.expires = *p.Expires
	}
	return r
}

// place is the inverse of placed, for a row whose expiry is known.
func (r row) place() tasks.Place {
	var p tasks.Place
	if !r.unowned {
		p.Owner = &r.owner
	}
	if r.expires != never {
		p.Expires = &r.expires
	}
	return p
}

func (r row) heldBy(owner string) bool { return r.is == active && !r.unowned && r.owner == owner }
