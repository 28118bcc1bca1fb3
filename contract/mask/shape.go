package mask

import (
	"math/bits"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Characters that encoders treat in their own way are kept apart; of the others
// only the class is.
const special = "\"'\\/<>&%+=?#@\t\n\r\x00"

// classes are the classes of characters, and what stands in for each.
var classes = []struct {
	name string
	has  func(r rune) bool
	pick []rune
}{
	{"lower", func(r rune) bool { return 'a' <= r && r <= 'z' }, []rune("abcdefghijklmnopqrstuvwxyz")},
	{"upper", func(r rune) bool { return 'A' <= r && r <= 'Z' }, []rune("ABCDEFGHIJKLMNOPQRSTUVWXYZ")},
	{"digit", func(r rune) bool { return '0' <= r && r <= '9' }, []rune("0123456789")},
	{"two bytes", func(r rune) bool { return r >= 0x80 && r < 0x800 }, []rune("àáâãäåæçèéêëìíîïðñòóôõö")},
	{"three bytes", func(r rune) bool { return r >= 0x800 && r < 0x10000 }, []rune("一丁七万丈三上下不与丐丑专且世丘丙业丛东丝丞両")},
	{"four bytes", func(r rune) bool { return r >= 0x10000 }, []rune("😀😁😂😃😄😅😆😇😈😉😊😋😌😍😎😏")},
	{"space", func(r rune) bool { return r == ' ' }, []rune(" ")},
	{"punctuation", func(r rune) bool { return r > ' ' && r < 0x7f && !strings.ContainsRune(special, r) && !telling(r) }, []rune("-")},
	{"control", func(r rune) bool { return r < ' ' && !strings.ContainsRune(special, r) || r == 0x7f }, []rune("\x01")},
}

// invalid stands for bytes that are no UTF-8.
const invalid = "\xff"

var hexadecimal = regexp.MustCompile(`\A(?:[0-9a-f]{8,}|[0-9A-F]{8,})\z`)

// isHex reports whether a text is a number in hexadecimal, and not in decimal.
func isHex(text string) bool {
	return hexadecimal.MatchString(text) && strings.ContainsAny(text, "abcdefABCDEF")
}

// isToken reports whether a text looks like what a machine made: a key, a
// digest. Its length means something and says nothing about a person.
func isToken(text string) bool {
	digit, letter := false, false
	for i := range len(text) {
		switch c := text[i]; {
		case '0' <= c && c <= '9':
			digit = true
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			letter = true
		case !strings.ContainsRune("-_=+/.", rune(c)):
			return false
		}
	}
	return digit && letter && len(text) >= 16
}

// shaped makes a text of the shape of another. n is the number that the stand-in
// is drawn by; try makes another, and in the end a longer one, when that is
// taken.
func shaped(like string, n, try int) string {
	draw := rand.New(rand.NewPCG(uint64(n), uint64(try)))
	pick := func(from []rune) string { return string(from[draw.IntN(len(from))]) }
	length := utf8.RuneCountInString(like)
	longer := try / 20
	if isHex(like) {
		return fill("", length+longer, func() string {
			return pick([]rune(map[bool]string{true: "0123456789ABCDEF", false: "0123456789abcdef"}[strings.ToLower(like) != like]))
		})
	}
	if !isToken(like) {
		length = 1 << (bits.Len(uint(length)) - 1) // the class of a length is the power of two that it reaches
	}
	length += longer

	var must []string // one of each class, so that it is there
	var from []rune   // the letters that the rest is drawn from
	for _, class := range classes {
		if strings.ContainsFunc(like, func(r rune) bool { return r != utf8.RuneError && class.has(r) }) {
			must = append(must, pick(class.pick))
			if len(class.pick) > 1 {
				from = append(from, class.pick...)
			}
		}
	}
	for _, r := range special {
		if strings.ContainsRune(like, r) {
			must = append(must, string(r))
		}
	}
	if !utf8.ValidString(like) {
		must = append(must, invalid)
	}
	slices.Reverse(must) // the odd ones are there even where not all can be
	if len(from) == 0 {
		from = classes[0].pick
	}
	return arrange(must, length, func() string { return pick(from) })
}

// arrange puts what must be there between letters, spread over the length.
func arrange(must []string, length int, letter func() string) string {
	must = must[:min(len(must), length)]
	gap := length / max(len(must), 1)
	var text strings.Builder
	for i := range length {
		if which := i / gap; i%gap == gap-1 && which < len(must) {
			text.WriteString(must[which])
		} else {
			text.WriteString(letter())
		}
	}
	return text.String()
}

func fill(text string, length int, letter func() string) string {
	for range length {
		text += letter()
	}
	return text
}
