package phpenc

// Array is an array of PHP: pairs in the order in which their keys were first
// set. A key that PHP turns into an integer ("5", never "05") is written here
// as it is printed there, so two keys are the same when their texts are.
//
// Values are nil, bool, int64, float64, string and Array, as DecodeJSON gives
// them.
type Array []Pair

// Pair is a key and its value.
type Pair struct {
	Key   string
	Value any
}

// Get answers the value of a key, and nil when there is none, as idx() does.
func (a Array) Get(key string) any {
	for _, pair := range a {
		if pair.Key == key {
			return pair.Value
		}
	}
	return nil
}

// Lookup answers the value of a key, and whether it is there.
func (a Array) Lookup(key string) (value any, ok bool) {
	for _, pair := range a {
		if pair.Key == key {
			return pair.Value, true
		}
	}
	return nil, false
}
