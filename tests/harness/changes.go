package harness

import (
	"cmp"
	"database/sql"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/rows"
)

// volatileColumns differ between two runs of the same work, as volatile tables
// do. What is compared instead is in the function.
var volatileColumns = map[string]func(string) string{
	// A stock owner is made of process and time; what it means is compared.
	"worker.worker_activetask.leaseOwner":  ownerMeans,
	"worker.worker_archivetask.leaseOwner": ownerMeans,
	// Microseconds, of some work not even one.
	"worker.worker_archivetask.duration": func(string) string { return "*" },
}

// volatileText is chance or the clock within a text. What is before it stays.
var volatileText = map[*regexp.Regexp]string{
	regexp.MustCompile(`(X-Phabricator-Send-Attempt[":,\\ ]+)[a-z0-9]{16}`): "a token for each attempt",
	regexp.MustCompile(`(Thread-Index[":,\\ ]+)[A-Za-z0-9+/=\\]+`):          "it ends with the time",
}

func ownerMeans(owner string) string {
	if owner == "(yield)" {
		return owner
	}
	return "somebody"
}

// Changes are what is different from an earlier snapshot. Those of two runs of
// the same work on the same snapshot are equal, because what chance and the
// clock decide has a common name: new PHIDs and keys of feed stories are
// numbered in the order in which they appear, epochs of the run are "now", and
// task ids are numbered. What is left out or compared in part is declared above,
// and by contract.IsVolatile.
type Changes struct {
	// Rows has a line for each row that is new, gone or has changed, with what
	// changed in it.
	Rows  []string
	names *names
}

// Name answers a text with common names for what is new in it.
func (c Changes) Name(text string) string { return c.names.name(text) }

// Changes compares with an earlier snapshot.
func (s *Snapshot) Changes(before *Snapshot) Changes {
	n := newNames(before, s)
	var later []*change
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(s.tables)) {
		if contract.IsVolatile(name) {
			continue
		}
		for _, c := range changesOf(name, s.tables[name], before.tables[name]) {
			// Where chance decides the order of the rows, it must not
			// number what they name.
			if n.unknown(c.key) {
				later = append(later, c)
				continue
			}
			lines = append(lines, c.line(n.name))
		}
	}
	slices.SortStableFunc(later, func(a, b *change) int { return cmp.Compare(a.line(n.known), b.line(n.known)) })
	for _, c := range later {
		lines = append(lines, c.line(n.name))
	}
	return Changes{lines, n}
}

// change is one row that differs.
type change struct {
	table   string
	sign    string // +, - or ~
	key     string
	columns []string
	values  []sql.NullString
}

func changesOf(name string, now, before *rows.Table) []*change {
	if before == nil {
		before = &rows.Table{}
	}
	var changes []*change
	for _, row := range now.Since(before) {
		c := &change{table: name, sign: "~", key: row.Key}
		switch {
		case row.New == nil:
			c.sign = "-"
		case row.Old == nil:
			c.sign = "+"
		}
		for i, value := range row.New {
			if row.Old == nil || value != row.Old[i] {
				c.columns = append(c.columns, now.Columns[i])
				c.values = append(c.values, value)
			}
		}
		changes = append(changes, c)
	}
	return changes
}

func (c *change) line(named func(string) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", c.table, c.sign, c.named("", c.key, named))
	for i, value := range c.values {
		text := "NULL"
		if value.Valid {
			text = strconv.Quote(c.named(c.columns[i], value.String, named))
		}
		fmt.Fprintf(&b, " %s=%s", c.columns[i], text)
	}
	return b.String()
}

func (c *change) named(column, text string, named func(string) string) string {
	if means := volatileColumns[c.table+"."+column]; means != nil {
		return means(text)
	}
	// The id of a task row, and of its data row, stands in its key as well.
	if strings.HasPrefix(c.table, "worker.") && (column == "" || column == "id" || column == "dataID") {
		kind := "task "
		if column == "dataID" || c.table == "worker.worker_taskdata" {
			kind = "data "
		}
		return named(kind + text)
	}
	return named(text)
}

// names gives what is new common names.
type names struct {
	before int64
	now    int64
	old    map[string]bool
	given  map[string]string
	counts map[string]int
}

var nameable = regexp.MustCompile(`PHID-[A-Z]{4}(?:-[A-Z]{4})?-[a-z0-9]{15,20}|^(?:task|data) \d+$|\b\d{10}\b|\b\d{19}\b`)

func newNames(before, now *Snapshot) *names {
	n := &names{
		before: before.epoch, now: now.epoch,
		old: map[string]bool{}, given: map[string]string{}, counts: map[string]int{},
	}
	for name, t := range before.tables {
		if contract.IsVolatile(name) {
			continue
		}
		for _, row := range t.Rows {
			for _, value := range row {
				for _, found := range nameable.FindAllString(value.String, -1) {
					n.old[found] = true
				}
			}
		}
	}
	for kind, table := range map[string]string{"task ": "worker_activetask", "data ": "worker_taskdata"} {
		if t := before.tables["worker."+table]; t != nil {
			for _, row := range t.Rows {
				n.old[kind+t.KeyOf(row)] = true
			}
		}
	}
	return n
}

func (n *names) name(text string) string {
	for pattern := range volatileText {
		text = pattern.ReplaceAllString(text, "${1}*")
	}
	return nameable.ReplaceAllStringFunc(text, func(found string) string {
		if kind := n.kind(found); kind == "now" {
			return kind
		} else if kind != "" && n.given[found] == "" {
			n.counts[kind]++
			n.given[found] = fmt.Sprintf("%s#%d", kind, n.counts[kind])
		}
		return cmp.Or(n.given[found], found)
	})
}

// known is name, without new numbers.
func (n *names) known(text string) string {
	return nameable.ReplaceAllStringFunc(text, func(found string) string {
		return cmp.Or(n.given[found], n.kind(found), found)
	})
}

// unknown reports whether text holds something that is not numbered yet.
func (n *names) unknown(text string) bool {
	for _, found := range nameable.FindAllString(text, -1) {
		if kind := n.kind(found); kind != "" && kind != "now" && n.given[found] == "" {
			return true
		}
	}
	return false
}

// kind answers what is new about something: nothing, when it was there before.
func (n *names) kind(found string) string {
	number, err := strconv.ParseUint(found, 10, 64)
	switch {
	case err == nil && n.recent(int64(number)):
		return "now"
	case n.old[found]:
		return ""
	case err == nil && n.recent(int64(number>>32)):
		return "story" // its key is an epoch and 32 random bits
	case strings.HasPrefix(found, "PHID-"):
		return found[:strings.LastIndexByte(found, '-')]
	case strings.Contains(found, " "):
		return found[:4] // task or data
	}
	return ""
}

// recent covers the run, and the waits and leases that began in it.
func (n *names) recent(epoch int64) bool {
	const day = 86400
	return epoch >= n.before && epoch <= n.now+day
}
