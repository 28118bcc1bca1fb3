package contract

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/phorge-gantry/gantry/tasks"
)

// What the declarations of volatile.go call the things they find.

var parkedOwner = regexp.MustCompile(`^(\((?:retry|back)\)):([0-9a-z]+):([0-9a-z]+)$`)

// owner names the lease of the case's task, and its fence where the row waits. Any
// other fence stays as it is: what has it was not put back from this lease.
func (n *namer) owner(_ cell, value string) string {
	if value != "" && value == n.Owner {
		if crashes := tasks.Crashes(value); crashes > 0 {
			return fmt.Sprintf("{{lease after %d crashes}}", crashes)
		}
		return "{{lease}}"
	}
	parked := parkedOwner.FindStringSubmatch(value)
	lease, leased := tasks.ParseOwner(n.Owner)
	if parked == nil || !leased || parked[2] != strconv.FormatInt(lease.Fence, 36) {
		return value
	}
	return parked[1] + ":{{fence}}:" + parked[3]
}

// expiry knows of two moments from which the case's task is given time: its
// lease, and the settlement of an outcome that makes it wait. Other expiries
// keep their distance from the start, under a name of its own.
func (n *namer) expiry(c cell, value string) string {
	epoch, err := strconv.ParseInt(value, 10, 64)
	if err != nil || strconv.FormatInt(epoch, 10) != value || c.row.Key != strconv.FormatInt(n.TaskID, 10) {
		return value
	}
	if wait, waits := n.wait(); waits && c.after && c.row.Kind == Changed {
		if settled := epoch - wait; settled >= n.Settling && settled <= n.End {
			return distance("now", wait)
		}
	}
	if leased := epoch - n.Lease; leased >= n.Start && leased <= n.Settling {
		return distance("leased", n.Lease)
	}
	return distance("start", epoch-n.Start)
}

// wait is how long the outcome makes the task wait, in seconds.
func (n *namer) wait() (seconds int64, waits bool) {
	switch n.outcome.Kind {
	case tasks.Yielded:
		return max(n.outcome.Wait, int64(tasks.MinYield.Seconds())), true
	case tasks.Retry, tasks.Crashed, tasks.Released:
		return n.outcome.Wait, true
	}
	return 0, false
}

func (n *namer) duration(c cell, value string) string {
	if result := c.row.Columns["result"].After; result != nil && *result == "0" && isNumber(value) {
		return "{{duration}}"
	}
	return value
}

func (n *namer) task(_ cell, id string) string { return named(n.newTasks, id) }

func (n *namer) data(_ cell, id string) string { return named(n.newData, id) }

func named(names map[string]string, id string) string {
	if name := names[id]; name != "" {
		return name
	}
	return id
}

// dayLong bounds the distance of an epoch that the case does not explain: waits
// and expiries that somebody counted from now.
const dayLong = 24 * 60 * 60

func (n *namer) epoch(found string) string {
	epoch, err := strconv.ParseInt(found, 10, 64)
	if err != nil {
		return found
	}
	away := epoch - n.Start
	switch name := n.moment(epoch); {
	case name != "":
		return name
	case n.offsets[away] || away > 0 && away <= dayLong:
		return distance("now", away)
	}
	return found
}

// longRun is the length of an execution, in seconds, from which on its beginning
// and its end are told apart. A shorter one can be long by chance alone, on a
// machine that has much to do.
const longRun = 5

// moment answers the name of a moment of the run, and "" for any other epoch.
func (n *namer) moment(epoch int64) string {
	begun := max(n.Start, n.Leased)
	took := n.Settling - begun
	switch {
	case epoch < n.Start || epoch > n.End:
		return ""
	case took < longRun || epoch <= begun+took/3:
		return "{{now}}"
	case epoch < n.Settling-took/3:
		return "{{middle}}"
	}
	return "{{end}}"
}

func distance(from string, seconds int64) string {
	if seconds == 0 {
		return "{{" + from + "}}"
	}
	return fmt.Sprintf("{{%s%+d}}", from, seconds)
}

func (n *namer) address(found string) string {
	for name, address := range n.Receivers {
		if address == found {
			return "{{receiver " + name + "}}"
		}
	}
	if found == n.Closed {
		return "{{closed}}"
	}
	return found
}

// phid marks what is new; number counts it once the order is known.
func (n *namer) phid(found string) string {
	if n.Case.says(found) || n.Known != nil && n.Known(found) {
		return found
	}
	return "{{" + found + "}}"
}

// newPHID is one that is marked, or counted.
var newPHID = regexp.MustCompile(`\{\{(PHID-[A-Z]{4}(?:-[A-Z]{4})?)([-#])([a-z0-9]+)\}\}`)

func (n *namer) number(text string) string {
	return newPHID.ReplaceAllStringFunc(text, func(found string) string {
		kind, counted, _ := strings.Cut(newPHID.ReplaceAllString(found, "$1 $2"), " ")
		if counted == "#" {
			return found
		}
		if n.numbers[found] == 0 {
			n.numbers[kind]++
			n.numbers[found] = n.numbers[kind]
		}
		return fmt.Sprintf("{{%s#%d}}", kind, n.numbers[found])
	})
}

// masked is a text in which all new PHIDs of a type are the same.
func masked(text string) string { return newPHID.ReplaceAllString(text, "{{$1}}") }
