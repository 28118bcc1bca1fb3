package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Values of task data, as PHP 8 treats them.

// decode reads task data as json_decode and idx do: a list has no string keys,
// and what is no array at all is an error. So is data that is not JSON, which
// json_decode reads as null.
func decode(data []byte) (map[string]any, error) {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		value = nil
	}
	switch value := value.(type) {
	case map[string]any:
		return value, nil
	case []any:
		return nil, nil
	}
	return nil, fmt.Errorf("the task's data must be a map, and is %.80q", data)
}

// truthy converts to bool.
func truthy(value any) bool {
	switch v := value.(type) {
	case bool:
		return v
	case float64:
		return v != 0
	case string:
		return v != "" && v != "0"
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return false
}

func isBool(value any) bool {
	_, ok := value.(bool)
	return ok
}

// numeric matches what is_numeric accepts.
var numeric = regexp.MustCompile(`^[ \t\n\r\v\f]*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?[ \t\n\r\v\f]*$`)

// number converts for arithmetic. Arrays and strings that are not numeric are
// errors, also strings that only begin with a number: Phorge makes an
// exception of PHP's warning.
func number(value any) (float64, error) {
	switch v := value.(type) {
	case nil:
		return 0, nil
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	case float64:
		return v, nil
	case string:
		if numeric.MatchString(v) {
			n, _ := strconv.ParseFloat(strings.TrimSpace(v), 64) // ±Inf when out of range
			return n, nil
		}
	}
	return 0, fmt.Errorf("%.80v is not a number", value)
}

// exceeds is `count > limit`.
func exceeds(count int, limit any) bool {
	switch v := limit.(type) {
	case bool:
		return count != 0 && !v
	case []any, map[string]any:
		return false // an array is greater than any number
	case string:
		if !numeric.MatchString(v) {
			return strconv.Itoa(count) > v
		}
	}
	n, err := number(limit)
	return err == nil && float64(count) > n
}

// looselyEqual is `value == text`, for a text that is neither empty nor "0"
// nor numeric.
func looselyEqual(value any, text string) bool {
	return value == true || value == text
}

// seconds converts a number of seconds. More than a lease column could hold is
// an error.
func seconds(value any) (time.Duration, error) {
	n, err := number(value)
	if err != nil {
		return 0, err
	}
	if math.Abs(n) > math.MaxUint32 {
		return 0, errors.New("too many seconds")
	}
	return time.Duration(n * float64(time.Second)), nil
}
