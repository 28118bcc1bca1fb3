package phpenc

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrNotFinite says that a number is infinite, which JSON does not know. PHP
// reads 1e999 as such a number and cannot write it again.
var ErrNotFinite = errors.New("an infinite number is no JSON")

// EncodeJSON answers what json_encode($value) does, and with it
// phutil_json_encode: one line, slashes as \/, everything beyond ASCII as
// \uXXXX, an array whose keys are 0, 1, 2, ... in order as a list, and so []
// when it is empty. The error is ErrNotFinite.
func EncodeJSON(value any) (string, error) {
	var w jsonWriter
	w.value(value)
	if w.infinite {
		return "", ErrNotFinite
	}
	return w.String(), nil
}

// EncodeFormatted answers what PhutilJSON::encodeFormatted does: as EncodeJSON,
// but with two spaces for each level, plain slashes and a newline at the end.
// An infinite number is left out, as there. The outermost value is an object.
func EncodeFormatted(object Array) string {
	w := jsonWriter{plainSlashes: true}
	w.formattedObject(object, 0)
	return w.String() + "\n"
}

// jsonWriter writes values as json_encode does.
type jsonWriter struct {
	strings.Builder
	plainSlashes bool
	infinite     bool // a number was not written
}

func (w *jsonWriter) value(value any) {
	array, ok := value.(Array)
	if !ok {
		w.scalar(value)
		return
	}
	list := array.isList()
	brackets := "{}"
	if list {
		brackets = "[]"
	}
	w.WriteByte(brackets[0])
	for i, pair := range array {
		if i > 0 {
			w.WriteByte(',')
		}
		if !list {
			w.text(pair.Key)
			w.WriteByte(':')
		}
		w.value(pair.Value)
	}
	w.WriteByte(brackets[1])
}

func (w *jsonWriter) formattedObject(object Array, depth int) {
	if len(object) == 0 {
		w.WriteString("{}")
		return
	}
	w.formattedItems("{", object, "}", depth, func(pair Pair) {
		w.text(pair.Key)
		w.WriteString(": ")
		w.formattedValue(pair.Value, depth+1)
	})
}

func (w *jsonWriter) formattedValue(value any, depth int) {
	array, ok := value.(Array)
	switch {
	case !ok:
		w.scalar(value)
	case len(array) == 0:
		w.WriteString("[]")
	case array.isList():
		w.formattedItems("[", array, "]", depth, func(pair Pair) { w.formattedValue(pair.Value, depth+1) })
	default:
		w.formattedObject(array, depth)
	}
}

func (w *jsonWriter) formattedItems(begin string, items Array, end string, depth int, write func(Pair)) {
	indent := strings.Repeat("  ", depth)
	w.WriteString(begin)
	for i, pair := range items {
		if i > 0 {
			w.WriteByte(',')
		}
		w.WriteString("\n  " + indent)
		write(pair)
	}
	w.WriteString("\n" + indent + end)
}

// isList reports whether the keys are 0, 1, 2, ... in this order.
func (a Array) isList() bool {
	for i, pair := range a {
		if pair.Key != strconv.Itoa(i) {
			return false
		}
	}
	return true
}

func (w *jsonWriter) scalar(value any) {
	switch value := value.(type) {
	case nil:
		w.WriteString("null")
	case bool:
		w.WriteString(strconv.FormatBool(value))
	case int64:
		w.WriteString(strconv.FormatInt(value, 10))
	case float64:
		w.float(value)
	case string:
		w.text(value)
	}
}

// float writes a float by as many digits as read back as the same number, which
// is PHP's serialize_precision of -1.
func (w *jsonWriter) float(f float64) {
	if math.IsInf(f, 0) {
		w.infinite = true
		return
	}
	text := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, power, _ := strings.Cut(text, "e")
	exponent, _ := strconv.Atoi(power)
	if exponent >= -4 && exponent < 17 {
		w.WriteString(strconv.FormatFloat(f, 'f', -1, 64))
		return
	}
	w.WriteString(mantissa)
	if !strings.Contains(mantissa, ".") {
		w.WriteString(".0")
	}
	w.WriteByte('e')
	if exponent > 0 {
		w.WriteByte('+')
	}
	w.WriteString(strconv.Itoa(exponent))
}

// text writes a string. It is UTF-8: it came through DecodeJSON or from a
// column that holds nothing else.
func (w *jsonWriter) text(text string) {
	w.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\' || r == '/' && !w.plainSlashes:
			w.WriteByte('\\')
			w.WriteRune(r)
		case r == '\b':
			w.WriteString(`\b`)
		case r == '\f':
			w.WriteString(`\f`)
		case r == '\n':
			w.WriteString(`\n`)
		case r == '\r':
			w.WriteString(`\r`)
		case r == '\t':
			w.WriteString(`\t`)
		case ' ' <= r && r < utf8.RuneSelf:
			w.WriteRune(r)
		case r <= 0xffff:
			w.unit(r)
		default:
			high, low := utf16.EncodeRune(r)
			w.unit(high)
			w.unit(low)
		}
	}
	w.WriteByte('"')
}

func (w *jsonWriter) unit(unit rune) {
	hex := strconv.FormatInt(int64(unit), 16)
	w.WriteString(`\u` + "0000"[len(hex):] + hex)
}
