package contract

// Frame is what one run of a case knows beside its observation: when it ran, and
// what its placeholders stood for.
type Frame struct {
	// Case is the case that runs, as LoadFolder answered it.
	Case Case

	// Start is the epoch, by the database's clock, from which {{now}} counts.
	// Settling is read just before the outcome is settled, and End after it and
	// whatever else belongs to the run.
	Start, Settling, End int64

	// Lease is how long the task was leased for, in seconds.
	Lease int64

	// Receivers are the addresses, 127.0.0.1:PORT, by name, and Closed is one
	// where nobody listens.
	Receivers map[string]string
	Closed    string

	// TaskID is the id of the case's task.
	TaskID int64

	// Known reports whether a PHID stood in the databases before the run. Those
	// of the case itself are known anyway. Nil: no others are.
	Known func(phid string) bool
}

// Expand answers the case with what its placeholders stand for. It needs Case,
// Start, Receivers and Closed.
func (f Frame) Expand() (Case, error) { return f.Case, nil }

// Normalise gives what chance and the clock decided common names, so that two
// runs of one case can be compared.
func Normalise(raw Observation, frame Frame) Observation { return raw }
