package phorge

import (
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// The driver is asked, because it is who takes the DSN apart in the end.
func TestPasswordsAreFoundWhereTheDriverFindsThemAndNotShown(t *testing.T) {
	const password = "hunter2:/@?&"
	for _, c := range []struct{ dsn, shown string }{
		{"u:p@tcp(h:3306)/db", "u:***@tcp(h:3306)/db"},
		{"u:" + password + "@tcp(h:3306)/db", "u:***@tcp(h:3306)/db"},
		{"u:a@b@tcp(h:3306)/db?tls=true&secret", "u:***@tcp(h:3306)/db?tls=***"},
		{"u@tcp(h)/db?connectionAttributes=a@b&timeout=3s", "u@tcp(h:3306)/db?connectionAttributes=***&timeout=***"},
		{"u@unix(/run/mysqld/mysqld.sock)/db", "u@unix(/run/mysqld/mysqld.sock)/db"},
		{"u:@tcp(h:3306)/db", "u@tcp(h:3306)/db"},
		{"tcp([::1]:3306)/db", "tcp([::1]:3306)/db"},
		{"/db", "tcp(127.0.0.1:3306)/db"},
	} {
		t.Run(c.shown, func(t *testing.T) {
			parsed, err := mysql.ParseDSN(c.dsn)
			if err != nil {
				t.Fatal(err)
			}
			if found := PasswordIn(c.dsn); found != parsed.Passwd {
				t.Errorf("PasswordIn(%q) = %q, want %q", c.dsn, found, parsed.Passwd)
			}
			if shown := ShowDSN(c.dsn); shown != c.shown {
				t.Errorf("%q is shown as %q, want %q", c.dsn, shown, c.shown)
			}
		})
	}
	for dsn, password := range map[string]string{"mysql://root@foo/bar": "", "mysql://root:p@foo/bar": "p"} {
		if found := PasswordIn(dsn); found != password || ShowDSN(dsn) != "***" {
			t.Errorf("%q, which is a URL and no DSN, holds the password %q and is shown as %q", dsn, found, ShowDSN(dsn))
		}
	}
	for _, text := range []string{"no-dsn-at-all", "u:p@h", "u:p@tcp(h)/db?timeout=" + password} {
		if shown := ShowDSN(text); shown != "***" || PasswordIn(text) == "" {
			t.Errorf("%q, which is no DSN, is shown as %q", text, shown)
		}
	}
}

func TestTheNamespaceIsInTheNameOfTheDatabase(t *testing.T) {
	if got, err := NamespaceIn("u:p@tcp(h)/my_ns_worker?timeout=3s"); err != nil || got != "my_ns" {
		t.Errorf("it is %q, %v", got, err)
	}
	for _, dsn := range []string{"u:p@tcp(h)/other", "u:p@tcp(h)/_worker", "hunter2"} {
		if got, err := NamespaceIn(dsn); err == nil || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%q has the namespace %q, %v", dsn, got, err)
		}
	}
}
