package main

import (
	"errors"
	"fmt"
	"strings"
)

// level is how bad a finding is.
type level string

const (
	ok      level = "ok"
	warning level = "warning" // worth a look; everything works
	problem level = "problem" // something will not work
)

// finding is one thing that a check found.
type finding struct {
	Level   level  `json:"level"`
	About   string `json:"about"`
	Message string `json:"message"` // with the remedy, unless it is ok
}

// printFinding writes a finding on a line of its own.
func (a *app) printFinding(f finding) error {
	if a.print.json {
		return a.print.document(f)
	}
	word := fmt.Sprintf("%-7s", f.Level)
	if a.print.colour {
		word = map[level]string{ok: green, warning: yellow, problem: red}[f.Level] + word + reset
	}
	a.print.linef("%s  %s: %s", word, plain(f.About), plain(strings.ReplaceAll(f.Message, "\n", "; ")))
	return nil
}

// verdict answers an error when there is a problem among the findings.
func verdict(findings []finding) error {
	count := 0
	for _, f := range findings {
		if f.Level == problem {
			count++
		}
	}
	switch count {
	case 0:
		return nil
	case 1:
		return errors.New("1 problem was found")
	}
	return fmt.Errorf("%d problems were found", count)
}
