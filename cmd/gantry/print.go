package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printer writes results: text for people, JSON for programs.
type printer struct {
	w      *bufio.Writer
	json   bool
	colour bool
}

func newPrinter(w io.Writer, colour bool) *printer {
	return &printer{w: bufio.NewWriter(w), colour: colour}
}

// flush writes what is held back, and answers the first error of all writes.
func (p *printer) flush() error {
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// document writes one JSON document on a line of its own.
func (p *printer) document(v any) error {
	e := json.NewEncoder(p.w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// linef writes a line of text.
func (p *printer) linef(format string, a ...any) {
	fmt.Fprintf(p.w, format+"\n", a...)
}

// plural counts in words.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// table writes rows under a header. A column whose cells are all numbers is
// aligned to the right.
func (p *printer) table(header []string, rows [][]string) {
	layout := make([]string, len(header))
	for i := range header {
		width, numeric := utf8.RuneCountInString(header[i]), true
		for _, row := range rows {
			width = max(width, utf8.RuneCountInString(row[i]))
			numeric = numeric && strings.Trim(row[i], "0123456789+") == ""
		}
		if !numeric {
			width = -width
		}
		layout[i] = fmt.Sprintf("%%%ds", width)
	}
	line := func(cells []string) string {
		padded := make([]string, len(cells))
		for i, cell := range cells {
			padded[i] = fmt.Sprintf(layout[i], cell)
		}
		return strings.TrimRight(strings.Join(padded, "  "), " ")
	}
	head := line(header)
	if p.colour {
		head = bold + head + reset
	}
	p.linef("%s", head)
	for _, row := range rows {
		p.linef("%s", line(row))
	}
}

const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	green  = "\x1b[32m"
	reset  = "\x1b[0m"
)

// colours reports whether a stream shows colours and its reader wants them.
func colours(stream any, environ []string) bool {
	refused := slices.ContainsFunc(environ, func(v string) bool {
		value, found := strings.CutPrefix(v, "NO_COLOR=")
		return v == "TERM=dumb" || found && value != ""
	})
	return terminal(stream) && !refused
}

func paint(stream any, environ []string, colour, text string) string {
	if !colours(stream, environ) {
		return text
	}
	return colour + text + reset
}

// plain makes text from the database harmless to a terminal.
func plain(text string) string {
	printable := func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !printable(r) }) < 0 {
		return text
	}
	return fmt.Sprintf("%q", text)
}
