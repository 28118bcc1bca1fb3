package phorge

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// phorgeDir answers a directory that looks like a Phorge with these files in
// conf/local.
func phorgeDir(t *testing.T, files map[string]string) string {
	t.Helper()
	t.Setenv("PHABRICATOR_ENV", "")
	dir := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("bin/worker", "#!/bin/sh\n")
	for name, content := range files {
		write("conf/local/"+name, content)
	}
	return dir
}

func TestReadPhorgeFindsTheWorkerDatabase(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "sock")
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	usual := sockets
	t.Cleanup(func() { sockets = usual })
	cluster := func(entries string) string { return `{"mysql.pass": "p", "cluster.databases": [` + entries + `]}` }
	for _, c := range []struct {
		name, config string
		socket       bool // there is one
		user, pass   string
		address      string
		namespace    string
		readOnly     bool
	}{
		{"nothing configured", "", false, "root", "", "localhost:3306", "phabricator", false},
		{"nothing configured, with a socket", "{}", true, "root", "", socket, "phabricator", false},
		{"localhost with a port is no socket", `{"mysql.port": "3307"}`, true, "root", "", "127.0.0.1:3307", "phabricator", false},
		{"localhost with an empty port is the socket", `{"mysql.port": ""}`, true, "root", "", socket, "phabricator", false},
		{"localhost in a cluster is no socket", cluster(`{"host": "localhost", "role": "master"}`), true, "root", "p", "127.0.0.1:3306", "phabricator", false},
		{"everything", `{"mysql.host": "db", "mysql.port": 3307, "mysql.user": "u", "mysql.pass": "p", "storage.default-namespace": "ns"}`,
			true, "u", "p", "db:3307", "ns", false},
		{"the port as text", `{"mysql.host": "db", "mysql.port": "3307"}`, false, "root", "", "db:3307", "phabricator", false},
		{"an empty port", `{"mysql.host": "db", "mysql.port": ""}`, false, "root", "", "db:3306", "phabricator", false},
		{"null is not set", `{"mysql.host": "db", "mysql.port": null, "mysql.user": null}`, false, "root", "", "db:3306", "phabricator", false},
		{"the port in the host", `{"mysql.host": "db:3308"}`, false, "root", "", "db:3308", "phabricator", false},
		{"an IPv6 host", `{"mysql.host": "::1"}`, false, "root", "", "[::1]:3306", "phabricator", false},
		{"read-only", `{"mysql.host": "db", "cluster.read-only": true}`, false, "root", "", "db:3306", "phabricator", true},
		{"options of others", `{"phabricator.base-uri": "http://x/", "cluster.mailers": [{"key": 1}], "mysql.host": "db"}`,
			false, "root", "", "db:3306", "phabricator", false},
		{"a password of special characters", `{"mysql.host": "db", "mysql.pass": "a@b/c:d?e(f)g%41&=#é\"'\\ "}`,
			false, "root", `a@b/c:d?e(f)g%41&=#é"'\ `, "db:3306", "phabricator", false},
		{"a cluster of one master with replicas", cluster(`{"host": "r1", "role": "replica"}, {"host": "m1", "role": "master", "port": 3309}`),
			false, "root", "p", "m1:3309", "phabricator", false},
		{"a master with a user of its own", cluster(`{"host": "m1", "role": "master", "user": "u1", "pass": "p1"}`),
			false, "u1", "p1", "m1:3306", "phabricator", false},
		{"a partition that has the worker", cluster(`{"host": "m1", "role": "master", "partition": ["default"]},
{"host": "m2", "role": "master", "partition": ["maniphest", "worker"]}`), false, "root", "p", "m2:3306", "phabricator", false},
		{"partitions of which none has the worker", cluster(`{"host": "m1", "role": "master", "partition": ["maniphest"]},
{"host": "m2", "role": "master", "partition": ["default"]}`), false, "root", "p", "m2:3306", "phabricator", false},
		{"a disabled master beside the enabled one", cluster(`{"host": "m1", "role": "master", "partition": ["default"], "disabled": true},
{"host": "m2", "role": "master", "partition": ["default"]}`), false, "root", "p", "m2:3306", "phabricator", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			sockets = nil
			if c.socket {
				sockets = []string{socket}
			}
			files := map[string]string{}
			if c.config != "" {
				files["local.json"] = c.config
			}
			site, err := ReadPhorge(phorgeDir(t, files))
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := mysql.ParseDSN(site.DSN)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.User != c.user || cfg.Passwd != c.pass || cfg.Addr != c.address || cfg.DBName != c.namespace+"_worker" ||
				site.Namespace != c.namespace || site.ReadOnly != c.readOnly {
				t.Errorf("user %q, password %q, address %q, database %q, namespace %q, read-only %t",
					cfg.User, cfg.Passwd, cfg.Addr, cfg.DBName, site.Namespace, site.ReadOnly)
			}
			if want := map[bool]string{true: "unix", false: "tcp"}[strings.HasPrefix(c.address, "/")]; cfg.Net != want {
				t.Errorf("network %s, want %s", cfg.Net, want)
			}
		})
	}
}

