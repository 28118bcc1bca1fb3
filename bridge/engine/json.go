package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// PHP has one type for lists and maps, so an empty one may be written either
// way. Its numbers become floats and strings easily.

// Unmarshal decodes a JSON object, which may come as [] when it is empty. Any
// other value is an error that quotes its beginning, null included.
func Unmarshal(text []byte, into any) error {
	switch {
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")):
		return json.Unmarshal(text, into)
	case isEmpty(text, "[", "]"):
		return nil
	}
	return fmt.Errorf("it is %.32q, not an object", text)
}

// List is a JSON list, which may come as {} when it is empty, or null.
type List[T any] []T

// UnmarshalJSON decodes a list.
func (l *List[T]) UnmarshalJSON(text []byte) error {
	if isEmpty(text, "{", "}") {
		*l = nil
		return nil
	}
	return json.Unmarshal(text, (*[]T)(l))
}

// isEmpty reports whether there is nothing but space between two brackets.
func isEmpty(text []byte, open, end string) bool {
	inner, opened := bytes.CutPrefix(bytes.TrimSpace(text), []byte(open))
	inner, ended := bytes.CutSuffix(inner, []byte(end))
	return opened && ended && len(bytes.TrimSpace(inner)) == 0
}

// Integer is a whole number that may come as 13, 13.0 or "13". Null is 0.
type Integer int64

// UnmarshalJSON decodes a whole number. Fractions, and what is past 64 bits or,
// with a decimal point or an exponent, past 2^53, is refused.
func (n *Integer) UnmarshalJSON(text []byte) error {
	number := string(text)
	if unquoted, ok := strings.CutPrefix(number, `"`); ok {
		number = strings.TrimSuffix(unquoted, `"`)
	} else if number == "null" {
		*n = 0
		return nil
	}
	if whole, err := strconv.ParseInt(number, 10, 64); err == nil {
		*n = Integer(whole)
		return nil
	}
	// Up to 2^53 a float is exact.
	if float, err := strconv.ParseFloat(number, 64); err == nil && float == math.Trunc(float) && math.Abs(float) <= 1<<53 {
		*n = Integer(float)
		return nil
	}
	return fmt.Errorf("%.40s is no whole number", text)
}

// Times answers n units, or the longest time there is in its direction.
func (n Integer) Times(unit time.Duration) time.Duration {
	most := Integer(math.MaxInt64 / unit)
	return time.Duration(max(-most, min(n, most))) * unit
}
