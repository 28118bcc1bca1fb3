package phorge

import (
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/php"
)

func TestUpgradeStorageCreatesWhatIsMissingAndNamesIt(t *testing.T) {
	q := newQueue(t)
	name := strings.Trim(q.gantry(), "`")
	upgraded := func() []string {
		t.Helper()
		created, err := UpgradeStorage(t.Context(), q.dsn, php.Library)
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	all := upgraded()
	if len(all) < 5 || all[0] != name || !slices.Contains(all, name+".attempts") || !slices.Contains(all, name+".receipts") {
		t.Errorf("it created %q", all)
	}
	if again := upgraded(); len(again) != 0 {
		t.Errorf("again it created %q", again)
	}
}

func TestUpgradeStorageLeavesWhatIsThereAsItIs(t *testing.T) {
	q := newQueue(t)
	name := q.upgrade()
	s := q.open()
	q.exec("DROP TABLE " + name + ".nonces")
	work(t, s, 3, failure)
	created, err := UpgradeStorage(t.Context(), q.dsn, php.Library)
	if want := []string{strings.Trim(name, "`") + ".nonces"}; err != nil || !slices.Equal(created, want) {
		t.Errorf("it created %q, want %q (%v)", created, want, err)
	}
	if got := q.number("SELECT COUNT(*) FROM " + name + ".attempts"); got != 3 {
		t.Errorf("%d attempts are left, want 3", got)
	}
}

func TestMissingStorageIsNamedTableByTable(t *testing.T) {
	q := newQueue(t)
	name := strings.Trim(q.upgrade(), "`")
	s := q.open()
	if missing, err := s.MissingStorage(t.Context(), php.Library); err != nil || missing != nil {
		t.Errorf("of all tables, %q are missing (%v)", missing, err)
	}
	q.exec("DROP TABLE " + name + ".receipts, " + name + ".outbox")
	missing, err := s.MissingStorage(t.Context(), php.Library)
	if want := []string{name + ".receipts", name + ".outbox"}; err != nil || !slices.Equal(missing, want) {
		t.Errorf("it misses %q, want %q (%v)", missing, want, err)
	}
	if created, err := UpgradeStorage(t.Context(), q.dsn, php.Library); err != nil || len(created) != len(missing) {
		t.Errorf("of %q, %q were created (%v)", missing, created, err)
	}
}

// As when Phorge and Gantry upgrade in the same moment.
func TestStorageIsUpgradedByManyAtOnce(t *testing.T) {
	q := newQueue(t)
	q.gantry()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if _, err := UpgradeStorage(t.Context(), q.dsn, php.Library); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if err := q.open().Gantry(); err != nil {
		t.Error(err)
	}
}

func TestTablesOfGantryHaveTheCollationsThatPhorgeExpects(t *testing.T) {
	q := newQueue(t)
	name := strings.Trim(q.upgrade(), "`")
	odd := q.number(`SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ?
AND COLLATION_NAME IS NOT NULL AND COLLATION_NAME != 'utf8mb4_bin'`, name)
	odd += q.number(`SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ? AND DEFAULT_COLLATION_NAME != 'utf8mb4_bin'`, name)
	if odd != 0 {
		t.Errorf("%d columns and databases have another collation", odd)
	}
}

func TestUpgradeStorageSaysWhatKeepsItFromWorking(t *testing.T) {
	q := newQueue(t)
	name := q.gantry()
	cfg, err := mysql.ParseDSN(q.dsn)
	if err != nil {
		t.Fatal(err)
	}
	q.exec("CREATE USER narrow@localhost IDENTIFIED BY 'hunter2'")
	t.Cleanup(func() { q.exec("DROP USER narrow@localhost") })
	q.exec("GRANT ALL ON `" + cfg.DBName + "`.* TO narrow@localhost")
	narrow := cfg.Clone()
	narrow.User, narrow.Passwd = "narrow", "hunter2"
	elsewhere := cfg.Clone()
	elsewhere.DBName = "mysql"
	for _, c := range []struct {
		name  string
		dsn   string
		files fs.FS
		want  string
	}{
		{"a user who may not create databases", narrow.FormatDSN(), php.Library, "grant it the rights that Phorge's own user has"},
		{"another database", elsewhere.FormatDSN(), php.Library, `the DSN names the database "mysql"`},
		{"no files", q.dsn, fstest.MapFS{}, "there are no files"},
		{"a file that the server refuses", q.dsn, fstest.MapFS{"resources/sql/1.sql": {Data: []byte("CREATE nothing;\n")}}, "error in your SQL syntax"},
		{"no DSN", "hunter2", php.Library, "the DSN cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			created, err := UpgradeStorage(t.Context(), c.dsn, c.files)
			if !contains(err, c.want) || contains(err, "hunter2") {
				t.Errorf("it created %q and answers %v, want an error that says %q", created, err, c.want)
			}
		})
	}
	t.Run("attempts without the right to write them", func(t *testing.T) {
		q.upgrade()
		q.exec("GRANT SELECT ON " + name + ".* TO narrow@localhost")
		s := q.open(func(c *Config) { c.DSN = narrow.FormatDSN() })
		work(t, s, 1, failure)
		if err := s.Gantry(); !contains(err, "grant this user SELECT, INSERT, UPDATE and DELETE") {
			t.Errorf("Gantry answers %v", err)
		}
	})
}
