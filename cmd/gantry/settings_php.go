package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// processes answers how many PHP processes the pool may have.
func (c *config) processes() (least, most int) {
	least, most, err := parseProcesses(c.PHPProcesses)
	if err != nil {
		panic(err) // the settings allow only what can be read
	}
	return least, most
}

func parseProcesses(text string) (least, most int, err error) {
	from, to, isRange := strings.Cut(text, "..")
	if !isRange {
		to = from
	}
	least, err1 := strconv.Atoi(strings.TrimSpace(from))
	most, err2 := strconv.Atoi(strings.TrimSpace(to))
	switch {
	case err1 != nil || err2 != nil:
		return 0, 0, fmt.Errorf("%q must be a whole number, or two as 1..4", text)
	case least < 1 || most < least:
		return 0, 0, fmt.Errorf("%q must be at least 1, and the second number not below the first", text)
	}
	return least, most, nil
}

func validProcesses(text string) error {
	_, _, err := parseProcesses(text)
	return err
}

func validURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must be a URL such as https://phorge.example.com/") // it may hold a password
	case u.User != nil:
		return errors.New("must not hold a user or a password: calls are signed with the key of conduit_key_file")
	}
	return nil
}
