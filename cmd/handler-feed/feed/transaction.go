package feed

import (
	"context"
	"strings"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/phpenc"
)

// transaction answers to a ManiphestTransaction.
type transaction struct {
	phid, object, author string
	kind                 string // transactionType
	before, after        any    // oldValue, newValue
	metadata             phpenc.Array
	comment              string

	hidden bool
}

const transactionsOf = `SELECT x.phid, x.objectPHID, x.authorPHID, x.transactionType, x.oldValue, x.newValue, x.metadata,
	x.commentPHID IS NOT NULL AND x.commentPHID <> '', c.content
FROM maniphest_transaction x LEFT JOIN maniphest_transaction_comment c ON c.phid = x.commentPHID
WHERE x.phid IN (?`

// loadTransactions reads transactions and decides which of them are hidden.
// Those that this package does not know how to show are declined.
func loadTransactions(ctx context.Context, task *plugins.Task, phids []string) (map[string]*transaction, error) {
	args := make([]any, len(phids))
	for i, phid := range phids {
		args[i] = phid
	}
	rows, err := task.DB("maniphest").Query(ctx, transactionsOf+strings.Repeat(", ?", len(args)-1)+")", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]*transaction{}
	for rows.Next() {
		x := &transaction{}
		var before, after, metadata []byte
		var commented bool
		var content *string
		if err := rows.Scan(&x.phid, &x.object, &x.author, &x.kind, &before, &after, &metadata, &commented, &content); err != nil {
			return nil, err
		}
		x.before, x.after = phpenc.DecodeJSON(before), phpenc.DecodeJSON(after)
		var ok bool
		if x.metadata, ok = phpenc.DecodeJSON(metadata).(phpenc.Array); !ok {
			return nil, plugins.Decline("a transaction has no metadata")
		}
		if commented && content != nil {
			x.comment = *content
		}
		if x.kind == "core:comment" && content == nil {
			return nil, plugins.Decline("a comment is not there")
		}
		if x.hidden, ok = x.hides(); !ok {
			return nil, plugins.Decline("a transaction of type " + x.kind + " is not one that is known here")
		}
		found[x.phid] = x
	}
	return found, rows.Err()
}

// flag answers what a key of the metadata says.
func (x *transaction) flag(key string) bool { return phpenc.Truth(x.metadata.Get(key)) }

// hides answers what shouldHideForFeed of ManiphestTransaction does; not ok
// when it or the loading of its handles needs more than the row, or would fail
// on it.
func (x *transaction) hides() (hidden, ok bool) {
	hiddenByType, ok := x.hidesByType()
	switch {
	case !ok:
		return false, false
	case hiddenByType:
		return true, true
	case strings.Trim(x.comment, " \n\r\t\v\x00") != "":
		return false, true
	case x.kind == "core:file" && x.flag("attach.implicit"):
		return true, true
	case x.flag("core.create") && (x.flag("core.default") || !x.tellsOfCreation() && empty(x.before)):
		return true, true
	case x.isPolicy() && !x.flag("core.create"):
		return x.before == nil, true
	case x.kind == "core:edge":
		return hiddenEdges[x.edge()], true
	}
	return false, true
}

// hidesByType answers what hides a transaction whether or not it comes with a
// comment; not ok for types and values that are not known.
func (x *transaction) hidesByType() (hidden, ok bool) {
	switch x.kind {
	case "title", "description", "priority", "reassign", "mergedfrom", "mergedinto", "cover-image", "core:create", "core:comment":
		return false, true
	case "core:view-policy", "core:edit-policy", "core:join-policy", "core:interact-policy", "core:space":
		return false, isTextOrNull(x.before) && isTextOrNull(x.after)
	case "subpriority", "parent", "token:give", "core:mfa":
		return true, true
	case "status":
		return x.before == nil, true
	case "core:subtype":
		return x.flag("core.create"), true
	case "unblock":
		return x.flag("blocker.new"), true
	case "core:columns":
		return x.staysInColumns()
	case "core:subscribers":
		return x.subscribes()
	case "core:file":
		_, before := x.before.(phpenc.Array)
		_, after := x.after.(phpenc.Array)
		return false, before && after
	case "core:edge":
		return quietEdges[x.edge()], x.edge() != 0 && isEdges(x.before) && isEdges(x.after)
	}
	return false, false
}

// isPolicy reports whether a change from nothing is one of the old way to
// create an object.
func (x *transaction) isPolicy() bool {
	return strings.HasSuffix(x.kind, "-policy") || x.kind == "core:space"
}

// tellsOfCreation reports whether a transaction that creates an object shows
// although there was nothing before.
func (x *transaction) tellsOfCreation() bool { return x.kind == "core:create" || x.isPolicy() }

// empty reports whether a value before a creation is not worth a word.
func empty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case int64:
		return value == 0
	case phpenc.Array:
		return len(value) == 0
	}
	return false
}

func isTextOrNull(value any) bool {
	_, isText := value.(string)
	return isText || value == nil
}
