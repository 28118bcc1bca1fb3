package queue_test

import (
	"database/sql"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/contract/queue"
)

// unseen are deviations of the queue that no sequence of operations shows.
var unseen = map[string]string{
	"Takes an id for each task when it queues it.":                             "One Gantry queues all the tasks, and begins anew when stock Phorge queued some.",
	"Queues follow-ups after the archive row is committed, and can lose them.": "Nothing is killed here between the two.",
	"failureTime is by the clock of the PHP host.":                             "It is the same host.",
	"A task that kills what runs it is tried for ever.":                        "It is the runtime that counts crashes.",
}

// TestTheDocumentAndTheTableAgree: every row of DEVIATIONS.md that is about the
// queue is declared here, or it is said why it cannot be seen.
func TestTheDocumentAndTheTableAgree(t *testing.T) {
	document, err := os.ReadFile("../../DEVIATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]string{}
	for _, d := range queue.Deviations {
		declared[d.Stock] = d.Reason
		if d.Reason == "" || d.Expected == "" {
			t.Errorf("%s: a deviation needs a reason, and what is expected instead", d.Stock)
		}
	}
	section := ""
	for line := range strings.Lines(string(document)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
		}
		// Of those in PHP, only what settles a task is about the queue.
		if first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(line, "| ") && first != "stock Phorge" {
			about := slices.Contains([]string{"Leasing", "Settling", "Operating"}, section)
			if about && declared[first] == "" && unseen[first] == "" {
				t.Errorf("nothing here knows of the deviation %q", first)
			}
			delete(declared, first)
		}
	}
	for stock := range declared {
		t.Errorf("DEVIATIONS.md has no row that begins with %q", stock)
	}
}

func TestEveryDeviationIsNeeded(t *testing.T) {
	ours, _ := openOurs(t, nil)
	r := queue.NewReplay(ours)
	for _, d := range queue.Deviations {
		r.Without = d.Stock
		g := named(t, "not allowed: "+d.Stock)
		difference, err := r.Replay(t.Context(), g)
		if err != nil || difference == nil || len(difference.Steps) != len(g.Steps) {
			t.Errorf("%s: without it, the last operation of its sequence should differ: %v\n%s", d.Stock, err, difference)
		}
	}
}

// columns is what each table is compared by, with a statement's worth of another
// value.
var columns = map[string]map[string]string{
	"worker_activetask": {
		"taskClass": "CONCAT(taskClass, 'x')", "leaseOwner": "IF(leaseOwner IS NULL, '', NULL)",
		"leaseExpires": "IFNULL(leaseExpires + 1, 0)", "failureCount": "failureCount + 1",
		"dataID": "dataID + 1", "failureTime": "IFNULL(failureTime + 1, 0)", "priority": "priority + 1",
		"objectPHID": "IFNULL(CONCAT(objectPHID, 'x'), '')", "containerPHID": "IFNULL(CONCAT(containerPHID, 'x'), '')",
		"dateCreated": "dateCreated - 1", "dateModified": "dateModified - 1",
	},
	"worker_archivetask": {
		"taskClass": "CONCAT(taskClass, 'x')", "leaseOwner": "IF(leaseOwner IS NULL, '', NULL)",
		"leaseExpires": "IFNULL(leaseExpires + 1, 0)", "failureCount": "failureCount + 1",
		"dataID": "dataID + 1", "priority": "priority + 1", "result": "result + 1",
		"objectPHID": "IFNULL(CONCAT(objectPHID, 'x'), '')", "containerPHID": "IFNULL(CONCAT(containerPHID, 'x'), '')",
		"dateCreated": "dateCreated - 1", "dateModified": "dateModified - 1", "archivedEpoch": "archivedEpoch - 1",
	},
	"worker_taskdata": {"data": "CONCAT(data, ' ')"},
}

// A deviation hides nothing beside it: where it applies, every column of every
// row, and every row that is missing or too many, is still found.
func TestADifferenceBesideADeviationIsFound(t *testing.T) {
	ours, dsn := openOurs(t, nil)
	r := queue.NewReplay(ours)
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	found := map[string]int{}
	for _, d := range queue.Deviations {
		g := named(t, "allowed: "+d.Stock)
		for table, values := range columns {
			statements := []string{"DELETE FROM %s ORDER BY id LIMIT 1"}
			for _, column := range slices.Sorted(maps.Keys(values)) {
				change := fmt.Sprintf("UPDATE %%s SET %s = %s ORDER BY id ", column, values[column])
				statements = append(statements, change+"LIMIT 1", change+"DESC LIMIT 1")
			}
			for _, statement := range statements {
				var changed int64
				r.After = func(step int) error {
					if step < len(g.Steps) {
						return nil
					}
					result, err := db.Exec(fmt.Sprintf(statement, table))
					if err != nil {
						return err
					}
					changed, err = result.RowsAffected()
					return err
				}
				difference, err := r.Replay(t.Context(), g)
				if err != nil {
					t.Fatal(err)
				}
				if found[table] += int(changed); changed > 0 && difference == nil {
					t.Errorf("%s\nhides %s", d.Stock, fmt.Sprintf(statement, table))
				}
			}
		}
	}
	for table := range columns {
		if found[table] == 0 {
			t.Errorf("nothing was changed in %s; nothing is proven", table)
		}
	}
}

func TestEveryColumnIsCompared(t *testing.T) {
	_, dsn := openOurs(t, nil)
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for table, values := range columns {
		rows, err := db.Query("SELECT * FROM " + table)
		if err != nil {
			t.Fatal(err)
		}
		names, err := rows.Columns()
		rows.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if _, compared := values[name]; !compared && name != "id" && name != "duration" {
				t.Errorf("TestADifferenceBesideADeviationIsFound does not change %s.%s", table, name)
			}
		}
	}
}
