package embedded

import (
	"strings"

	"github.com/phorge-gantry/gantry/tasks"
)

// leftBy reports whether an active row stands where this very settlement puts
// it. Only owners with a fence tell whose settlement it was.
func leftBy(s tasks.Settlement, at tasks.Place) bool {
	switch s.Outcome.Kind {
	case tasks.Retry, tasks.Crashed, tasks.Released:
	default:
		return false
	}
	left := s.Lease.PlaceAfter(s.Outcome, 0).Owner
	return left != nil && at.Owner != nil && *left == *at.Owner && strings.Contains(*left, ":")
}

// archivedBy reports whether this very settlement archived a row: the archive
// keeps the owner, and an owner is unique to one lease.
func archivedBy(s tasks.Settlement, r *tasks.Record) bool {
	result, archives := s.Outcome.Kind.Result()
	return archives && r != nil && r.Owner != nil && *r.Owner == s.Lease.Owner && r.Result == result
}
