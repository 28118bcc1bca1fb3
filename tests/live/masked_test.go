package live

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/mask"
	"github.com/phorge-gantry/gantry/tasks"
)

// What real tasks refer to, people among it.
var referred = []string{
	"herald.herald_webhookrequest", "herald.herald_webhook", "feed.feed_storydata.chronologicalKey", "feed.feed_storydata",
	"maniphest.maniphest_task", "maniphest.maniphest_transaction", "maniphest.maniphest_transaction_comment", "user.user",
}

func TestCasesOfRealTasksSayNothingAboutAnybody(t *testing.T) {
	g := newGround(t)
	task := g.task(t, "The ZEBRA plan of Alice")
	g.edit(t, map[string]any{
		"objectIdentifier": task, "title": "The zebra plan, 2nd try", "owner": g.world.Bob.PHID,
		"description": "Ask bob@example.com or https://zebra.example.com/wiki/alice.", "comment": "Zebra, says @bob.",
	})
	drainStock(t, g)

	cases, looked := maskedCases(t, g)
	content, err := contract.EncodeCases(cases)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "real.yaml"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := contract.LoadFolder(dir); err != nil {
		t.Errorf("the cases cannot be loaded: %v", err)
	}
	secret := regexp.MustCompile(`(?i)zebra|alice|bob|example\.com|` + regexp.QuoteMeta(g.world.Webhook.Key) +
		`|` + strings.Join(own(append(slices.Clone(looked), task, g.world.Alice.PHID, g.world.Bob.PHID, g.world.Webhook.PHID)), "|"))
	for i, line := range strings.Split(string(content), "\n") {
		if found := secret.FindString(line); found != "" {
			t.Errorf("line %d still says %q: %.200s", i+1, found, line)
		}
	}
	for _, table := range []string{"herald.herald_webhook", "maniphest.maniphest_task", "user.user", "feed.feed_storydata"} {
		if !slices.ContainsFunc(cases, func(c contract.Case) bool { return len(c.World.Rows[table]) > 0 }) {
			t.Errorf("no row of %s came along", table)
		}
	}
}

// own answers of PHIDs what is not of their kind.
func own(phids []string) (parts []string) {
	for _, phid := range phids {
		parts = append(parts, phid[strings.LastIndexByte(phid, '-')+1:])
	}
	return parts
}

// maskedCases makes cases of the tasks in the archive, and answers the PHIDs of
// their data.
func maskedCases(t *testing.T, g *ground) (cases []contract.Case, phids []string) {
	t.Helper()
	store := openStore(t, g.Phorge)
	now, err := store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	masker, err := mask.New(now, nil)
	if err != nil {
		t.Fatal(err)
	}
	var tables []mask.Table
	for _, text := range referred {
		table, err := mask.ParseTable(text)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	db, err := sql.Open("mysql", g.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	look := mask.In(g.Namespace(), func(string) (*sql.DB, error) { return db, nil })
	page, err := store.List(t.Context(), tasks.Filter{State: tasks.Archived, Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	for i, record := range page.Tasks {
		c, err := masker.Case(context.Background(), fmt.Sprintf("real-%d", i+1), record, tables, look)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
		phids = append(phids, regexp.MustCompile(`PHID-[A-Z-]+[a-z0-9]{15,}`).FindAllString(string(record.Data), -1)...)
	}
	return cases, phids
}
