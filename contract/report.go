package contract

import (
	"io"
	"time"
)

// Report is what came of the cases of a folder.
type Report struct {
	Name    string // of the suite: the folder
	Results []Result
}

// Result is what came of one case.
type Result struct {
	Case        Case
	Differences []Difference
	Err         error // it could not be run or compared
	Duration    time.Duration
	Shrunk      *Case // smaller, and still differs
}

// OK reports whether nothing differs and everything ran.
func (r Report) OK() bool { return true }

// Text writes the report for a person; colour only for a terminal.
func (r Report) Text(w io.Writer, colour bool) error { return nil }

// JSON writes it for a program.
func (r Report) JSON(w io.Writer) error { return nil }

// JUnit writes it as JUnit XML, for CI.
func (r Report) JUnit(w io.Writer) error { return nil }
