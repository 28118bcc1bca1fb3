package mask

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Masker replaces values. What was the same before is the same after, for all
// that one Masker masks.
type Masker struct {
	now      int64
	keep     keep
	standIns map[string]string // by kind and value
	counts   map[string]int    // stand-ins made, by kind
	taken    map[string]bool   // texts that a new stand-in must not be
	tally    map[string]map[string]bool
}

// New answers a Masker. now is the database's clock, as an epoch; epochs are told
// from it. Each of keeps is the name of a data key or column whose values stay
// as they are (retry, herald.herald_webhook.name), or a regular expression
// between slashes that the whole of a text has to match.
func New(now int64, keeps []string) (*Masker, error) {
	k, err := parseKeeps(keeps)
	if err != nil {
		return nil, err
	}
	m := &Masker{now: now, keep: k, standIns: map[string]string{}, counts: map[string]int{}, taken: map[string]bool{}}
	for word := range words {
		m.taken[word] = true
	}
	m.begin()
	return m, nil
}

// standIn answers the stand-in of a value: the one that it has, or a new one from
// the number that counts values of its kind. make is asked again with a higher
// try when what it answered is taken.
func (m *Masker) standIn(kind, value string, make func(n, try int) string) string {
	key := kind + "\x00" + value
	found, ok := m.standIns[key]
	if !ok {
		m.counts[kind]++
		for try := 0; ; try++ {
			if found = make(m.counts[kind], try); !m.taken[found] {
				break
			}
		}
		m.taken[found] = true
		m.standIns[key] = found
	}
	m.note(kind, found)
	return found
}

// begin begins to count what is masked in one case.
func (m *Masker) begin() { m.tally = map[string]map[string]bool{} }

func (m *Masker) note(kind, standIn string) {
	if m.tally[kind] == nil {
		m.tally[kind] = map[string]bool{}
	}
	m.tally[kind][standIn] = true
}

// What stand-ins stand for, in the order and the words of the summary. PHIDs are
// counted as one, whatever they are of.
var kinds = []struct{ kind, one, many string }{
	{"phid", "PHID", "PHIDs"},
	{"id", "id", "ids"},
	{"number", "number", "numbers"},
	{"epoch", "epoch", "epochs"},
	{"email", "e-mail address", "e-mail addresses"},
	{"host", "host", "hosts"},
	{"ip", "IP address", "IP addresses"},
	{"token", "token", "tokens"},
	{"text", "text", "texts"},
	{"key", "data key", "data keys"},
}

// summary says what was masked since begin.
func (m *Masker) summary() string {
	counted := map[string]int{}
	for kind, standIns := range m.tally {
		kind, _, _ = strings.Cut(kind, " ")
		counted[kind] += len(standIns)
	}
	var parts []string
	for _, k := range kinds {
		switch n := counted[k.kind]; n {
		case 0:
		case 1:
			parts = append(parts, "1 "+k.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, k.many))
		}
	}
	text := "nothing had to be masked"
	if len(parts) > 0 {
		text = "masked: " + strings.Join(parts, ", ")
	}
	if kept := slices.Sorted(maps.Keys(m.keep.used)); len(kept) > 0 {
		text += "; kept on request: " + strings.Join(kept, ", ")
	}
	return text
}
