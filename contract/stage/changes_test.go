package stage

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/rows"
)

// base puts rows where the stage finds them when it is opened.
func base(t *testing.T) *Stage {
	t.Helper()
	s := newStage(t)
	db := acme(t, s)
	for _, statement := range []string{
		"INSERT INTO acme_thing (id, phid, name, bytes, flags, dateCreated) VALUES (1, 'PHID-ACME-1', 'one', '', 0, 0), (2, 'PHID-ACME-2', 'two', x'00ff', 0, 0), (3, '', 'three', '', 0, 0)",
		"INSERT INTO acme_edge VALUES ('a', 'b'), ('a', 'b'), ('c', 'd')",
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestChangesAreThoseOfTheRunAndArePutBack(t *testing.T) {
	for _, counts := range []bool{true, false} {
		s := base(t)
		if !s.counts {
			t.Fatal("this server does not count written rows")
		}
		s.counts = counts
		before := all(t, s)
		o := run(t, s, acmeCase(contract.World{Rows: map[string][]contract.Row{
			"acme.acme_thing": {{"id": 9, "name": "of the world"}, {"id": 10, "name": "of the world"}},
		}}), execute(t, s,
			"UPDATE acme_thing SET name = 'zwei', mail = 'x' WHERE id = 2",
			"UPDATE acme_thing SET flags = 0 WHERE id = 1",
			"DELETE FROM acme_thing WHERE id IN (3, 10)",
			"INSERT INTO acme_thing (id, phid, name, bytes, flags, dateCreated) VALUES (11, 'PHID-ACME-2', 'new', x'ff', 1, 0)",
			"DELETE FROM acme_edge WHERE src = 'c'"))
		want := []contract.Change{
			{Table: "acme.acme_edge", Kind: contract.Removed, Key: "c d"},
			{Table: "acme.acme_thing", Kind: contract.Changed, Key: "2", Columns: map[string]contract.Values{
				"name": {Before: ptr("two"), After: ptr("zwei")}, "mail": {After: ptr("x")},
			}},
			{Table: "acme.acme_thing", Kind: contract.Removed, Key: "3"},
			{Table: "acme.acme_thing", Kind: contract.Removed, Key: "10"},
			{Table: "acme.acme_thing", Kind: contract.Added, Key: "11", Columns: map[string]contract.Values{
				"id": {After: ptr("11")}, "phid": {After: ptr("PHID-ACME-2")}, "name": {After: ptr("new")}, "mail": {},
				"bytes": {After: ptr("\xff")}, "flags": {After: ptr("1")}, "size": {After: ptr("7")}, "dateCreated": {After: ptr("0")},
			}},
		}
		byPlace := cmp.Transformer("sorted", sorted)
		if diff := cmp.Diff(want, changesOf(o), byPlace); diff != "" {
			t.Errorf("counts %v: %s", counts, diff)
		}
		if diff := cmp.Diff(before, all(t, s), cmp.AllowUnexported(rows.Table{})); diff != "" {
			t.Errorf("counts %v: left behind: %s", counts, diff)
		}
	}
}

func sorted(changes []contract.Change) map[string]contract.Change {
	byPlace := map[string]contract.Change{}
	for _, c := range changes {
		byPlace[c.Table+" "+c.Key] = c
	}
	return byPlace
}

func TestATableThatWasEmptiedIsSeenAndPutBack(t *testing.T) {
	s := base(t)
	before := all(t, s)
	o := run(t, s, acmeCase(contract.World{}), execute(t, s, "TRUNCATE acme_thing", "TRUNCATE acme_edge"))
	if n := len(changesOf(o)); n != 6 {
		t.Errorf("%d changes: %+v", n, changesOf(o))
	}
	if diff := cmp.Diff(before, all(t, s), cmp.AllowUnexported(rows.Table{})); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

func TestWhatIsWrittenByTheWorldAloneIsNoChange(t *testing.T) {
	s := base(t)
	o := run(t, s, acmeCase(contract.World{Rows: map[string][]contract.Row{"acme.acme_thing": {{"name": "x"}}}}),
		execute(t, s, "UPDATE acme_thing SET name = name"))
	if got := changesOf(o); len(got) > 0 {
		t.Errorf("changes: %+v", got)
	}
}

func TestWhatIsWrittenBetweenTwoCasesIsNoChangeAndIsPutBack(t *testing.T) {
	s := base(t)
	before := all(t, s)
	if _, err := acme(t, s).Exec("UPDATE acme_thing SET name = 'meanwhile' WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	o := run(t, s, acmeCase(contract.World{}), execute(t, s, "UPDATE acme_thing SET name = 'now' WHERE id = 2"))
	if got := changesOf(o); len(got) != 1 || got[0].Key != "2" {
		t.Errorf("changes: %+v", got)
	}
	if diff := cmp.Diff(before, all(t, s), cmp.AllowUnexported(rows.Table{})); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}
