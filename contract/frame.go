package contract

import (
	"fmt"
	"strings"
)

// Frame is what one run of a case knows beside its observation: when it ran, and
// what its placeholders stood for. All epochs are by the database's clock.
type Frame struct {
	// Case is the case that runs, as LoadFolder answered it: not expanded.
	Case Case

	// Start is the epoch that {{now}} stands for. Leased is read just before the
	// task is executed, Settling just before the outcome is settled, and End when
	// nothing of the run goes on any more. Leased 0 is Start.
	Start, Leased, Settling, End int64

	// Owner is the leaseOwner of the case's task while it runs.
	Owner string

	// Lease is how long the task was leased for, in seconds: what it required, if
	// that was more.
	Lease int64

	// Receivers are the addresses, 127.0.0.1:PORT, by name, and Closed is one
	// where nobody listens.
	Receivers map[string]string
	Closed    string

	// TaskID and DataID are the ids of the case's task and of its data row.
	TaskID, DataID int64

	// Known reports whether a PHID stood in the databases before the run. Those
	// in the case itself are known anyway. Nil: no others are.
	Known func(phid string) bool
}

// Expand answers the case with what its placeholders stand for, as a copy. It
// needs Case, Start, Receivers and Closed. An error names the text of the case
// that holds an unknown placeholder.
func (f Frame) Expand() (Case, error) {
	var first error
	expanded := f.Case.mapTexts(func(at path, text string) string {
		value, err := expand(text, f.means)
		if err != nil && first == nil {
			first = fmt.Errorf("case %s: %s: %w", f.Case.Name, at, err)
		}
		return value
	})
	return expanded, first
}

// says reports whether a text stands somewhere in the case.
func (c Case) says(part string) bool {
	found := false
	c.mapTexts(func(_ path, text string) string {
		found = found || strings.Contains(text, part)
		return text
	})
	return found
}
