package live

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

func hmacOf(body, key string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

// editTask is a real edit: it ends in mail, feed, webhook and index.
func editTask(t *testing.T, g *ground) {
	task := g.task(t, "The fox jumps")
	if failures := drainStock(t, g); len(failures) > 0 {
		t.Fatalf("stock Phorge cannot make a task: %v", failures)
	}
	g.edit(t, map[string]any{
		"objectIdentifier": task,
		"title":            "The quick fox jumps",
		"description":      "Over the lazy dog, says @bob.",
		"owner":            g.world.Bob.PHID,
		"comment":          "Done.",
	})
}

func TestStockPhorgeLeavesTheSameTwiceAndADifferenceIsFound(t *testing.T) {
	g := newGround(t)
	editTask(t, g)
	before := g.begin(t)
	want := g.run(t, stock, before)
	if len(want.rows) < 10 || len(want.mails) == 0 || len(want.calls) < 2 || len(want.failures) > 0 {
		t.Fatalf("an edit leaves %d rows, %d mails, %d calls and %d failures; that is not what it should do",
			len(want.rows), len(want.mails), len(want.calls), len(want.failures))
	}
	if found := differences(want, g.run(t, stock, before)); len(found) > 0 {
		t.Errorf("two runs of stock Phorge differ:\n%s", strings.Join(found, "\n"))
	}
}
