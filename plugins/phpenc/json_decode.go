package phpenc

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how many arrays within each other json_decode of PHP 8.2 reads at
// its default depth of 512.
const maxDepth = 511

// DecodeJSON answers what json_decode($data, true) does, which is nil for null
// and for everything that it cannot read. Integers beyond 64 bits become
// floats. Of keys that are there twice the last value counts, at the place of
// the first.
func DecodeJSON(data []byte) any {
	d := decoder{data: data}
	value := d.value()
	d.space()
	if d.failed || d.at < len(d.data) {
		return nil
	}
	return value
}

// decoder reads JSON as PHP's own scanner does. Unlike encoding/json that takes
// no text with half a surrogate pair or with bytes that are not UTF-8, and no
// deep nesting.
type decoder struct {
	data   []byte
	at     int
	depth  int
	failed bool
}

func (d *decoder) fail() any {
	d.failed, d.at = true, len(d.data)
	return nil
}

func (d *decoder) space() {
	for d.at < len(d.data) {
		switch d.data[d.at] {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return
		}
	}
}

// peek answers the next byte, or 0 at the end.
func (d *decoder) peek() byte {
	if d.at < len(d.data) {
		return d.data[d.at]
	}
	return 0
}

// take steps over a byte if it is the next one.
func (d *decoder) take(c byte) bool {
	if d.at < len(d.data) && d.data[d.at] == c {
		d.at++
		return true
	}
	return false
}

func (d *decoder) value() any {
	d.space()
	switch c := d.peek(); {
	case c == '{':
		return d.array('}', d.member)
	case c == '[':
		return d.array(']', d.element)
	case c == '"':
		return d.text()
	case c == '-' || isDigit(c):
		return d.number()
	case d.word("true"):
		return true
	case d.word("false"):
		return false
	case d.word("null"):
		return nil
	}
	return d.fail()
}

func (d *decoder) word(word string) bool {
	found := bytes.HasPrefix(d.data[d.at:], []byte(word))
	if found {
		d.at += len(word)
	}
	return found
}

// array reads a list or an object; item reads one of its values into it.
func (d *decoder) array(end byte, item func(*entries)) any {
	if d.depth++; d.depth > maxDepth {
		return d.fail()
	}
	defer func() { d.depth-- }()
	d.at++
	read := entries{pairs: Array{}}
	if d.space(); d.take(end) {
		return read.pairs
	}
	for {
		item(&read)
		if d.space(); d.take(end) {
			return read.pairs
		}
		if d.failed || !d.take(',') {
			return d.fail()
		}
	}
}

func (d *decoder) element(read *entries) {
	read.pairs = append(read.pairs, Pair{strconv.Itoa(len(read.pairs)), d.value()})
}

func (d *decoder) member(read *entries) {
	d.space()
	if d.peek() != '"' {
		d.fail()
		return
	}
	key := d.text()
	if d.space(); !d.take(':') {
		d.fail()
		return
	}
	read.set(key, d.value())
}

// entries are the pairs of an array that is being read.
type entries struct {
	pairs Array
	index map[string]int
}

func (e *entries) set(key string, value any) {
	if i, ok := e.index[key]; ok {
		e.pairs[i].Value = value
		return
	}
	if e.index == nil {
		e.index = map[string]int{}
	}
	e.index[key] = len(e.pairs)
	e.pairs = append(e.pairs, Pair{key, value})
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// digits steps over digits, of which there must be one.
func (d *decoder) digits() bool {
	from := d.at
	for isDigit(d.peek()) {
		d.at++
	}
	return d.at > from
}

func (d *decoder) number() any {
	from, whole := d.at, true
	d.take('-')
	if !d.take('0') && !d.digits() {
		return d.fail()
	}
	if d.peek() == '.' {
		d.at++
		if whole = false; !d.digits() {
			return d.fail()
		}
	}
	if d.peek()|0x20 == 'e' {
		d.at++
		if !d.take('+') {
			d.take('-')
		}
		if whole = false; !d.digits() {
			return d.fail()
		}
	}
	text := string(d.data[from:d.at])
	if whole {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i
		}
	}
	f, _ := strconv.ParseFloat(text, 64) // out of range it is an infinity, as in PHP
	return f
}

func (d *decoder) text() string {
	d.at++
	var text []byte
	for d.at < len(d.data) {
		switch c := d.data[d.at]; {
		case c == '"':
			d.at++
			return string(text)
		case c == '\\':
			d.at++
			text = d.escape(text)
		case c < 0x20:
			d.fail()
		default:
			r, size := utf8.DecodeRune(d.data[d.at:])
			if r == utf8.RuneError && size == 1 {
				d.fail()
				break
			}
			text = append(text, d.data[d.at:d.at+size]...)
			d.at += size
		}
	}
	d.fail()
	return ""
}

// escape appends what stands behind a backslash.
func (d *decoder) escape(text []byte) []byte {
	c := d.peek()
	d.at++
	switch c {
	case '"', '\\', '/':
		return append(text, c)
	case 'b':
		return append(text, '\b')
	case 'f':
		return append(text, '\f')
	case 'n':
		return append(text, '\n')
	case 'r':
		return append(text, '\r')
	case 't':
		return append(text, '\t')
	case 'u':
		r := d.unit()
		if utf16.IsSurrogate(r) {
			if !d.take('\\') || !d.take('u') {
				d.fail()
				return text
			}
			if r = utf16.DecodeRune(r, d.unit()); r == utf8.RuneError {
				d.fail()
			}
		}
		return utf8.AppendRune(text, r)
	}
	d.fail()
	return text
}

// unit reads the four digits of a UTF-16 code unit.
func (d *decoder) unit() rune {
	if len(d.data)-d.at < 4 {
		d.fail()
		return 0
	}
	u, err := strconv.ParseUint(string(d.data[d.at:d.at+4]), 16, 32)
	if err != nil {
		d.fail()
		return 0
	}
	d.at += 4
	return rune(u)
}
