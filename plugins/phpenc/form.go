package phpenc

import (
	"math"
	"strconv"
	"strings"
)

// HTTPBuildQuery answers what http_build_query() does with the separator "&":
// keys in brackets, null and empty arrays left out, true as 1 and false as 0, and
// text encoded as in forms (RFC 1738), with "+" for a space.
func HTTPBuildQuery(data Array) string {
	var query strings.Builder
	for _, pair := range data {
		buildQuery(&query, urlencode(pair.Key), pair.Value)
	}
	return query.String()
}

func buildQuery(query *strings.Builder, key string, value any) {
	var text string
	switch value := value.(type) {
	case nil:
		return
	case Array:
		for _, pair := range value {
			buildQuery(query, key+"%5B"+urlencode(pair.Key)+"%5D", pair.Value)
		}
		return
	case bool:
		text = "0"
		if value {
			text = "1"
		}
	case int64:
		text = strconv.FormatInt(value, 10)
	case float64:
		text = urlencode(formatFloat(value))
	case string:
		text = urlencode(value)
	}
	if query.Len() > 0 {
		query.WriteByte('&')
	}
	query.WriteString(key)
	query.WriteByte('=')
	query.WriteString(text)
}

// urlencode answers what urlencode() does. Unlike url.QueryEscape it encodes
// the tilde.
func urlencode(text string) string {
	const hex = "0123456789ABCDEF"
	var encoded strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
			encoded.WriteByte(c)
		case c == ' ':
			encoded.WriteByte('+')
		default:
			encoded.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return encoded.String()
}

// precision is how many digits of a float PHP prints: its ini setting of that
// name, which is 14 unless an administrator changed it.
const precision = 14

// formatFloat prints a float as PHP converts it to text for http_build_query:
// by "%.*G", which rounds to the precision, where json_encode and echo print
// what reads back as the same number.
func formatFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "INF"
	case math.IsInf(f, -1):
		return "-INF"
	case f == 0:
		if math.Signbit(f) {
			return "-0"
		}
		return "0"
	}
	mantissa, power, _ := strings.Cut(strconv.FormatFloat(f, 'e', precision-1, 64), "e")
	exponent, _ := strconv.Atoi(power)
	if exponent >= precision || exponent < -4 {
		mantissa = strings.TrimRight(mantissa, "0")
		if strings.HasSuffix(mantissa, ".") {
			mantissa += "0"
		}
		sign := "+"
		if exponent < 0 {
			sign, exponent = "-", -exponent
		}
		return mantissa + "E" + sign + strconv.Itoa(exponent)
	}
	fixed := strconv.FormatFloat(f, 'f', precision-1-exponent, 64)
	if strings.Contains(fixed, ".") {
		fixed = strings.TrimRight(strings.TrimRight(fixed, "0"), ".")
	}
	return fixed
}
