package feed

import (
	"testing"

	"github.com/phorge-gantry/gantry/plugins/phpenc"
)

func TestWhichTransactionsHideFromTheFeed(t *testing.T) {
	const alice = "PHID-USER-alice"
	for _, c := range []struct {
		name, kind, before, after, metadata, comment string
		author                                       string
		want                                         string // hidden, shown, unknown
	}{
		{name: "a change", kind: "title", before: `"a"`, after: `"b"`, want: "shown"},
		{name: "a value that a creation sets", kind: "title", before: `null`, metadata: `{"core.create":true}`, want: "hidden"},
		{name: "a flag that a creation leaves off", kind: "title", before: `0`, metadata: `{"core.create":1}`, want: "hidden"},
		{name: "a value that a creation changes", kind: "title", before: `"form"`, metadata: `{"core.create":true}`, want: "shown"},
		{name: "the default of the form", kind: "core:edit-policy", before: `"users"`, metadata: `{"core.create":true,"core.default":true}`, want: "hidden"},
		{name: "a policy that a creation sets", kind: "core:view-policy", before: `null`, metadata: `{"core.create":true}`, want: "shown"},
		{name: "a policy from nothing, of the old way", kind: "core:view-policy", before: `null`, want: "hidden"},
		{name: "a creation", kind: "core:create", before: `null`, metadata: `{"core.create":true}`, want: "shown"},
		{name: "what has a comment", kind: "title", before: `null`, metadata: `{"core.create":true}`, comment: "why", want: "shown"},
		{name: "what has a comment of blanks", kind: "title", before: `null`, metadata: `{"core.create":true}`, comment: " \n", want: "hidden"},
		{name: "a status from nothing, even with a comment", kind: "status", before: `null`, comment: "why", want: "hidden"},
		{name: "who subscribes alone", kind: "core:subscribers", before: `[]`, after: `["` + alice + `"]`, want: "hidden"},
		{name: "who unsubscribes alone", kind: "core:subscribers", before: `["x","` + alice + `"]`, after: `["x"]`, want: "hidden"},
		{name: "who brings others", kind: "core:subscribers", before: `[]`, after: `["x"]`, want: "shown"},
		{name: "whom Herald subscribes", kind: "core:subscribers", before: `[]`, after: `["x"]`, author: "PHID-APPS-Herald", want: "hidden"},
		{name: "subscribers that are no list", kind: "core:subscribers", before: `null`, after: `["x"]`, want: "unknown"},
		{name: "a mention", kind: "core:edge", before: `[]`, after: `["x"]`, metadata: `{"edge:type":"52"}`, comment: "why", want: "hidden"},
		{name: "a mute", kind: "core:edge", before: `[]`, after: `["x"]`, metadata: `{"edge:type":67}`, want: "hidden"},
		{name: "a mute with a comment", kind: "core:edge", before: `[]`, after: `["x"]`, metadata: `{"edge:type":67}`, comment: "why", want: "shown"},
		{name: "a project", kind: "core:edge", before: `[]`, after: `{"x":{"dst":"x"}}`, metadata: `{"edge:type":41}`, want: "shown"},
		{name: "an edge of no type", kind: "core:edge", before: `[]`, after: `["x"]`, want: "unknown"},
		{name: "a file that a text mentions", kind: "core:file", before: `[]`, after: `{"x":"reference"}`, metadata: `{"attach.implicit":true}`, want: "hidden"},
		{name: "a file", kind: "core:file", before: `[]`, after: `{"x":"attach"}`, want: "shown"},
		{name: "a move to a column", kind: "core:columns", after: `[{"columnPHID":"b","fromColumnPHIDs":["a"]}]`, want: "shown"},
		{name: "a move within a column", kind: "core:columns", after: `[{"columnPHID":"a","fromColumnPHIDs":["a"]}]`, want: "hidden"},
		{name: "a subtask that was created", kind: "unblock", metadata: `{"blocker.new":"1"}`, want: "hidden"},
		{name: "a subtask that was closed", kind: "unblock", metadata: `{"blocker.new":"0"}`, want: "shown"},
		{name: "a signature", kind: "core:mfa", comment: "why", want: "hidden"},
		{name: "a token", kind: "token:give", want: "hidden"},
		{name: "points, which an option shows", kind: "points", want: "unknown"},
		{name: "a custom field", kind: "core:customfield", want: "unknown"},
		{name: "a type of long ago", kind: "ccs", want: "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &transaction{
				kind: c.kind, author: alice, comment: c.comment,
				before: phpenc.DecodeJSON([]byte(c.before)), after: phpenc.DecodeJSON([]byte(c.after)),
			}
			if c.author != "" {
				x.author = c.author
			}
			x.metadata, _ = phpenc.DecodeJSON([]byte(c.metadata)).(phpenc.Array)
			got := "unknown"
			if hidden, ok := x.hides(); ok && hidden {
				got = "hidden"
			} else if ok {
				got = "shown"
			}
			if got != c.want {
				t.Errorf("%s; want %s", got, c.want)
			}
		})
	}
}
