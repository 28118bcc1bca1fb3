package main

import (
	bits "encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// fakePHP is a program that says, as the first process of a pool does, that it
// is ready to run these classes, and then waits for its end.
func fakePHP(t *testing.T, namespace string, classes ...string) string {
	t.Helper()
	return saying(t, map[string]any{
		"type": "ready", "protocol": 1, "pid": 1, "phorge": "07c1a513", "php": "8.2.36",
		"namespace": namespace, "readOnly": false, "classes": classes,
	})
}

// publishing is one whose Phorge has publishers of feed stories.
func publishing(t *testing.T, publishers ...string) string {
	t.Helper()
	return saying(t, map[string]any{"type": "ready", "protocol": 1, "namespace": "ns", "classes": []string{}, "publishers": publishers})
}

func saying(t *testing.T, ready map[string]any) string {
	t.Helper()
	header, err := json.Marshal(ready)
	if err != nil {
		t.Fatal(err)
	}
	frame := bits.BigEndian.AppendUint32(nil, uint32(len(header)))
	frame = append(bits.BigEndian.AppendUint32(frame, 0), header...)
	file := writeFile(t, "ready", string(frame), 0o600)
	return writeFile(t, "php", "#!/bin/sh\ncat "+file+" >&4\ncat <&3 >/dev/null\n", 0o700)
}

// loading is a Phorge that loads Gantry's library.
func loading(t *testing.T) string {
	t.Helper()
	return phorgeDir(t, `{"load-libraries":["`+library(t)+`"],"storage.default-namespace":"ns"}`)
}

// findings answers the lines of a check that come before the settings.
func findings(got result) string {
	before, _, _ := strings.Cut(got.out, "\n\n")
	return before
}

func TestCheckStartsAProcessOfThePool(t *testing.T) {
	got := command(t, queued(t, 1, "PhabricatorSearchWorker"), "", "config", "check", "--phorge="+loading(t),
		"--php-binary="+fakePHP(t, "ns", "PhabricatorSearchWorker", "PhabricatorMetaMTAWorker"))
	if got.code != exitOK || !strings.Contains(got.out, "ok       php: the pool's processes start with the library ") ||
		!strings.Contains(got.out, ": PHP 8.2.36, Phorge 07c1a513, 2 classes\n") || strings.Contains(findings(got), "warning") {
		t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
}

func TestCheckSaysWhatIsWrongWithPHP(t *testing.T) {
	for _, c := range []struct{ name, program, want string }{
		{"it ends at once", "/bin/false", "problem  php: the PHP processes of the pool do not start: "},
		{"it is not there", "/nonexistent/php", "/nonexistent/php"},
		{"it works for another Phorge", fakePHP(t, "other", "A"), "other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := command(t, newMemory(), "", "config", "check", "--phorge="+loading(t), "--php-binary="+c.program)
			if got.code != exitFailed || !strings.Contains(findings(got), "problem  php: ") || !strings.Contains(findings(got), c.want) {
				t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
			}
		})
	}
}

func TestCheckNamesQueuedClassesThatPHPDoesNotKnow(t *testing.T) {
	got := command(t, queued(t, 1, "PhabricatorSerchWorker"), "", "config", "check", "--phorge="+loading(t),
		"--php-binary="+fakePHP(t, "ns", "PhabricatorSearchWorker"))
	if want := "warning  class PhabricatorSerchWorker: tasks are queued, no plugin takes them and PHP knows no such class"; got.code != exitOK || !strings.Contains(got.out, want) {
		t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
}

func TestCheckFailsWithTheReasonWhenNothingCanRun(t *testing.T) {
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"the library is not loaded", "does not load Gantry's PHP library: add its directory php/src to load-libraries", []string{"--phorge=" + phorgeDir(t, `{}`)}},
		{"what is named is no library", "library /nonexistent is not the PHP library of Gantry", []string{"--phorge=" + phorgeDir(t, `{}`), "--library=/nonexistent"}},
		{"there is no Phorge", "/nonexistent", []string{"--phorge=/nonexistent"}},
		{"its configuration cannot be read", "local.json", []string{"--phorge=" + phorgeDir(t, `{`)}},
		{"nothing is set", "neither phorge nor conduit is set", nil},
		{"php is off", "php is off", []string{"--php=off"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := command(t, newMemory(), "", append([]string{"config", "check"}, c.args...)...)
			_, php, _ := strings.Cut(findings(got), "  php: ")
			reason, plugins, _ := strings.Cut(php, "\n")
			if got.code != exitFailed || !strings.Contains(reason, c.want) ||
				!strings.HasPrefix(plugins, "problem  plugins: there is no manifest and nothing runs PHP, so `gantry run` has nothing to run: mend what is said of php, or set plugins") {
				t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
			}
		})
	}
}

