package live

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// issues answers the setup issues of Gantry and the commands that mend each.
func (g *ground) issues(t *testing.T) map[string][]string {
	t.Helper()
	text, err := g.PHP(t.Context(), "issues.php")
	var issues map[string][]string
	if err == nil {
		err = json.Unmarshal([]byte(text), &issues)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return issues
}

// raises makes sure that there are these issues, and no others, and that each
// names a command that mends it.
func (g *ground) raises(t *testing.T, mended map[string]string) {
	t.Helper()
	issues := g.issues(t)
	if got, want := slices.Sorted(maps.Keys(issues)), slices.Sorted(maps.Keys(mended)); !slices.Equal(got, want) {
		t.Errorf("the issues are %q, want %q", got, want)
	}
	for key, command := range mended {
		if !strings.Contains(strings.Join(issues[key], "\n"), command) {
			t.Errorf("%s is mended by %q, want a command with %q", key, issues[key], command)
		}
	}
}

// secure is a configuration that no issue is raised for.
var secure = map[string]any{
	"phabricator.base-uri": "https://phorge.example.com/",
	"gantry.task-classes":  []string{"PhabricatorTestWorker"},
}

func TestEachThingThatIsMissingIsAnIssueWithTheCommandThatMendsIt(t *testing.T) {
	g := newGround(t)
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret := strings.Repeat("s", 32)
	for name, c := range map[string]struct {
		options map[string]any
		mended  map[string]string
	}{
		"nothing is missing": {},
		"Conduit is not used": {options: map[string]any{
			"phabricator.base-uri": "http://phorge.example.com/", "gantry.task-classes": []string{}, "gantry.key-file": nil}},
		"there are no keys": {
			map[string]any{"gantry.key-file": nil},
			map[string]string{"gantry.keys": "gantry keys new --conduit-key-file"}},
		"the key file is not there": {
			map[string]any{"gantry.key-file": filepath.Join(dir, "none")},
			map[string]string{"gantry.keys": "gantry keys new --conduit-key-file " + filepath.Join(dir, "none")}},
		"strangers may read the key file": {
			map[string]any{"gantry.key-file": file("public", `{"a":"`+secret+`"}`, 0o644)},
			map[string]string{"gantry.keys": "chmod o= " + filepath.Join(dir, "public")}},
		"the key file is cut": {
			map[string]any{"gantry.key-file": file("cut", `{"a":"`+secret, 0o600)},
			map[string]string{"gantry.keys": "gantry keys new"}},
		"a secret is too short": {
			map[string]any{"gantry.key-file": file("short", `{"a":"`+secret[1:]+`"}`, 0o600)},
			map[string]string{"gantry.keys": "gantry keys new"}},
		"keys stand in two places": {
			map[string]any{"gantry.keys": map[string]string{"a": secret}},
			map[string]string{"gantry.keys": "bin/config delete gantry.keys"}},
		"the allowlist is empty": {
			map[string]any{"gantry.task-classes": []string{}},
			map[string]string{"gantry.task-classes": "bin/config set gantry.task-classes"}},
		"a class is misspelled": {
			map[string]any{"gantry.task-classes": []string{"phabricatortestworker", "PhabricatorSearchWorker"}},
			map[string]string{"gantry.unknown-classes": `bin/config set gantry.task-classes '["PhabricatorSearchWorker"]'`}},
		"there is no TLS": {
			map[string]any{"phabricator.base-uri": "http://phorge.example.com/"},
			map[string]string{"gantry.tls": "bin/config set phabricator.base-uri https://"}},
		"there is no TLS, and no other host": {options: map[string]any{
			"phabricator.base-uri": "http://phorge.example.com/", "gantry.allowed-addresses": []string{"127.0.0.1/32"}}},
	} {
		t.Run(name, func(t *testing.T) {
			options := maps.Clone(secure)
			maps.Copy(options, c.options)
			g.configured(t, options, func() { g.raises(t, c.mended) })
		})
	}
}

func TestTablesThatAreMissingAreAnIssue(t *testing.T) {
	g := newGround(t)
	q := openQueue(t, g.Phorge)
	q.exec(t, "RENAME TABLE live_gantry.outbox TO live_gantry.hidden")
	defer q.exec(t, "RENAME TABLE live_gantry.hidden TO live_gantry.outbox")
	g.configured(t, secure, func() { g.raises(t, map[string]string{"gantry.storage": "bin/storage upgrade"}) })
}

// TestWhoDrainsTheQueueIsLookedAt has rows of daemon_log as Gantry and phd
// write them.
func TestWhoDrainsTheQueueIsLookedAt(t *testing.T) {
	g := newGround(t)
	q := openQueue(t, g.Phorge)
	type daemon struct {
		id, host, status string
		age              int
	}
	for name, c := range map[string]struct {
		daemons []daemon
		mended  map[string]string
	}{
		"nobody":                 {},
		"Gantry":                 {daemons: []daemon{{"gantry:a", "one", "run", 350}}},
		"Gantry, cleanly gone":   {daemons: []daemon{{"gantry:a", "one", "exit", 4000}}},
		"Gantry, started again":  {daemons: []daemon{{"gantry:a", "one", "dead", 0}, {"gantry:b", "one", "run", 0}}},
		"Gantry, gone again":     {daemons: []daemon{{"gantry:a", "one", "dead", 0}, {"gantry:b", "one", "exit", 0}}},
		"a taskmaster":           {daemons: []daemon{{"71:a", "one", "run", 0}}},
		"a taskmaster, once":     {daemons: []daemon{{"gantry:a", "one", "run", 0}, {"71:a", "one", "run", 370}}},
		"Gantry, silent":         {daemons: []daemon{{"gantry:a", "one", "run", 370}}, mended: map[string]string{"gantry.heartbeat": "gantry run --phorge"}},
		"Gantry, seen as silent": {daemons: []daemon{{"gantry:a", "one", "unknown", 0}}, mended: map[string]string{"gantry.heartbeat": "gantry run --phorge"}},
		"Gantry, silent on one host": {
			daemons: []daemon{{"gantry:a", "one", "run", 370}, {"gantry:b", "two", "run", 0}},
			mended:  map[string]string{"gantry.heartbeat": "gantry run --phorge"}},
		"both": {
			daemons: []daemon{{"gantry:a", "one", "run", 0}, {"71:a", "two", "wait", 0}},
			mended:  map[string]string{"gantry.taskmasters": "bin/phd start --keep-leases"}},
	} {
		t.Run(name, func(t *testing.T) {
			q.exec(t, "DELETE FROM live_daemon.daemon_log")
			defer q.exec(t, "DELETE FROM live_daemon.daemon_log")
			for _, d := range c.daemons {
				q.exec(t, `INSERT INTO live_daemon.daemon_log
					(daemon, host, pid, argv, explicitArgv, dateCreated, dateModified, status, runningAsUser, daemonID)
					VALUES ('PhabricatorTaskmasterDaemon', ?, 1, '[]', '[]', 0, UNIX_TIMESTAMP() - ?, ?, 'phd', ?)`,
					d.host, d.age, d.status, d.id)
			}
			g.configured(t, secure, func() { g.raises(t, c.mended) })
		})
	}
}

func TestStorageAdjustIsQuietAfterStorageUpgrade(t *testing.T) {
	g := newGround(t)
	out, err := g.Bin(t.Context(), "storage", "adjust", "--force")
	if err != nil || !strings.Contains(out, "Found no adjustments for schemata.") || strings.Contains(out, "gantry") {
		t.Errorf("bin/storage adjust: %v\n%s", err, out)
	}
	q := openQueue(t, g.Phorge)
	q.exec(t, "ALTER TABLE live_gantry.receipts MODIFY processLock VARCHAR(128) COLLATE utf8mb4_bin NOT NULL")
	if out, err := g.Bin(t.Context(), "storage", "adjust", "--force"); err != nil || !strings.Contains(out, "processLock") {
		t.Errorf("bin/storage adjust does not mend a column: %v\n%s", err, out)
	}
}
