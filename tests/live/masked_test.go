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

	"github.com/phorge-gantry/gantry/cmd/handler-feed/feed"
	"github.com/phorge-gantry/gantry/cmd/handler-herald/webhook"
	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/mask"
	contractstage "github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
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
	folder, err := contract.LoadFolder(dir)
	if err != nil {
		t.Fatalf("the cases cannot be loaded: %v", err)
	}
	recordAndVerify(t, folder)
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

// recordAndVerify records what PHP does with the masked cases that Go has handlers
// for, and holds these against it: a mask must not make a case useless.
func recordAndVerify(t *testing.T, folder *contract.Folder) {
	t.Helper()
	b := openBoth(t, webhook.Handler(), feed.Publisher(), feed.HTTPPublisher())
	u := contractstage.Suite{Folder: folder}
	perClass := map[string]int{}
	for _, c := range folder.Cases {
		switch c.TaskClass {
		case harness.WebhookWorker, "FeedPublisherWorker", "FeedPublisherHTTPWorker":
			if perClass[c.TaskClass]++; perClass[c.TaskClass] <= 3 {
				u.Cases = append(u.Cases, c)
			}
		}
	}
	if len(perClass) != 3 {
		t.Errorf("there are cases of %v alone", perClass)
	}
	goldens, err := b.stage.Record(t.Context(), u, b.php, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range goldens {
		if g.Err != nil {
			t.Errorf("%s cannot be recorded: %v", g.Case.Name, g.Err)
		}
	}
	report, err := b.stage.Verify(t.Context(), u, b.own.(contractstage.Shadower))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Status() != contract.StatusEqual {
			t.Errorf("%s is %s: %v %v", r.Case.Name, r.Status(), r.Err, r.Differences)
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
