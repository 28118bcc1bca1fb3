package mask

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"
	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// namespace makes databases with rows that refer to one another.
func namespace(t *testing.T, statements ...string) (string, Look) {
	t.Helper()
	db := harness.Open(t, harness.Shared(t).DSN(""))
	ns := "mask" + strings.ToLower(strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, t.Name()))
	t.Cleanup(func() {
		for _, application := range []string{"herald", "feed"} {
			if _, err := db.Exec("DROP DATABASE IF EXISTS `" + ns + "_" + application + "`"); err != nil {
				t.Error(err)
			}
		}
		db.Close()
	})
	for _, statement := range append([]string{
		"CREATE DATABASE %s_herald CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
		"CREATE DATABASE %s_feed CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
		`CREATE TABLE %s_herald.hook (id int unsigned PRIMARY KEY, phid varbinary(64) NOT NULL, name varchar(128) NOT NULL, uri longtext NOT NULL,
			status varchar(32) NOT NULL, hmacKey varchar(32) NOT NULL, editorPHID varbinary(64), dateCreated int unsigned NOT NULL, bytes varbinary(16))`,
		`CREATE TABLE %s_herald.request (id int unsigned PRIMARY KEY, phid varbinary(64) NOT NULL, hookPHID varbinary(64) NOT NULL, properties longtext NOT NULL)`,
		`CREATE TABLE %s_feed.story (id int unsigned PRIMARY KEY, storyKey bigint unsigned NOT NULL, authorPHID varbinary(64) NOT NULL)`,
	}, statements...) {
		if _, err := db.Exec(fmt.Sprintf(statement, ns)); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return ns, In(ns, func(string) (*sql.DB, error) { return db, nil })
}

func tables(t *testing.T, texts ...string) (tables []Table) {
	t.Helper()
	for _, text := range texts {
		table, err := ParseTable(text)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	return tables
}

const (
	request = "PHID-HWBR-requestrequestreques"
	hook    = "PHID-HWBH-hookhookhookhookhook"
	editor  = "PHID-USER-alicealicealicealice"
)

func TestRowsComeAlongAndStillReferToOneAnother(t *testing.T) {
	_, look := namespace(t,
		`INSERT INTO %[1]s_herald.hook VALUES (17, '`+hook+`', 'Alice''s hook', 'https://alice:pass@ci.acme.com/hook?key=0123456789abcdef0123', 'enabled',
			'abcdefghijklmnopqrstuvwxyz012345', '`+editor+`', 1799999000, X'ff00fe'), (18, 'PHID-HWBH-otherotherotherother', 'Other', '', 'enabled', '', NULL, 0, NULL)`,
		`INSERT INTO %[1]s_herald.request VALUES (4711, '`+request+`', '`+hook+`', '{"retry":"never","triggerPHIDs":["PHID-HRUL-alicerulethetherulex"]}')`,
		`INSERT INTO %[1]s_feed.story VALUES (1, 7712345678901234567, '`+editor+`'), (2, 7712345678901234568, '`+editor+`')`)

	m := masker(t)
	record := tasks.Record{Task: tasks.Task{Class: "HeraldWebhookWorker", Priority: tasks.PriorityAlerts, FailureCount: 2,
		Data: []byte(`{"webhookRequestPHID":"` + request + `","key":"7712345678901234567"}`), ObjectPHID: new(request)}}
	got, err := m.Case(t.Context(), "a", record, tables(t, "herald.hook", "herald.request", "feed.story.storyKey"), look)
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimSuffix(strings.SplitAfter(got.Data, `"key":"`)[1], `"}`)
	if len(key) != 19 || key == "7712345678901234567" {
		t.Errorf("the key became %s", key)
	}
	hooks := got.World.Rows["herald.hook"]
	if len(hooks) != 1 {
		t.Fatalf("hooks: %v", hooks)
	}
	name, secret := hooks[0]["name"].(string), hooks[0]["hmacKey"].(string)
	if len(name) != 8 || strings.Contains(name, "lice") || len(secret) != 32 || secret == "abcdefghijklmnopqrstuvwxyz012345" {
		t.Errorf("the name became %q, the key %q", name, secret)
	}
	if uri := hooks[0]["uri"].(string); !strings.Contains(uri, "@host1.example/hook?key=") || strings.Contains(uri, "alice") || strings.Contains(uri, "0123456789") {
		t.Errorf("the URI became %s", uri)
	}
	hooks[0]["name"], hooks[0]["hmacKey"], hooks[0]["uri"], hooks[0]["bytes"] = "", "", "", ""
	want := contract.World{Rows: map[string][]contract.Row{
		"herald.hook": {{"id": int64(3), "phid": "PHID-HWBH-00000000000000000001", "name": "", "uri": "", "status": "enabled",
			"hmacKey": "", "editorPHID": "PHID-USER-00000000000000000001", "dateCreated": "{{now-1000}}", "bytes": ""}},
		"herald.request": {{"id": int64(1), "phid": "PHID-HWBR-00000000000000000001", "hookPHID": "PHID-HWBH-00000000000000000001",
			"properties": `{"retry":"never","triggerPHIDs":["PHID-HRUL-00000000000000000001"]}`}},
		"feed.story": {{"id": int64(2), "storyKey": whole(key), "authorPHID": "PHID-USER-00000000000000000001"}},
	}}
	for table, rows := range want.Rows {
		if diff := cmp.Diff(rows, got.World.Rows[table]); diff != "" {
			t.Errorf("%s: %s", table, diff)
		}
	}
	if got.Task.FailureCount != 2 || *got.Task.Priority != tasks.PriorityAlerts || *got.Task.ObjectPHID != "PHID-HWBR-00000000000000000001" || got.Task.ContainerPHID != nil {
		t.Errorf("the task's columns became %+v", got.Task)
	}
}

func TestWhatIsLookedForInTablesIsExact(t *testing.T) {
	_, look := namespace(t,
		`INSERT INTO %[1]s_feed.story VALUES (1, 0, 'x'), (2, 7712345678901234567, 'x'), (3, 7712345678901234568, 'x'), (4, 18446744073709551615, 'x')`)
	for _, c := range []struct {
		data string
		want int
	}{
		{`{"key":"no number"}`, 0}, // and not the row with the key 0
		{`{"key":"7712345678901234568"}`, 1},
		{`{"key":7712345678901234568}`, 1},
		{`{"key":18446744073709551615}`, 1},
		{`{"key":[0,"7712345678901234567"]}`, 2},
		{`no JSON`, 0},
	} {
		got, err := masker(t).Case(t.Context(), "a", tasks.Record{Task: tasks.Task{Data: []byte(c.data)}}, tables(t, "feed.story.storyKey"), look)
		if err != nil || len(got.World.Rows["feed.story"]) != c.want {
			t.Errorf("%s: %v, %v", c.data, got.World.Rows, err)
		}
	}
}

func TestRowsThatCannotComeAlong(t *testing.T) {
	ns, look := namespace(t, `INSERT INTO %[1]s_feed.story SELECT seq, seq, 'PHID-USER-a' FROM %[1]s_feed.seq_1_to_300`)
	record := tasks.Record{Task: tasks.Task{ID: 7, Data: []byte(`{"by":"PHID-USER-a"}`)}}
	for _, c := range []struct{ table, want string }{
		{"feed.story.authorPHID", "task 7: too many rows: the task refers to more than 200, the last ones in feed.story; leave out a table"},
		{"feed.nothing", "Table '" + ns + "_feed.nothing' doesn't exist"},
		{"files.file", "task 7: look for rows of files.file: "},
		{"feed.story", "the table has no column phid; name the one that the data refers to"},
	} {
		_, err := masker(t).Case(t.Context(), "a", record, tables(t, c.table), look)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.table, err)
		}
	}
	if _, err := masker(t).Case(t.Context(), "a", record, tables(t, "feed.story.authorPHID"), look); !errors.Is(err, ErrTooMany) {
		t.Errorf("%v is not ErrTooMany", err)
	}
	for _, wrong := range []string{"", "story", "feed.", "feed.a b", "feed.a.b.c", "feed`.a", "Feed.a", "feed.a;DROP"} {
		if table, err := ParseTable(wrong); err == nil {
			t.Errorf("%q is the table %v", wrong, table)
		}
	}
}

