package plugins_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// site makes the databases of a Phorge with a few tables, and answers a site
// for them and a connection to look at them by.
func site(t testing.TB) (*plugins.Site, *sql.DB) {
	t.Helper()
	server := harness.Shared(t)
	namespace := "site_" + strings.ToLower(strings.Map(func(r rune) rune {
		if 'a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, t.Name()))
	namespace = namespace[:min(len(namespace), 40)]
	db, err := sql.Open("mysql", server.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	s := &plugins.Site{Namespace: namespace, DSNs: map[string]string{}, Options: map[string]json.RawMessage{}}
	for _, application := range []string{"herald", "user", "config", "repository"} {
		execute(t, db, "CREATE DATABASE "+namespace+"_"+application)
		s.DSNs[application] = server.DSN(namespace + "_" + application)
	}
	execute(t, db, "CREATE TABLE "+namespace+"_herald.hook (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(64) NOT NULL) ENGINE=InnoDB")
	execute(t, db, "CREATE TABLE "+namespace+"_herald.words (name VARCHAR(64) NOT NULL) ENGINE=MyISAM")
	execute(t, db, "CREATE TABLE "+namespace+"_user.user (id INT PRIMARY KEY, name VARCHAR(64) NOT NULL) ENGINE=InnoDB")
	execute(t, db, "CREATE TABLE "+namespace+`_config.config_entry (
  namespace VARCHAR(64) NOT NULL, configKey VARCHAR(64) NOT NULL, value LONGTEXT NOT NULL, isDeleted TINYINT NOT NULL,
  UNIQUE KEY key_name (namespace, configKey)) ENGINE=InnoDB COLLATE utf8mb4_unicode_ci`)
	execute(t, db, "INSERT INTO "+namespace+"_herald.hook (name) VALUES ('one'), ('two'), ('three')")
	execute(t, db, "INSERT INTO "+namespace+"_user.user VALUES (1, 'alice')")
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for application := range s.DSNs {
			execute(t, db, "DROP DATABASE "+namespace+"_"+application)
		}
		db.Close()
	})
	return s, db
}

func execute(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatal(err)
	}
}

// names answers what stands in the table of hooks.
func names(t testing.TB, db *sql.DB, s *plugins.Site) string {
	t.Helper()
	var found sql.NullString
	if err := db.QueryRow("SELECT GROUP_CONCAT(name ORDER BY id) FROM " + s.Namespace + "_herald.hook").Scan(&found); err != nil {
		t.Fatal(err)
	}
	return found.String
}

// at runs a handler once and insists that it succeeds.
func at(t testing.TB, s *plugins.Site, handle func(context.Context, *plugins.Task) error) {
	t.Helper()
	outcome := handler(handle).ExecuteAt(t.Context(), s, tasks.Task{ID: 1}, nil)
	if outcome.Kind != tasks.Succeeded {
		t.Fatalf("%s: %s", outcome.Kind, outcome.Reason)
	}
}

func handler(handle func(context.Context, *plugins.Task) error) plugins.Handler {
	return plugins.Handler{Class: "AcmeWorker", Handle: handle, Databases: []string{"herald", "user"}, Options: []string{"acme.hooks", "acme.list"}}
}

func TestAHandlerReadsAndWritesADatabase(t *testing.T) {
	s, db := site(t)
	at(t, s, func(ctx context.Context, task *plugins.Task) error {
		result, err := task.DB("herald").Exec(ctx, "UPDATE hook SET name = ? WHERE id < 3", "two")
		if err != nil {
			return err
		}
		if n, _ := result.RowsAffected(); n != 1 {
			t.Errorf("%d rows affected; PHP counts those that changed, 1", n)
		}
		var name string
		if err := task.DB("herald").QueryRow(ctx, "SELECT name FROM hook WHERE id = ?", 1).Scan(&name); err != nil || name != "two" {
			t.Errorf("read %q, %v", name, err)
		}
		if err := task.DB("herald").QueryRow(ctx, "SELECT name FROM hook WHERE id = 99").Scan(&name); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("no row answers %v", err)
		}
		return task.DB("user").QueryRow(ctx, "SELECT u.name FROM user u WHERE u.id = 1").Scan(&name)
	})
	if got := names(t, db, s); got != "two,two,three" {
		t.Errorf("the table holds %s", got)
	}
}

func TestAShadowRunLeavesNothingWritten(t *testing.T) {
	s, db := site(t)
	outcome, effects := handler(func(ctx context.Context, task *plugins.Task) error {
		if _, err := task.DB("herald").Exec(ctx, "INSERT INTO hook (name) VALUES (?)", "four"); err != nil {
			return err
		}
		return task.Transact(ctx, "herald", func(tx plugins.DB) error {
			_, err := tx.Exec(ctx, "DELETE FROM hook WHERE id < 3")
			return err
		})
	}).Shadow(t.Context(), s, tasks.Task{ID: 1})
	if outcome.Kind != tasks.Succeeded {
		t.Fatalf("%s: %s", outcome.Kind, outcome.Reason)
	}
	if got := names(t, db, s); got != "one,two,three" {
		t.Errorf("the table holds %s", got)
	}
	if len(effects.Writes) != 2 || effects.Writes[1].Rows != 2 {
		t.Errorf("effects: %+v", effects)
	}
}
