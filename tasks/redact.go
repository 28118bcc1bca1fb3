package tasks

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	// Up to the last @ before the host ends. A password can hold a slash that
	// nobody escaped; then there is a colon before it.
	userInfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)(?:[^\s/?#]*@|[^\s/?#@:]+:[^\s@]*@)`)

	// Parameters whose names say that their value lets somebody in.
	secretParameter = regexp.MustCompile(`(?i)([?&][^\s=&#]*(?:token|secret|passw|pwd|key|signature|auth|credential)[^\s=&#]*=)[^\s&#"'<>]+`)
)

// redact makes a reason fit to be stored and shown: without control characters,
// which a terminal would obey, without credentials in URLs, and not longer than
// so many bytes.
func redact(reason string, limit int) string {
	// Cut roughly first: a pattern over megabytes takes its time, and what it
	// replaces is never longer than the limit.
	reason = shorten(strings.ToValidUTF8(shorten(reason, 4*limit), "�"), 4*limit)
	reason = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return ' '
		}
		return r
	}, reason)
	reason = userInfo.ReplaceAllString(reason, "$1***@")
	reason = secretParameter.ReplaceAllString(reason, "$1***")
	return shorten(reason, limit)
}

// shorten cuts a text to so many bytes, at the end of a character.
func shorten(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes]
}

// clip is redact for texts whose columns are so many characters wide.
func clip(text string, characters int) string {
	text = redact(text, 4*characters)
	if runes := []rune(text); len(runes) > characters {
		return string(runes[:characters])
	}
	return text
}
