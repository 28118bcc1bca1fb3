package live

import (
	"testing"

	"github.com/phorge-gantry/gantry/cmd/handler-feed/feed"
	feedcases "github.com/phorge-gantry/gantry/contract/cases/feed"
	"github.com/phorge-gantry/gantry/tasks"
)

// TestStoriesDrawnAtRandomComeToTheSameInPHPAndGo runs as many cases as
// GANTRY_PROPERTY_CASES says.
func TestStoriesDrawnAtRandomComeToTheSameInPHPAndGo(t *testing.T) {
	b := openBoth(t, feed.Publisher(), feed.HTTPPublisher())
	cases := drawn(t, feedcases.Generate)
	b.compare(cases)
	if declined := b.kinds[tasks.Declined]; declined > len(cases)/2 {
		t.Errorf("%d of %d cases were declined, too many to prove anything", declined, len(cases))
	}
}
