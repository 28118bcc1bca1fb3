package mask

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

// keep is what is kept on request.
type keep struct {
	names    map[string]bool
	patterns []pattern
	used     map[string]bool
}

type pattern struct {
	written string
	*regexp.Regexp
}

func parseKeeps(keeps []string) (keep, error) {
	k := keep{names: map[string]bool{}, used: map[string]bool{}}
	for _, text := range keeps {
		if len(text) > 1 && strings.HasPrefix(text, "/") && strings.HasSuffix(text, "/") {
			compiled, err := regexp.Compile(`\A(?:` + text[1:len(text)-1] + `)\z`)
			if err != nil {
				return k, fmt.Errorf("the pattern %s cannot be read: %w", text, err)
			}
			k.patterns = append(k.patterns, pattern{text, compiled})
			continue
		}
		if strings.Trim(text, " ./") == "" {
			return k, fmt.Errorf("%q names no data key, no column and no /pattern/", text)
		}
		k.names[text] = true
	}
	return k, nil
}

// place is where a value stands: data.parameters.retry, or
// herald.herald_webhook.name, and what is in the JSON of a column behind it.
type place string

// in answers the place of a key. A dot of the key is none of the place: what is
// kept under one name must not be kept under the end of another.
func (p place) in(key string) place {
	return p + "." + place(strings.ReplaceAll(key, ".", "\x00"))
}

func (p place) name() string { return string(p[strings.LastIndexByte(string(p), '.')+1:]) }

// wants reports whether everything at a place is to be kept: it, or what it is
// in, was named. The data of a task as a whole is no place that can be named.
func (k keep) wants(at place) bool {
	for strings.Contains(string(at), ".") {
		for _, name := range []string{at.name(), string(at), strings.TrimPrefix(string(at), "data.")} {
			if k.names[name] {
				k.used[name] = true
				return true
			}
		}
		at = at[:strings.LastIndexByte(string(at), '.')]
	}
	return false
}

// likes reports whether a text is to be kept wherever it stands.
func (k keep) likes(text string) bool {
	for _, p := range k.patterns {
		if p.MatchString(text) {
			k.used[p.written] = true
			return true
		}
	}
	return false
}

// braces begin a placeholder, in whatever text of a case they stand.
const braces = "{{"

// kept reports whether a text says nothing about anybody: a word or a name that
// stands in Phorge's source, or what separates words.
func kept(text string) bool {
	if strings.Contains(text, braces) {
		return false
	}
	return words[text] || names[text] || isSeparator(text)
}

// isSeparator reports whether a text is white space or a little punctuation. More
// of it can be a password.
func isSeparator(text string) bool {
	if len(strings.TrimSpace(text)) > 4 || strings.Contains(text, braces) {
		return false
	}
	return !strings.ContainsFunc(text, telling)
}

// telling reports whether a character can be part of a word.
func telling(r rune) bool {
	return r >= 0x80 || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r < ' ' && r != '\n' && r != '\t'
}

// identifier is what the keys of a record look like.
var identifier = regexp.MustCompile(`\A[A-Za-z_][A-Za-z0-9_]{0,63}\z`)

// names are those that stand in Phorge's source and in its rows: of classes, of
// keys, of types of transactions, of policies, and of kinds of PHIDs. They are
// listed and not told by their shape: what somebody composes of the same words
// can say who it is. A test of the live tier writes the list.
//
//go:embed names.txt
var namesText string

var names = wordSet(namesText)

// words are values and keys that stand in Phorge's source.
var words = wordSet(`
true false yes no on off null none all any
queued sent failed okay fail hook http timeout never forever silent disabled enabled firehose uri object
open closed active inactive archived resolved wontfix invalid spite duplicate draft published accepted abandoned
public users admin no-one obj
web conduit email import storage herald cli bulk daemon
git hg svn GET POST PUT HEAD DELETE
http https ssh file utf-8 UTF-8 application/json text/plain
low normal high unbreak wish needs-triage
create comment edge subscribers title status priority description reassign projectcolumn space
action actions branch body callsign class commit content context count data date default depth epoch error errors fields
filters flags format headers hash host id ids index isNew key keys kind limit line list map message metadata method
mode name new newValue number object objects old oldValue options order owner parameters params parent paths phid
phids policy properties query reason request response result results retry rules rows secure silent size source
spec state strict subject target targets task template test text token transactions trigger triggers type types
undo uris url urls user value values version via view xactions
`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		set[word] = true
	}
	return set
}