func TestRowsAreOnlyRead(t *testing.T) {
	ns, look := namespace(t)
	table := Table{"feed", "story` (id) VALUES (1); -- ", "phid"} // not one that ParseTable answers
	if _, err := look(t.Context(), table, []string{"x"}); err == nil {
		t.Fatal("that was taken for a table")
	}
	db := harness.Open(t, harness.Shared(t).DSN(""))
	// What an Exec on the transaction of a look would come to.
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("INSERT INTO " + ns + "_feed.story VALUES (1, 1, 'x')"); err == nil || !strings.Contains(err.Error(), "READ ONLY") {
		t.Errorf("the server lets it write: %v", err)
	}
}

func TestSpreadTakesOneOfEachShapeFirst(t *testing.T) {
	var records []tasks.Record
	for i, data := range []string{
		`{"a":1}`, `{"a":2}`, `{"a":3}`, `{"a":"x"}`, `{"a":"y"}`, `{"b":null}`, `{"a":"PHID-USER-x"}`, `{"a":4}`, `{"a":"ümlaut"}`, `no`, ``, `{"a":"queued"}`, `{"a":"a@b.org"}`,
	} {
		records = append(records, tasks.Record{Task: tasks.Task{ID: int64(i + 1), Data: []byte(data)}})
	}
	ids := func(n int) (ids []int64) {
		for _, r := range Spread(records, n) {
			ids = append(ids, r.ID)
		}
		return ids
	}
	for n, want := range map[int][]int64{
		1:  {1},
		2:  {1, 4},
		3:  {1, 4, 10},
		9:  {1, 4, 10, 6, 7, 9, 12, 13, 2},
		10: {1, 4, 10, 6, 7, 9, 12, 13, 2, 5},
		99: {1, 4, 10, 6, 7, 9, 12, 13, 2, 5, 11, 3, 8},
	} {
		if diff := cmp.Diff(want, ids(n)); diff != "" {
			t.Errorf("%d: %s", n, diff)
		}
	}
}
