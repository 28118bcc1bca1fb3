package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Report is what came of the cases of a folder.
type Report struct {
	Name    string // of the folder
	Results []Result

	// Interrupted names the case in which the run was interrupted; Missing is how
	// many cases were not run for it.
	Interrupted string
	Missing     int
}

// Result is what came of one case.
type Result struct {
	Case        Case
	Differences []Difference
	Err         error // it could not be run, or there is nothing to compare with
	Duration    time.Duration
	Shrunk      *Shrunk // nil: nobody tried

	// Reasons are what the sides said of the outcome, and Printed the lines that
	// the handler printed, of a case that is not as wanted. Nothing compares them.
	Reasons []Reason
	Printed []string
}

// Shrunk is a smaller case that differs in the same way, and how it differs. It
// stands for itself: its world is whole, so it belongs into a folder without a
// world.yaml.
type Shrunk struct {
	Case        Case
	Differences []Difference
}

// InShadow begins the field of a difference between what a shadow run noted and
// what the real run sent.
const InShadow = "shadow run: "

// Reason is what a side said of the outcome of a case, and Who says it.
type Reason struct {
	Who  string `json:"who"`
	Text string `json:"text"`
}

// What Result.Status answers.
const (
	StatusEqual     = "equal"
	StatusDifferent = "different"
	StatusError     = "error"
	StatusOutdated  = "outdated"
)

// Status says in a word what came of the case: equal, different, error, or outdated
// when it is not the case that was recorded.
func (r Result) Status() string {
	switch {
	case errors.Is(r.Err, ErrChanged):
		return StatusOutdated
	case r.Err != nil:
		return StatusError
	case len(r.Differences) > 0:
		return StatusDifferent
	}
	return StatusEqual
}

// wanted names what the case was held against.
func (r Result) wanted() string {
	switch {
	case r.Case.Declines:
		return "Wanted"
	case r.Case.Deviation != nil:
		return "Declared"
	}
	return "PHP"
}

// OK reports whether every case ran, and nothing differs.
func (r Report) OK() bool { return r.Interrupted == "" && r.count(StatusEqual) == len(r.Results) }

func (r Report) count(status string) int {
	count := 0
	for _, result := range r.Results {
		if result.Status() == status {
			count++
		}
	}
	return count
}

// summary is the report in one line.
func (r Report) summary() string {
	cases := "cases"
	if len(r.Results) == 1 {
		cases = "case"
	}
	line := fmt.Sprintf("%s: %d %s, %d equal", r.Name, len(r.Results), cases, r.count(StatusEqual))
	if different := r.count(StatusDifferent); different > 0 {
		line += fmt.Sprintf(", %d different", different)
	}
	if failed := r.count(StatusError); failed > 0 {
		line += fmt.Sprintf(", %d could not run", failed)
	}
	if outdated := r.count(StatusOutdated); outdated > 0 {
		line += fmt.Sprintf(", %d changed after the record", outdated)
	}
	if r.Interrupted != "" {
		line += fmt.Sprintf("; interrupted in %s, %d not run", r.Interrupted, r.Missing)
	}
	return line
}

// JSON writes the report for a program: what was wanted, what Go did, and field
// by field where the two differ.
func (r Report) JSON(w io.Writer) error {
	type result struct {
		Case        string       `json:"case"`
		TaskClass   string       `json:"taskClass"`
		Status      string       `json:"status"`
		Wanted      string       `json:"wanted"`
		Seconds     float64      `json:"seconds"`
		Error       string       `json:"error,omitempty"`
		Differences []Difference `json:"differences"`
		Reasons     []Reason     `json:"reasons,omitempty"`
		Printed     []string     `json:"printed,omitempty"`
		Shrunk      string       `json:"shrunk,omitempty"` // YAML of a file of cases, for a folder without a world.yaml
		ShrunkBy    []Difference `json:"shrunkDifferences,omitempty"`
	}
	out := struct {
		Name      string `json:"name"`
		OK        bool   `json:"ok"`
		Equal     int    `json:"equal"`
		Different int    `json:"different"`
		Failed    int    `json:"failed"`
		Outdated  int    `json:"outdated"`

		Interrupted string `json:"interrupted,omitempty"`
		Missing     int    `json:"missing,omitempty"`

		Cases []result `json:"cases"`
	}{r.Name, r.OK(), r.count(StatusEqual), r.count(StatusDifferent), r.count(StatusError), r.count(StatusOutdated), r.Interrupted, r.Missing, []result{}}
	for _, from := range r.Results {
		to := result{
			Case: from.Case.Name, TaskClass: from.Case.TaskClass, Status: from.Status(), Wanted: from.wanted(),
			Seconds: from.Duration.Seconds(), Differences: []Difference{},
			Printed: bounded(from.Printed),
		}
		for _, reason := range from.Reasons {
			to.Reasons = append(to.Reasons, Reason{reason.Who, reason.bounded()})
		}
		if from.Err != nil {
			to.Error = from.Err.Error()
		}
		to.Differences = append(to.Differences, from.Differences...)
		if from.Shrunk != nil {
			to.ShrunkBy = from.Shrunk.Differences
			content, err := EncodeCases([]Case{from.Shrunk.Case})
			if err != nil {
				return err
			}
			to.Shrunk = string(content)
		}
		out.Cases = append(out.Cases, to)
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(out)
}
