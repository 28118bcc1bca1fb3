package plugins

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// statement is what must be known about a statement of SQL before it is run.
type statement struct {
	verb       string   // its first word, in capitals
	names      []string // its words and names, in small letters
	qualifiers []string // those of them with a dot behind
	calls      []string // those of them with a parenthesis behind, with it
}

func (s statement) writes() bool { return slices.Contains(writing, s.verb) }

// What a handler may run. Everything else would commit what is open (DDL, LOCK
// TABLES, SET autocommit), which a shadow run could not undo, or leave the
// connection changed for the task that uses it next.
var (
	reading = []string{"SELECT", "SHOW", "WITH"}
	writing = []string{"INSERT", "UPDATE", "DELETE", "REPLACE"}
)

// What a handler may not use within them, and why. A connection is shared with
// the tasks that come after, and keeps variables and locks for them: the
// driver does not reset it.
const (
	noLocks     = "its connection is shared with other tasks; use Task.Lock"
	noSequences = "a sequence is not rolled back, and its connection is shared with other tasks; use AUTO_INCREMENT"
	noFiles     = "it is for a file of the server"
	noVariables = "its connection is shared with other tasks; use variables of Go and pass arguments"
)

var functions = map[string]string{
	"GET_LOCK": noLocks, "RELEASE_LOCK": noLocks, "RELEASE_ALL_LOCKS": noLocks,
	"NEXTVAL": noSequences, "SETVAL": noSequences, "LASTVAL": noSequences,
	"LOAD_FILE": noFiles,
}

// words stand in a statement without quotes and mean that.
var words = map[string]string{
	"OUTFILE": noFiles, "DUMPFILE": noFiles,
	"NEXT VALUE FOR": noSequences, "PREVIOUS VALUE FOR": noSequences,
	"@": noVariables,
}

// permit reads a statement and answers why a handler may not run it.
func permit(query string, verbs []string) (statement, error) {
	tokens, err := scan(query)
	if err != nil {
		return statement{}, err
	}
	s := read(tokens)
	switch {
	case slices.Contains(verbs, s.verb):
	case slices.Contains(writing, s.verb):
		return s, fmt.Errorf("%s writes; use Exec for it", s.verb)
	case slices.Contains(reading, s.verb):
		return s, fmt.Errorf("%s reads; use Query or QueryRow for it", s.verb)
	default:
		return s, fmt.Errorf("a handler may not run %q: only %s and %s; use Task.Transact for a transaction, Task.Lock for a lock, and change tables and settings elsewhere",
			s.verb, strings.Join(reading, ", "), strings.Join(writing, ", "))
	}
	return s, forbidden(s.verb, tokens)
}

// forbidden answers what a statement must not have in it, whatever it is.
func forbidden(verb string, tokens []token) error {
	depth := 0
	for i, t := range tokens {
		next, word := "", strings.ToUpper(t.text)
		if i+1 < len(tokens) {
			next = tokens[i+1].text
		}
		phrase := word
		if (word == "NEXT" || word == "PREVIOUS") && i+2 < len(tokens) {
			phrase += strings.ToUpper(" " + next + " " + tokens[i+2].text)
		}
		switch {
		case t.text == "(":
			depth++
		case t.text == ")":
			depth--
		case next == "(" && functions[word] != "":
			return fmt.Errorf("a handler may not call %s: %s", word, functions[word])
		case !t.quoted && words[phrase] != "":
			return fmt.Errorf("a handler may not use %s: %s", phrase, words[phrase])
		case verb == "WITH" && depth == 0 && !t.quoted && next != "(" && slices.Contains(writing, word) &&
			!strings.EqualFold(tokens[i-1].text, "FOR"):
			return fmt.Errorf("a handler may not run WITH and %s; write the %s without WITH", word, word)
		}
	}
	return nil
}

func read(tokens []token) statement {
	var s statement
	for i, t := range tokens {
		if !t.name {
			continue
		}
		if s.verb == "" {
			s.verb = strings.ToUpper(t.text)
		}
		name := strings.ToLower(t.text)
		s.names = append(s.names, name)
		if i+1 == len(tokens) || tokens[i+1].quoted {
			continue
		}
		switch tokens[i+1].text {
		case ".":
			s.qualifiers = append(s.qualifiers, name)
		case "(":
			s.calls = append(s.calls, name+"(")
		}
	}
	return s
}

// token is a word, a name, or a sign that is neither. Texts and comments are
// no tokens.
type token struct {
	text   string
	name   bool
	quoted bool // a name in backticks
}

// scan takes a statement apart.
func scan(query string) ([]token, error) {
	var tokens []token
	for i := 0; i < len(query); {
		switch c := query[i]; {
		case c == '\'' || c == '"':
			i = quoteEnd(query, i)
		case c == '`':
			end := quoteEnd(query, i)
			name := strings.Trim(query[i:end], "`")
			tokens = append(tokens, token{text: strings.ReplaceAll(name, "``", "`"), name: true, quoted: true})
			i = end
		case strings.HasPrefix(query[i:], "/*"):
			if strings.HasPrefix(query[i:], "/*!") || strings.HasPrefix(query[i:], "/*M!") {
				return nil, errors.New("a handler may not run what stands in a /*! comment, which only some servers read")
			}
			i = commentEnd(query, i, "*/")
		case c == '#', strings.HasPrefix(query[i:], "--") && (i+2 == len(query) || query[i+2] <= ' '):
			i = commentEnd(query, i, "\n")
		case partOfName(c):
			end := i
			for end < len(query) && partOfName(query[end]) {
				end++
			}
			tokens = append(tokens, token{text: query[i:end], name: true})
			i = end
		default:
			if c > ' ' {
				tokens = append(tokens, token{text: query[i : i+1]})
			}
			i++
		}
	}
	return tokens, nil
}

func partOfName(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// quoteEnd answers where what begins with a quote ends. A doubled quote ends
// it and begins it again, which comes to the same.
func quoteEnd(query string, i int) int {
	quote := query[i]
	for i++; i < len(query); i++ {
		switch {
		case query[i] == '\\' && quote != '`':
			i++
		case query[i] != quote:
		case i+1 < len(query) && query[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return len(query)
}

func commentEnd(query string, i int, end string) int {
	length := strings.Index(query[i+len(end):], end)
	if length < 0 {
		return len(query)
	}
	return i + len(end) + length + len(end)
}
