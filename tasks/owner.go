package tasks

import (
	"fmt"
	"strconv"
	"strings"
)

// Owners that hold nobody's lease stand in parentheses. PHP treats any owner
// but NULL as "leased before", so such a row waits for its leaseExpires in
// stock Phorge as well.
const (
	// YieldOwner is PhabricatorWorker::YIELD_OWNER.
	YieldOwner = "(yield)"

	// DelayOwner marks a task that was queued or moved to run later.
	DelayOwner = "(delay)"
)

// maxOwner is the width of leaseOwner in characters. The strings are ASCII,
// so they fit whatever the character set of the column is.
const maxOwner = 64

// Owner is the readable form of a leaseOwner that Gantry wrote.
type Owner struct {
	Fence   int64
	Crashes int
	Nonce   string // of the process, random; lower-case letters and digits
	Host    string
}

// String writes gantry:<fence>:<crashes>:<nonce>:<host>, numbers in base 36.
// The host is shortened to fit, never the parts that make it unique.
func (o Owner) String() string {
	head := fmt.Sprintf("gantry:%s:%s:%s:", base36(o.Fence), base36(int64(o.Crashes)), o.Nonce)
	host := strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == ':' {
			return '-'
		}
		return r
	}, o.Host)
	return head + host[:min(len(host), max(0, maxOwner-len(head)))]
}

// ParseOwner reads a leaseOwner that Owner.String wrote; ok is false for any
// other.
func ParseOwner(owner string) (o Owner, ok bool) {
	parts := strings.SplitN(owner, ":", 5)
	if len(parts) != 5 || parts[0] != "gantry" {
		return Owner{}, false
	}
	fence, err1 := strconv.ParseInt(parts[1], 36, 64)
	crashes, err2 := strconv.ParseInt(parts[2], 36, 32)
	if err1 != nil || err2 != nil || fence < 0 || crashes < 0 {
		return Owner{}, false
	}
	return Owner{Fence: fence, Crashes: int(crashes), Nonce: parts[3], Host: parts[4]}, true
}

// RetryOwner is written by a failed attempt: (retry):<fence>:<crashes>. Never
// NULL, because PHP takes NULL for a task that was never leased and would run
// it at once.
func RetryOwner(fence int64, crashes int) string { return parked("(retry)", fence, crashes) }

// BackOwner is written when a task is given back that cannot return to its
// place as it was: (back):<fence>:<crashes>.
func BackOwner(fence int64, crashes int) string { return parked("(back)", fence, crashes) }

func parked(mark string, fence int64, crashes int) string {
	return mark + ":" + base36(fence) + ":" + base36(int64(crashes))
}

// Nobody reports whether an owner stands in parentheses: its row is waiting,
// not leased.
func Nobody(owner string) bool { return strings.HasPrefix(owner, "(") }

// Crashes answers the crash count that rides in an owner string, 0 when it
// carries none.
func Crashes(owner string) int {
	if o, ok := ParseOwner(owner); ok {
		return o.Crashes
	}
	parts := strings.Split(owner, ":")
	if len(parts) != 3 || !Nobody(owner) {
		return 0
	}
	n, err := strconv.ParseInt(parts[2], 36, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int(n)
}

// DeadHolder answers whose lease a row carries that is taken over, when that is
// a Gantry, and another than the one with this nonce: whose lease runs out is
// dead, unless it is the one that asks, to which the answer that leased the task
// was lost.
func DeadHolder(owner *string, nonce string) (holder Owner, dead bool) {
	if owner == nil {
		return Owner{}, false
	}
	holder, ok := ParseOwner(*owner)
	return holder, ok && holder.Nonce != nonce
}

// CrashesOnceTaken answers the crashes of a task that the Gantry with this nonce
// leases: those that its owner counts, and that of a DeadHolder.
func CrashesOnceTaken(owner *string, nonce string) int {
	if owner == nil {
		return 0
	}
	crashes := Crashes(*owner)
	if _, dead := DeadHolder(owner, nonce); dead {
		crashes++
	}
	return crashes
}

func base36(n int64) string { return strconv.FormatInt(n, 36) }
