package mask

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

var (
	wholeNumber = regexp.MustCompile(`\A-?(?:0|[1-9][0-9]{0,19})\z`)

	idName = regexp.MustCompile(`(?:\A[iI][dD]|[a-z]I[Dd]|[iI]ds|[a-z]IDs|_id)\z`)

	// A word of the name, and no part of one: an update or a candidate is no time.
	timeName = regexp.MustCompile(`(?:\A(?i:epoch|date|time|timestamp|expires|since|until)|_(?:epoch|date|time|timestamp|expires|since|until)|[a-z0-9_](?:Epoch|Date|Time|Timestamp|Expires|Since|Until))(?:\z|[A-Z_])`)
)

// Numbers of up to this many digits are kept: flags, counts, HTTP statuses.
const shortNumber = 3

// number masks a number that stands at a place, as it is written in JSON.
func (m *Masker) number(at place, text string) string {
	if m.keep.wants(at) {
		return text
	}
	if !wholeNumber.MatchString(text) {
		return m.fraction(text)
	}
	digits, negative := strings.CutPrefix(text, "-")
	sign := ""
	if negative {
		sign = "-"
	}
	for _, kind := range []string{"id", "number"} { // the same number is the same wherever it stands
		if standIn, ok := m.standIns[kind+"\x00"+digits]; ok && (len(digits) > shortNumber || at.isID()) {
			m.note(kind, standIn)
			return sign + standIn
		}
	}
	if at.isID() && digits != "0" {
		return sign + m.standIn("id", digits, func(n, try int) string { return strconv.Itoa(n + try) })
	}
	if epoch, err := strconv.ParseInt(text, 10, 64); err == nil && m.isEpoch(at, epoch) {
		return m.epoch(epoch)
	}
	if len(digits) <= shortNumber {
		return text
	}
	return sign + m.standIn("number", digits, func(n, try int) string { return number(len(digits), n, try) })
}

// isID reports whether the numbers at a place are ids.
func (p place) isID() bool { return idName.MatchString(p.name()) }

// number draws a number of as many digits. It begins with 1, or 10, so that it
// fits where the other did.
func number(digits, n, try int) string {
	draw := rand.New(rand.NewPCG(uint64(n), uint64(try)))
	begin := "1"
	if digits >= 20 {
		begin = "10"
	}
	return fill(begin, digits-len(begin)+try/20, func() string { return string(rune('0' + draw.IntN(10))) })
}

// fraction masks the digits of a number that is not whole. Its exponent stays, if
// it is one that a number in use can have.
func (m *Masker) fraction(text string) string {
	mantissa, exponent := text, ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent = text[:i], text[i:]
	}
	if len(strings.TrimLeft(exponent, "eE+-")) > shortNumber {
		exponent = exponent[:1] + "99"
	}
	digits := 0
	for _, r := range mantissa {
		if '0' <= r && r <= '9' {
			digits++
		}
	}
	if digits <= shortNumber {
		return mantissa + exponent
	}
	return m.standIn("number", mantissa, func(n, try int) string {
		draw := rand.New(rand.NewPCG(uint64(n), uint64(try)))
		leading := true
		return strings.Map(func(r rune) rune {
			if r < '0' || r > '9' || leading && r == '0' { // no other digit can follow a 0 in front
				leading = leading && r == '-'
				return r
			}
			leading = false
			return rune('1' + draw.IntN(9))
		}, mantissa)
	}) + exponent
}

const (
	hour  = 3600
	years = 2 * 365 * 24 * hour
)

// isEpoch reports whether a number is a time: by its name, or because it is near
// now.
func (m *Masker) isEpoch(at place, n int64) bool {
	if n < 1_000_000_000 || n > 4_294_967_295 {
		return false
	}
	return timeName.MatchString(at.name()) || n > m.now-years && n < m.now+years
}

// epoch tells an epoch from now. Beyond an hour, what is told is the class of the
// distance: the hour, doubled as often as fits. So a number that is no time, and
// only named or as large as one, loses nearly all of its digits.
func (m *Masker) epoch(epoch int64) string {
	away := epoch - m.now
	if sign := int64(cmp.Compare(away, 0)); sign*away > hour {
		class := int64(hour)
		for 2*class <= sign*away {
			class *= 2
		}
		away = sign * class
	}
	placeholder := "{{now}}"
	if away != 0 {
		placeholder = fmt.Sprintf("{{now%+d}}", away)
	}
	m.note("epoch", placeholder)
	return placeholder
}
