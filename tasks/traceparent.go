package tasks

import "strings"

// Traceparent answers a W3C trace context as it is kept: that of version 00, 55
// characters, or "" for what is none. A later version may say more after the
// first four fields; only these are understood, and so kept.
func Traceparent(header string) string {
	const whole = 55 // 00-<32>-<16>-<2>
	if len(header) < whole || header[2] != '-' || header[35] != '-' || header[52] != '-' {
		return ""
	}
	version, trace, span, flags := header[:2], header[3:35], header[36:52], header[53:whole]
	switch {
	case !lowerHex(version + trace + span + flags), version == "ff",
		strings.Trim(trace, "0") == "", strings.Trim(span, "0") == "":
		return ""
	case version == "00":
		if len(header) > whole {
			return ""
		}
	case len(header) > whole && header[whole] != '-':
		return ""
	}
	return "00" + header[2:whole]
}

func lowerHex(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}