func TestReadPhorgeFindsWhatElseIsToBeKnown(t *testing.T) {
	partitions := func(first, second string) string {
		return `"cluster.databases": [{"host": "m1", "role": "master", "partition": [` + first + `]},
{"host": "m2", "role": "master", "partition": [` + second + `], "user": "u2"}]`
	}
	for _, c := range []struct {
		name, config string
		want         Site
	}{
		{"nothing is set", `"mysql.host": "db"`, Site{
			DSN: "root@tcp(db:3306)/phabricator_worker", DaemonDSN: "root@tcp(db:3306)/phabricator_daemon",
		}},
		{"everything is set", `"mysql.host": "db", "storage.default-namespace": "ns", "phabricator.base-uri": "https://p.example/",
"phd.user": "daemons", "load-libraries": ["/lib/gantry/src", "beside/src"]`, Site{
			DSN: "root@tcp(db:3306)/ns_worker", DaemonDSN: "root@tcp(db:3306)/ns_daemon", Namespace: "ns",
			BaseURI: "https://p.example/", DaemonUser: "daemons", Libraries: []string{"/lib/gantry/src", "DIR/beside/src"},
		}},
		{"the daemons have a master of their own", partitions(`"default"`, `"daemon"`), Site{
			DSN: "root@tcp(m1:3306)/phabricator_worker", DaemonDSN: "u2@tcp(m2:3306)/phabricator_daemon",
		}},
		{"the worker has a master of its own", partitions(`"default"`, `"worker"`), Site{
			DSN: "u2@tcp(m2:3306)/phabricator_worker", DaemonDSN: "root@tcp(m1:3306)/phabricator_daemon", GantryApart: true,
		}},
		{"the worker shares its master with gantry", partitions(`"default"`, `"worker", "gantry"`), Site{
			DSN: "u2@tcp(m2:3306)/phabricator_worker", DaemonDSN: "root@tcp(m1:3306)/phabricator_daemon",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := phorgeDir(t, map[string]string{"local.json": "{" + c.config + "}"})
			site, err := ReadPhorge(dir)
			if err != nil {
				t.Fatal(err)
			}
			for i, library := range site.Libraries {
				site.Libraries[i] = strings.Replace(library, filepath.Dir(dir), "DIR", 1)
			}
			c.want.Namespace = cmp.Or(c.want.Namespace, "phabricator")
			// The parameters of the session are not what this is about.
			site.DSN, _, _ = strings.Cut(site.DSN, "?")
			site.DaemonDSN, _, _ = strings.Cut(site.DaemonDSN, "?")
			if diff := gocmp.Diff(c.want, site, cmpopts.IgnoreUnexported(Site{}), cmpopts.IgnoreFields(Site{}, "Options")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestASiteKnowsTheMasterOfEveryApplication(t *testing.T) {
	site, err := ReadPhorge(phorgeDir(t, map[string]string{"local.json": `{"mysql.pass": "p", "cluster.databases": [
{"host": "m1", "role": "master", "partition": ["default"]},
{"host": "m2", "role": "master", "partition": ["herald", "feed"], "user": "u2", "pass": "p2"},
{"host": "m3", "role": "master", "partition": ["repository"], "disabled": true}]}`}))
	if err != nil {
		t.Fatal(err)
	}
	for application, want := range map[string]string{
		"herald":     "u2:p2@tcp(m2:3306)/phabricator_herald",
		"config":     "root:p@tcp(m1:3306)/phabricator_config",
		"repository": "root:p@tcp(m1:3306)/phabricator_repository", // the one that names it is disabled
	} {
		dsn, err := site.Database(application)
		if dsn, _, _ = strings.Cut(dsn, "?"); err != nil || dsn != want {
			t.Errorf("%s is at %s, %v; want %s", application, dsn, err, want)
		}
	}
	site, err = ReadPhorge(phorgeDir(t, map[string]string{"local.json": `{"cluster.databases": [
{"host": "m1", "role": "master", "partition": ["worker", "daemon", "gantry"]}, {"host": "m2", "role": "master", "partition": ["feed"]}]}`}))
	if err != nil {
		t.Fatal(err)
	}
	if dsn, err := site.Database("herald"); err == nil || !strings.Contains(err.Error(), "no enabled master for the application herald") {
		t.Errorf("an application without a master is at %q, %v", dsn, err)
	}
}

func TestASiteHasTheOptionsOfTheFile(t *testing.T) {
	site, err := ReadPhorge(phorgeDir(t, map[string]string{"local.json": `{"mysql.host": "db", "feed.http-hooks": ["http://x/"], "a": null}`}))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]json.RawMessage{"mysql.host": []byte(`"db"`), "feed.http-hooks": []byte(`["http://x/"]`), "a": []byte(`null`)}
	if diff := gocmp.Diff(want, site.Options); diff != "" {
		t.Error(diff)
	}
}

func TestReadPhorgeRefusesWhatItCannotRead(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"broken JSON", map[string]string{"local.json": `{"mysql.pass": "hunter2",, "a": 1}`}, "local.json: it is no JSON at byte 26"},
		{"a password that is a number", map[string]string{"local.json": `{"mysql.pass": 77123456}`}, "mysql.pass holds a number"},
		{"a port that is none", map[string]string{"local.json": `{"mysql.host": "db", "mysql.port": "nine"}`}, "is no port"},
		{"a port out of range", map[string]string{"local.json": `{"mysql.host": "db", "mysql.port": 70000}`}, `"70000", is no port`},
		{"a port that is a list", map[string]string{"local.json": `{"mysql.host": "db", "mysql.port": [1]}`}, "no port"},
		{"a cluster without a master", map[string]string{"local.json": `{"cluster.databases": [{"host": "r", "role": "replica"}]}`},
			"cluster.databases names no enabled master for the application worker"},
		{"a cluster whose master is disabled", map[string]string{"local.json": `{"cluster.databases": [{"host": "m", "role": "master", "disabled": true}]}`},
			"cluster.databases names no enabled master for the application worker"},
		{"a configuration in PHP", map[string]string{"ENVIRONMENT": "custom/site\n", "local.json": "{}"}, "conf/custom/site.conf.php, which only PHP can read"},
		{"a file that cannot be read", map[string]string{"local.json/x": ""}, "run Gantry as a user who may, such as phd.user"},
		{"an ENVIRONMENT that cannot be read", map[string]string{"ENVIRONMENT/x": "", "local.json": "{}"}, "run Gantry as a user who may, such as phd.user"},
	} {
		t.Run(c.name, func(t *testing.T) {
			site, err := ReadPhorge(phorgeDir(t, c.files))
			if !contains(err, c.want) {
				t.Errorf("%+v, error %v; want one that says %q", site, err, c.want)
			}
			if contains(err, "hunter2") || contains(err, "77123456") {
				t.Errorf("the error quotes a value: %v", err)
			}
		})
	}
	t.Run("a directory of something else", func(t *testing.T) {
		if _, err := ReadPhorge(t.TempDir()); !contains(err, "is no Phorge: it has no bin/worker") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("an environment that Phorge takes for granted", func(t *testing.T) {
		if _, err := ReadPhorge(phorgeDir(t, map[string]string{"ENVIRONMENT": "production\n"})); err != nil {
			t.Error(err)
		}
		own := phorgeDir(t, map[string]string{"ENVIRONMENT": "production", "../production.conf.php": "<?php return array();"})
		if _, err := ReadPhorge(own); !contains(err, "conf/production.conf.php") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("PHABRICATOR_ENV", func(t *testing.T) {
		dir := phorgeDir(t, map[string]string{"local.json": "{}"})
		t.Setenv("PHABRICATOR_ENV", "other")
		if _, err := ReadPhorge(dir); !contains(err, "conf/other.conf.php") {
			t.Errorf("error %v", err)
		}
	})
}

func TestReadPhorgeFindsTheLibraries(t *testing.T) {
	dir := phorgeDir(t, map[string]string{"local.json": `{"load-libraries": ["/srv/ours/src", "gantry/php/src"]}`})
	site, err := ReadPhorge(dir)
	if want := []string{"/srv/ours/src", filepath.Join(filepath.Dir(dir), "gantry/php/src")}; err != nil || !slices.Equal(site.Libraries, want) {
		t.Errorf("the libraries are %q, %v; want %q", site.Libraries, err, want)
	}
}
