package contract

// Difference is one thing in which an observation is not the wanted one.
type Difference struct {
	Field string // as outcome.kind, or changes[herald.herald_webhook 1].status.after

	// Want and Got are its values; nil where there is none, and for NULL.
	Want, Got *string
}

// Compare holds an observation of Go against the wanted one: that of PHP, or the
// declared one of a case with a deviation. Both are normalised. Of a case that
// is declined nothing is wanted but that.
func Compare(c Case, want, got Observation) []Difference { return nil }

// Shrink makes a case that differs smaller while it still does.
func Shrink(c Case, differs func(Case) bool) Case { return c }
