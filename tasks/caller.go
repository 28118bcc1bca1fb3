package tasks

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxCaller is the longest name of a caller in bytes: what leaseOwner holds
// beside a separator and the largest fence.
const MaxCaller = maxOwner - 1 - 13

// Caller is the readable form of the leaseOwner of somebody who leases under a
// name of its own, through the HTTP API for example. The name alone would be
// the same in all leases of one caller; the fence makes it that of one.
type Caller struct {
	Name  string
	Fence int64
}

// String writes <name>#<fence>, the number in base 36.
func (c Caller) String() string { return c.Name + "#" + base36(c.Fence) }

// Check answers an error that wraps ErrInvalid when the name cannot stand in an
// owner: it is 1 to MaxCaller characters of printable ASCII, and neither looks
// like an owner that holds nobody's lease nor like a Gantry.
func (c Caller) Check() error {
	for _, r := range c.Name {
		if r < ' ' || r > '~' {
			return fmt.Errorf("%w: lease owner %.80q has characters other than printable ASCII", ErrInvalid, c.Name)
		}
	}
	switch {
	case c.Name == "" || len(c.Name) > MaxCaller:
		return fmt.Errorf("%w: lease owner %.80q must have 1 to %d characters", ErrInvalid, c.Name, MaxCaller)
	case Nobody(c.Name) || strings.HasPrefix(c.Name, "gantry:"):
		return fmt.Errorf("%w: lease owner %q must not begin with a parenthesis or with \"gantry:\"", ErrInvalid, c.Name)
	}
	return nil
}

// ParseCaller reads a leaseOwner that Caller.String wrote; ok is false for any
// other.
func ParseCaller(owner string) (c Caller, ok bool) {
	at := strings.LastIndexByte(owner, '#')
	if at < 0 {
		return Caller{}, false
	}
	fence, err := strconv.ParseInt(owner[at+1:], 36, 64)
	c = Caller{Name: owner[:at], Fence: fence}
	if err != nil || fence < 1 || c.String() != owner || c.Check() != nil {
		return Caller{}, false
	}
	return c, true
}
