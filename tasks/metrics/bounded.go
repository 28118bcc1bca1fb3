package metrics

import (
	"strings"
	"sync"
)

// other is the label of everything that has none of its own.
const other = "other"

// bounded are the values of a label.
type bounded struct {
	most int // beside the known ones

	mu   sync.RWMutex
	met  map[string]bool
	seen int
}

func newBounded(most int, known ...string) *bounded {
	b := &bounded{most: most, met: map[string]bool{}}
	b.know(known...)
	return b
}

// know gives values a label of their own whatever was seen before.
func (b *bounded) know(values ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range values {
		b.met[v] = true
	}
}

// label answers the label of a value.
func (b *bounded) label(value string) string {
	b.mu.RLock()
	met, full := b.met[value], b.seen >= b.most
	b.mu.RUnlock()
	if !met {
		if full {
			return other
		}
		b.mu.Lock()
		if !b.met[value] {
			if b.seen >= b.most {
				b.mu.Unlock()
				return other
			}
			b.met[value] = true
			b.seen++
		}
		b.mu.Unlock()
	}
	if value == "" {
		return other
	}
	return strings.ToValidUTF8(value, "\uFFFD")
}
