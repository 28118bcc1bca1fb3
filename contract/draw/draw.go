// Package draw has what generators of random cases have in common.
package draw

import (
	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/contract"
)

// Chance is true once in 2, 4, 8, ... times. Drawing a number would not do: rapid
// prefers the smallest and the largest.
func Chance(t *rapid.T, label string, halvings int) bool {
	for range halvings {
		if !rapid.Bool().Draw(t, label) {
			return false
		}
	}
	return true
}

// Pick answers one of some values. One that is given more than once comes more
// often.
func Pick[T any](t *rapid.T, label string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, label)
}

// Task answers a task of any priority that failed before, or not.
func Task(t *rapid.T) contract.TaskColumns {
	priority := rapid.IntRange(0, 4000).Draw(t, "priority")
	return contract.TaskColumns{FailureCount: rapid.IntRange(0, 5).Draw(t, "failureCount"), Priority: &priority}
}