func TestCheckNamesSettingsOfAClassThatNobodyRuns(t *testing.T) {
	const keys = `{"a":"hunter2-hunter2-hunter2-hunter2-hunter2"}`
	for _, c := range []struct{ name, config, want string }{
		{"the pool", "phorge: " + loading(t) + "\nphp_binary: " + fakePHP(t, "ns", "Known"), "no plugin takes the class and PHP knows no such class"},
		{"Conduit", "dsn: u@/ns_worker\nconduit: " + capabilities(t, time.Now(), "Known").URL + "\nconduit_key_file: " + writeFile(t, "keys.json", keys, 0o600),
			"no plugin takes the class and gantry.task-classes of the Phorge does not name it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := writeFile(t, "gantry.yaml", c.config+"\nclasses: {Known: {deadline: 1m}, Gone: {deadline: 1m}}\n", 0o600)
			got := command(t, newMemory(), "", "config", "check", "--config="+file)
			if want := "warning  classes.Gone: " + c.want + ", so its settings do nothing"; got.code != exitOK || !strings.HasSuffix(findings(got), want) || strings.Contains(got.out, "classes.Known:") {
				t.Errorf("exit code %d, %s%s\nwant %s", got.code, got.out, got.err, want)
			}
		})
	}
}

// capabilities is a Phorge that answers worker.capabilities, at this time.
func capabilities(t *testing.T, at time.Time, classes ...string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/worker.capabilities" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"error_code": nil, "error_info": nil, "result": map[string]any{
			"protocol": 1, "namespace": "ns", "taskClasses": append([]string{}, classes...), "keyIDs": []string{"a", "b"},
			"phorge": "07c1a513", "php": "8.2.36", "databaseTime": at.Unix(), "maxTasks": 64, "maxBody": 1 << 20,
		}})
	}))
	t.Cleanup(server.Close)
	return server
}

func TestCheckAsksWhatConduitOffers(t *testing.T) {
	const secret = "hunter2-hunter2-hunter2-hunter2-hunter2"
	keys := writeFile(t, "keys.json", `{"a":"`+secret+`"}`, 0o600)
	for _, c := range []struct {
		name    string
		at      time.Time
		classes []string
		code    int
		want    string
	}{
		{"all is well", time.Now(), []string{"A", "B"}, exitOK, "PHP 8.2.36, Phorge 07c1a513, keys a and b, 2 classes\n"},
		{"nothing is allowed", time.Now(), nil, exitFailed, "problem  php: it runs no class: name them there with bin/config set gantry.task-classes"},
		{"a clock is wrong", time.Now().Add(time.Hour), []string{"A"}, exitOK, "warning  php: the clock of the Phorge's database is "},
		{"a class is not allowed", time.Now(), []string{"B"}, exitOK, "warning  class A: tasks are queued, no plugin takes them and gantry.task-classes of the Phorge does not name the class"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := writeFile(t, "gantry.yaml", fmt.Sprintf("dsn: u@/ns_worker\nconduit: %s\nconduit_key_file: %s\n", capabilities(t, c.at, c.classes...).URL, keys), 0o600)
			got := command(t, queued(t, 1, "A"), "", "config", "check", "--config="+file)
			if got.code != c.code || !strings.Contains(got.out, c.want) || strings.Contains(got.out+got.err, "hunter") {
				t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
			}
		})
	}
	server := capabilities(t, time.Now())
	server.Close()
	file := writeFile(t, "gantry.yaml", fmt.Sprintf("dsn: u@/ns_worker\nconduit: %s\nconduit_key_file: %s\n", server.URL, keys), 0o600)
	got := command(t, newMemory(), "", "config", "check", "--config="+file)
	if got.code != exitFailed || !strings.Contains(findings(got), "problem  php: conduit: ") {
		t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
}
