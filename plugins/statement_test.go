package plugins

import (
	"strings"
	"testing"
)

func TestWhatAHandlerMayRun(t *testing.T) {
	for _, query := range []string{
		"SELECT 1",
		"  select * from `a b` where c = 'GET_LOCK(1)' -- GET_LOCK('x')",
		"(SELECT 1) UNION (SELECT 2)",
		"SELECT * FROM t FOR UPDATE",
		"/* why */ SELECT REPLACE(a, 'x', 'y'), INSERT(a, 1, 1, 'z') FROM t # OUTFILE",
		"WITH x AS (SELECT 1) SELECT REPLACE(a, 'b', 'c') FROM x FOR UPDATE",
		"SHOW TABLES",
		`SELECT 'it''s', "a\"b", 'INTO OUTFILE'`,
		"SELECT get_lock FROM t",
		"SELECT 1--1",
		"SELECT `@`, '@a', next, value FROM `b@c` -- @d",
		"SELECT last_insert_id()",
	} {
		if _, err := permit(query, reading); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	for _, query := range []string{
		"INSERT INTO t VALUES (1)", "update t set a = 1", "DELETE FROM t", "REPLACE INTO t VALUES (1)",
		"INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = VALUES(a)",
	} {
		if _, err := permit(query, writing); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestWhatAHandlerMayNotRun(t *testing.T) {
	for query, want := range map[string]string{
		"":                                       "may not run",
		"START TRANSACTION":                      "Task.Transact",
		"BEGIN":                                  "Task.Transact",
		"COMMIT":                                 "Task.Transact",
		"CREATE TABLE t (a INT)":                 `may not run "CREATE"`,
		"ALTER TABLE t ADD b INT":                "may not run",
		"DROP TABLE t":                           "may not run",
		"TRUNCATE TABLE t":                       "may not run",
		"LOCK TABLES t WRITE":                    "may not run",
		"SET autocommit = 1":                     "may not run",
		"/**/set autocommit=1":                   "may not run",
		"DO GET_LOCK('a', 0)":                    "may not run",
		"CALL p()":                               "may not run",
		"USE other":                              "may not run",
		"FLUSH TABLES":                           "may not run",
		"ANALYZE UPDATE t SET a = 1":             "may not run",
		"LOAD DATA INFILE 'x' INTO TABLE t":      "may not run",
		"SELECT GET_LOCK('a', 0)":                "Task.Lock",
		"SELECT 1, release_lock ('a')":           "Task.Lock",
		"SELECT `RELEASE_ALL_LOCKS`()":           "Task.Lock",
		"SELECT 1 INTO OUTFILE '/tmp/x'":         "a file of the server",
		"SELECT 1 INTO dumpfile '/tmp/x'":        "a file of the server",
		"SELECT @a":                              "variables of Go",
		"SELECT 1 FROM t WHERE (@`a` := 1)":      "variables of Go",
		"SELECT 1 INTO @'a'":                     "variables of Go",
		"SELECT @@sql_mode":                      "variables of Go",
		"SELECT NEXT VALUE FOR s":                "AUTO_INCREMENT",
		"SELECT previous/**/value\nfor s":        "AUTO_INCREMENT",
		"SELECT nextval(s)":                      "AUTO_INCREMENT",
		"SELECT SETVAL (s, 1)":                   "AUTO_INCREMENT",
		"SELECT `LASTVAL`(s)":                    "AUTO_INCREMENT",
		"SELECT LOAD_FILE('/etc/hostname')":      "a file of the server",
		"/*! DROP TABLE t */":                    "/*!",
		"SELECT 1 /*M! INTO @a */":               "/*!",
		"WITH x AS (SELECT 1) DELETE FROM t":     "without WITH",
		"WITH x AS (SELECT 1) UPDATE t SET a=1":  "without WITH",
		"INSERT INTO t VALUES (1)":               "use Exec",
		"SELECT '\\' GET_LOCK', GET_LOCK('a',0)": "Task.Lock",
	} {
		if _, err := permit(query, reading); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", query, err, want)
		}
	}
	if _, err := permit("SELECT 1", writing); err == nil || !strings.Contains(err.Error(), "Query") {
		t.Errorf("SELECT by Exec: %v", err)
	}
}

func TestTheNamesInAStatement(t *testing.T) {
	s, err := permit("UPDATE `Other db`.t a, user SET a.x = 'no.such', `b`=1.5 WHERE ns_herald . hook.id = 1", writing)
	if err != nil {
		t.Fatal(err)
	}
	reads, err := permit("SELECT F(1), ns_herald.`g` (2), 'h(' FROM t", reading)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.qualifiers, " "); got != "other db a 1 ns_herald hook" {
		t.Errorf("names in front of a dot: %s", got)
	}
	if got := strings.Join(reads.calls, " "); got != "f( g(" {
		t.Errorf("calls: %s", got)
	}
	if got := strings.Join(s.names, " "); !strings.Contains(got, "user") || strings.Contains(got, "such") {
		t.Errorf("names: %s", got)
	}
}

func FuzzScan(f *testing.F) {
	for _, seed := range []string{"SELECT 'a", "`", "/*", "--", "#", `'\`, "a.b(c)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		tokens, err := scan(query)
		if err == nil {
			_ = forbidden(read(tokens).verb, tokens)
		}
	})
}
