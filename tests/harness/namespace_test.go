package harness

import (
	"database/sql"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

func query(t *testing.T, db *sql.DB, statement string) string {
	t.Helper()
	var value string
	if err := db.QueryRow(statement).Scan(&value); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return value
}

func TestNamespacesAreEmptyApartAndDropped(t *testing.T) {
	var first, second string
	t.Run("while they are used", func(t *testing.T) {
		first, second = Namespace(t), Namespace(t)
		if _, err := Open(t, first).Exec("INSERT INTO worker_taskdata (data) VALUES ('[]')"); err != nil {
			t.Fatal(err)
		}
		if got := query(t, Open(t, second), "SELECT COUNT(*) FROM worker_taskdata"); got != "0" {
			t.Errorf("the other namespace holds %s rows, want 0", got)
		}
	})
	for _, dsn := range []string{first, second} {
		if err := Open(t, dsn).PingContext(t.Context()); err == nil {
			t.Errorf("%s is still there", dsn)
		}
	}
}
