package phpenc

import "strconv"

// Text answers what PHP makes of a value where it wants text, as in (string):
// null and false are empty, true is 1. An array is no text.
func Text(value any) (text string, ok bool) {
	switch value := value.(type) {
	case nil:
		return "", true
	case bool:
		if value {
			return "1", true
		}
		return "", true
	case int64:
		return strconv.FormatInt(value, 10), true
	case float64:
		return formatFloat(value), true
	case string:
		return value, true
	}
	return "", false
}

// Truth answers what PHP makes of a value where it wants true or false: false
// are null, 0, "", "0" and an empty array.
func Truth(value any) bool {
	switch value := value.(type) {
	case nil:
		return false
	case bool:
		return value
	case int64:
		return value != 0
	case float64:
		return value != 0
	case string:
		return value != "" && value != "0"
	case Array:
		return len(value) > 0
	}
	return false
}
