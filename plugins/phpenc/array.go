package phpenc

import (
	"slices"
	"strconv"
)

// With answers the array with a key set: in its place when it is there, and at
// the end when it is not.
func (a Array) With(key string, value any) Array {
	a = slices.Clone(a)
	for i := range a {
		if a[i].Key == key {
			a[i].Value = value
			return a
		}
	}
	return append(a, Pair{key, value})
}

// List answers the array of values with the keys 0, 1, 2, ...
func List[V any](values []V) Array {
	list := make(Array, len(values))
	for i, value := range values {
		list[i] = Pair{strconv.Itoa(i), value}
	}
	return list
}
