package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestTheStoreIsWhereTheConfigurationSays(t *testing.T) {
	const dsn = "u:p@tcp(db:3306)/ns_worker"
	for _, c := range []struct {
		name string
		c    config
		want string
	}{
		{"in dsn", config{DSN: dsn}, dsn},
		{"in a file that ends in a new line", config{DSNFile: writeFile(t, "dsn", dsn+"\n", 0o600)}, dsn},
		{"in a Phorge", config{Phorge: phorgeDir(t, `{"mysql.host":"db","mysql.user":"u","mysql.pass":"p","storage.default-namespace":"ns"}`)}, dsn},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := c.c.storeDSN(); err != nil || strings.Split(got, "?")[0] != c.want {
				t.Errorf("the DSN is %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestTheURLOfARedisIsWhereTheConfigurationSays(t *testing.T) {
	const address = "rediss://u:p@db:6379/2"
	for _, c := range []config{{Redis: address}, {RedisFile: writeFile(t, "redis", address+"\n", 0o600)}} {
		if got, err := c.redisURL(); err != nil || got != address {
			t.Errorf("the URL is %q, %v", got, err)
		}
	}
	for content, want := range map[string]string{
		"hunter2":                "it must be a URL such as redis://db:6379/0",
		"http://u:hunter2@db/":   "it must be a URL such as redis://db:6379/0",
		"redis://u:hunter2@db:x": "it must be a URL such as redis://db:6379/0",
	} {
		c := config{RedisFile: writeFile(t, "redis", content, 0o600)}
		if _, err := c.redisURL(); exitCode(err) != exitUsage || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestARedisIsShownWithoutItsSecrets(t *testing.T) {
	for address, want := range map[string]string{
		"redis://db:6379/0":                     "redis://db:6379/0",
		"rediss://u:hunter2@db:6379/2":          "rediss://u:***@db:6379/2",
		"redis://:hunter2@db?client_name=x":     "redis://:***@db?***",
		"unix://u:hunter2@/run/redis.sock?db=1": "unix://u:***@/run/redis.sock?***",
	} {
		if got := showRedis(address); got != want || redisPassword(address) != "hunter2" && strings.Contains(address, "hunter2") {
			t.Errorf("%s is shown as %s, want %s", address, got, want)
		}
	}
}

func TestAStoreThatCannotBeHadIsExplained(t *testing.T) {
	for _, c := range []struct {
		name string
		c    config
		code int
		want string
	}{
		{"nobody names one", config{}, exitUsage, "name a Phorge with --phorge, or its worker database with GANTRY_DSN"},
		{"the file is not there", config{DSNFile: "/nonexistent"}, exitUsage, "read dsn_file: open /nonexistent"},
		{"the directory is no Phorge", config{Phorge: t.TempDir()}, exitUsage, "is no Phorge"},
		{"the Phorge is read-only", config{Phorge: phorgeDir(t, `{"cluster.read-only":true}`)}, exitUnavailable, "is read-only (cluster.read-only)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.c.storeDSN()
			if exitCode(err) != c.code || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("exit code %d, %v; want code %d and %q", exitCode(err), err, c.code, c.want)
			}
		})
	}
}

// phorgeDir is as much of a Phorge as its configuration needs.
func phorgeDir(t *testing.T, local string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"bin/worker": "", "conf/local/local.json": local} {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err = errors.Join(err, os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestExitCodesFollowTheErrors(t *testing.T) {
	for err, want := range map[error]int{
		nil:                  exitOK,
		errors.New("x"):      exitFailed,
		usagef("x"):          exitUsage,
		tasks.ErrInvalid:     exitUsage,
		tasks.ErrTooLarge:    exitUsage,
		tasks.ErrUnavailable: exitUnavailable,
		noneMatches():        exitNothing,
		errors.Join(errors.New("x"), usagef("y")): exitUsage,
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v leads to exit code %d, want %d", err, got, want)
		}
	}
}
