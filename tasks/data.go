package tasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting is how deep json_decode goes with its default depth of 512; what
// lies deeper it reads as null.
const maxNesting = 511

// CheckData answers why PHP's json_decode would read data as null, or nil.
func CheckData(data []byte) error {
	switch {
	case !utf8.Valid(data):
		return errors.New("data is not UTF-8; encode binary values, for example as base64")
	case !json.Valid(data):
		return errors.New("data is not valid JSON")
	}
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			n, ok := escape(data[i:])
			if !ok {
				return fmt.Errorf("data has the escape %s, half of a surrogate pair, which PHP cannot read", data[i:i+6])
			}
			i += n - 1
		case inString:
		case c == '[' || c == '{':
			if depth++; depth > maxNesting {
				return fmt.Errorf("data is nested more than %d deep, which PHP does not read", maxNesting)
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return nil
}

// escape answers how long the escape is that valid JSON begins with; a
// surrogate pair is one. ok is false when it is half of a pair.
func escape(data []byte) (n int, ok bool) {
	first := codeUnit(data)
	switch {
	case first < 0:
		return 2, true
	case !utf16.IsSurrogate(first):
		return 6, true
	}
	return 12, utf16.DecodeRune(first, codeUnit(data[6:])) != utf8.RuneError
}

// codeUnit answers the value of the \uXXXX that data begins with, -1 when it
// begins with something else.
func codeUnit(data []byte) rune {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(unit)
}
