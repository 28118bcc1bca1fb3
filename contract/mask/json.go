package mask

import (
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// document masks valid JSON that stands at a place. Everything but its texts,
// keys and numbers stays as it is written: white space, order, keys that stand
// there twice, and how characters are escaped.
func (m *Masker) document(at place, text string) string {
	return (&documentMasker{m: m, in: text}).all(at)
}

// record masks the data of a task. If that is an object, then it is a record: its
// own keys are part of the program, but those of the objects in it can be names.
func (m *Masker) record(text string) string {
	object := strings.HasPrefix(strings.TrimSpace(text), "{")
	return (&documentMasker{m: m, in: text, record: object}).all("data")
}

type documentMasker struct {
	m      *Masker
	in     string
	pos    int
	out    strings.Builder
	record bool // the object that comes next is a record
}

func (d *documentMasker) all(at place) string {
	d.value(at)
	d.space()
	return d.out.String()
}

// space copies white space and what separates values.
func (d *documentMasker) space() {
	for d.pos < len(d.in) && strings.IndexByte(" \t\r\n,:", d.in[d.pos]) >= 0 {
		d.out.WriteByte(d.in[d.pos])
		d.pos++
	}
}

// next copies the byte that begins or ends an object or a list.
func (d *documentMasker) next() {
	d.out.WriteByte(d.in[d.pos])
	d.pos++
}

func (d *documentMasker) value(at place) {
	d.space()
	switch d.in[d.pos] {
	case '{':
		d.next()
		record := d.record
		d.record = false
		for d.space(); d.in[d.pos] != '}'; d.space() {
			key := d.literal()
			decoded := decode(key)
			masked := decoded
			if !record || !identifier.MatchString(decoded) {
				masked = d.m.key(at, decoded)
			}
			d.out.WriteString(encodeLike(key, decoded, masked))
			d.value(at.in(decoded))
		}
		d.next()
	case '[':
		d.next()
		for d.space(); d.in[d.pos] != ']'; d.space() {
			d.value(at)
		}
		d.next()
	case '"':
		literal := d.literal()
		decoded := decode(literal)
		d.out.WriteString(encodeLike(literal, decoded, d.m.text(at, decoded)))
	default:
		literal := d.literal()
		if literal != "true" && literal != "false" && literal != "null" {
			literal = d.m.number(at, literal)
		}
		d.out.WriteString(literal)
	}
}

// literal answers the text, number or word that begins here, as it is written.
func (d *documentMasker) literal() string {
	begin := d.pos
	if d.in[begin] != '"' {
		for d.pos < len(d.in) && strings.IndexByte(" \t\r\n,:]}", d.in[d.pos]) < 0 {
			d.pos++
		}
		return d.in[begin:d.pos]
	}
	for d.pos++; d.in[d.pos] != '"'; d.pos++ {
		if d.in[d.pos] == '\\' {
			d.pos++
		}
	}
	d.pos++
	return d.in[begin:d.pos]
}

// key masks a key of an object at a place.
func (m *Masker) key(at place, key string) string {
	if !strings.Contains(key, braces) && (m.keep.wants(at.in(key)) || m.keep.likes(key)) {
		return m.phids(key)
	}
	if kept(key) || wholeNumber.MatchString(key) && len(key) <= shortNumber {
		return key
	}
	masked := m.text("", key)
	m.note("key", masked)
	return masked
}

func decode(literal string) string {
	var text string
	if err := json.Unmarshal([]byte(literal), &text); err != nil {
		return literal // not of valid JSON
	}
	return text
}

// encodeLike writes a text as another was written: PHP escapes slashes and
// everything beyond ASCII unless it is told not to.
func encodeLike(literal, before, after string) string {
	if before == after {
		return literal
	}
	slashes := escapes(literal, '/')
	ascii := !strings.ContainsFunc(literal, func(r rune) bool { return r >= utf8.RuneSelf })
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range after {
		switch {
		case r == '"' || r == '\\' || r == '/' && slashes:
			out.WriteByte('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r >= 0x10000 && ascii:
			for _, unit := range utf16.Encode([]rune{r}) {
				writeUnit(&out, unit)
			}
		case r < ' ' || r >= utf8.RuneSelf && ascii:
			writeUnit(&out, uint16(r))
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// escapes reports whether a character is written with a backslash somewhere.
func escapes(literal string, c byte) bool {
	for i := 0; i+1 < len(literal); i++ {
		if literal[i] == '\\' {
			if i++; literal[i] == c {
				return true
			}
		}
	}
	return false
}

func writeUnit(out *strings.Builder, unit uint16) {
	const hex = "0123456789abcdef"
	out.WriteString(`\u`)
	for shift := 12; shift >= 0; shift -= 4 {
		out.WriteByte(hex[unit>>shift&15])
	}
}
