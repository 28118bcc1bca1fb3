package stage

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/plugins"
)

func TestRowsOfAWorldAreExactAndCompleted(t *testing.T) {
	s := newStage(t)
	db := acme(t, s)
	bytes := "\x00\xff'\\\"\x80 \r\n"
	c := acmeCase(contract.World{Rows: map[string][]contract.Row{
		"acme.acme_thing": {
			{"name": "naïve 🐘", "bytes": bytes, "flags": true, "size": uint64(18446744073709551615), "dateCreated": "{{now-300}}"},
			{"id": 3, "mail": nil, "size": 0},
		},
		"acme.acme_edge": {},
	}})
	type thing struct {
		ID          int
		Phid, Name  string
		Mail        sql.NullString
		Bytes       string
		Flags       int
		Size        uint64
		DateCreated int64
	}
	var got []thing
	var now int64
	run(t, s, c, does(s, func(ctx context.Context, _ *plugins.Task) error {
		if err := db.QueryRow("SELECT UNIX_TIMESTAMP()").Scan(&now); err != nil {
			return err
		}
		rows, err := db.QueryContext(ctx, "SELECT * FROM acme_thing ORDER BY id")
		if err != nil {
			t.Error(err)
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var x thing
			if err := rows.Scan(&x.ID, &x.Phid, &x.Name, &x.Mail, &x.Bytes, &x.Flags, &x.Size, &x.DateCreated); err != nil {
				t.Error(err)
			}
			got = append(got, x)
		}
		return rows.Err()
	}))
	want := []thing{
		{ID: 3},
		{ID: unnamedID, Name: "naïve 🐘", Bytes: bytes, Flags: 1, Size: 18446744073709551615},
	}
	if len(got) == 2 {
		if age := now - got[1].DateCreated; age < 300 || age > 310 {
			t.Errorf("{{now-300}} is %d seconds old", age)
		}
		got[1].DateCreated = 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNewRowsHaveTheSameIdsWhateverThereWas(t *testing.T) {
	s := newStage(t)
	insert := execute(t, s, "INSERT INTO acme_thing (phid, name, bytes, flags, dateCreated) VALUES ('', 'x', '', 0, 0)")
	rolledBack := execute(t, s, "INSERT INTO acme_thing (phid, name, bytes, flags, dateCreated) VALUES ('', 'x', '', 0, 0)", "DELETE FROM acme_thing")
	empty := acmeCase(contract.World{})
	full := acmeCase(contract.World{Rows: map[string][]contract.Row{"acme.acme_thing": {{"id": 499_999}, {}, {}}}})
	var keys []string
	for _, c := range []contract.Case{empty, full, empty} {
		run(t, s, full, rolledBack)
		for _, change := range changesOf(run(t, s, c, insert)) {
			keys = append(keys, change.Key)
		}
	}
	if diff := cmp.Diff([]string{"1000000", "1000000", "1000000"}, keys); diff != "" {
		t.Error(diff)
	}
}

func TestAWorldIsMadeWhereThereAreNoTablesButRecordedOnes(t *testing.T) {
	s := newStage(t)
	recorded, err := s.Schema(t.Context(), []string{"acme.acme_thing", "acme.acme_edge"})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(recorded, s.Namespace()) || strings.Contains(recorded, "AUTO_INCREMENT=") {
		t.Errorf("the schema names what belongs to one run:\n%s", recorded)
	}
	again := openEmpty(t)
	if err := again.Prepare(t.Context(), recorded); err != nil {
		t.Fatal(err)
	}
	second, err := again.Schema(t.Context(), []string{"acme.acme_edge", "acme.acme_thing"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(recorded, second); diff != "" {
		t.Errorf("what was made of a recorded schema is another: %s", diff)
	}
	if err := again.Prepare(t.Context(), recorded); err == nil || !strings.Contains(err.Error(), "holds tables already") {
		t.Errorf("the second Prepare answered %v", err)
	}
	if _, err := s.Schema(t.Context(), []string{"acme.none"}); err == nil || !strings.Contains(err.Error(), "no table acme.none") {
		t.Errorf("the schema of no table: %v", err)
	}
}

func TestWhatPrepareMadeIsGone(t *testing.T) {
	s := openEmpty(t)
	if err := s.Prepare(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), s.config)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if len(again.tables) > 0 {
		t.Errorf("%d tables are left", len(again.tables))
	}
}
