package phorge

import (
	"testing"
	"time"
)

func TestOneSlowLookDoesNotPutOffTheNextForLong(t *testing.T) {
	tests := []struct {
		name string
		rows int
		took time.Duration
		want time.Duration
	}{
		{"fast reads are bounded by their rows", 1000, time.Millisecond, 20 * time.Millisecond},
		{"slow reads take a tenth of the time", 1000, 50 * time.Millisecond, 500 * time.Millisecond},
		{"a read that waited for a locked table is no measure", 1000, 5 * time.Second, longestRest},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := restAfter(test.rows, test.took); got != test.want {
				t.Errorf("a look of %d rows in %v is followed by a rest of %v, want %v", test.rows, test.took, got, test.want)
			}
		})
	}
}
