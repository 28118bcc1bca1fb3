package feed

import (
	"slices"
	"strconv"
	"strings"

	"github.com/phorge-gantry/gantry/plugins/phpenc"
)

// quietEdges are the edge types that never show in the feed, even with a
// comment: PhabricatorObjectMentionsObject and -MentionedByObject,
// DifferentialRevisionDependsOnRevision and -DependedOnByRevision,
// ManiphestTaskHasCommit, DiffusionCommitHasTask, DiffusionCommitHasRevision
// and DifferentialRevisionHasCommit.
var quietEdges = map[int64]bool{52: true, 51: true, 5: true, 6: true, 1: true, 2: true, 32: true, 31: true}

// hiddenEdges are those that do not show anywhere: ManiphestTaskHasDuplicateTask
// and -IsDuplicateOfTask, PhabricatorMuted and -MutedBy,
// PhabricatorProjectSilenced.
var hiddenEdges = map[int64]bool{62: true, 63: true, 67: true, 68: true, 61: true}

// edge answers the type of the edges that a transaction changed; 0 when it is
// not known.
func (x *transaction) edge() int64 {
	switch kind := x.metadata.Get("edge:type").(type) {
	case int64:
		return kind
	case string:
		number, _ := strconv.ParseInt(kind, 10, 64)
		return number
	}
	return 0
}

// isEdges reports whether a value is what PhabricatorEdgeChangeRecord reads:
// nothing, PHIDs, or, as in older rows, maps with the PHID in "dst".
func isEdges(value any) bool {
	array, ok := value.(phpenc.Array)
	if !ok {
		return value == nil
	}
	if isTexts(array) {
		return true
	}
	for _, pair := range array {
		edge, _ := pair.Value.(phpenc.Array)
		if _, ok := edge.Get("dst").(string); !ok {
			return false
		}
	}
	return true
}

func isTexts(array phpenc.Array) bool {
	return !slices.ContainsFunc(array, func(pair phpenc.Pair) bool {
		_, ok := pair.Value.(string)
		return !ok
	})
}

// subscribes answers whether a change of subscribers is hidden: somebody
// subscribed alone, or an application, mostly Herald, did it.
func (x *transaction) subscribes() (hidden, ok bool) {
	before, okBefore := x.before.(phpenc.Array)
	after, okAfter := x.after.(phpenc.Array)
	if !okBefore || !okAfter || !isTexts(before) || !isTexts(after) {
		return false, false
	}
	changed := append(missing(before, after), missing(after, before)...)
	if len(changed) == 1 && changed[0] == x.author {
		return true, true
	}
	return strings.HasPrefix(x.author, "PHID-APPS-"), true
}

// missing answers the values of an array that the other has not.
func missing(array, other phpenc.Array) (values []any) {
	for _, pair := range array {
		if !slices.ContainsFunc(other, func(o phpenc.Pair) bool { return o.Value == pair.Value }) {
			values = append(values, pair.Value)
		}
	}
	return values
}

// staysInColumns answers whether all moves are within a column, which hides
// them: ManiphestTaskColumnTransaction.
func (x *transaction) staysInColumns() (hidden, ok bool) {
	moves, ok := x.after.(phpenc.Array)
	if !ok {
		return false, false
	}
	hidden = true
	for _, pair := range moves {
		move, _ := pair.Value.(phpenc.Array)
		to, okTo := move.Get("columnPHID").(string)
		from, okFrom := move.Get("fromColumnPHIDs").(phpenc.Array)
		if !okTo || !okFrom || !isTexts(from) {
			return false, false
		}
		if !slices.ContainsFunc(from, func(column phpenc.Pair) bool { return column.Value == to }) {
			hidden = false
		}
	}
	return hidden, true
}

// rendersHandles reports whether a transaction is of a type whose title always
// holds a handle that the transaction renders itself, and has the values that
// such a title needs.
func (x *transaction) rendersHandles() bool {
	before, _ := x.before.(phpenc.Array)
	after, _ := x.after.(phpenc.Array)
	switch x.kind {
	case "mergedinto":
		_, ok := x.after.(string)
		return ok
	case "mergedfrom":
		return len(after) > 0 && isTexts(after)
	case "unblock":
		return len(before) > 0 && len(after) > 0 && isTexts(before) && isTexts(after)
	case "core:columns":
		return !slices.ContainsFunc(after, func(pair phpenc.Pair) bool {
			move, _ := pair.Value.(phpenc.Array)
			_, ok := move.Get("boardPHID").(string)
			return !ok
		})
	}
	return false
}
