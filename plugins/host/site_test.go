package host

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
)

// password is nowhere to be seen.
const password = "hunter2-0f-the-databases"

// phorge makes the databases of a Phorge that a user with a password may use,
// and answers a site of it and a connection to look at it by.
func phorge(t *testing.T) (*plugins.Site, *sql.DB) {
	t.Helper()
	server, err := scratch.Start(scratch.Options{Args: []string{"--sql-mode="}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	err = server.Exec(t.Context(), "", `CREATE DATABASE ns_herald; CREATE DATABASE ns_config; CREATE DATABASE ns_repository;
CREATE TABLE ns_herald.hook (id INT PRIMARY KEY AUTO_INCREMENT, name VARBINARY(64) NOT NULL) ENGINE=InnoDB;
CREATE TABLE ns_config.config_entry (namespace VARCHAR(64), configKey VARCHAR(64), value LONGTEXT, isDeleted TINYINT) ENGINE=InnoDB;
CREATE USER handlers@'%' IDENTIFIED BY '`+password+`'; GRANT ALL ON *.* TO handlers@'%'; FLUSH PRIVILEGES`)
	if err != nil {
		t.Fatal(err)
	}
	s := &plugins.Site{
		Namespace: "ns", DSNs: map[string]string{},
		Options: map[string]json.RawMessage{"acme.list": []byte(`["` + password + `-option"]`)},
	}
	for _, application := range []string{"herald", "config", "repository"} {
		s.DSNs[application] = fmt.Sprintf("handlers:%s@tcp(127.0.0.1:%d)/ns_%s", password, server.Port(), application)
	}
	db, err := sql.Open("mysql", server.DSN("ns_herald"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return s, db
}

// reaching is the configuration of a host whose binary may reach a site.
func reaching(t *testing.T, s *plugins.Site) (c Config, asked *[]string) {
	t.Helper()
	asked = new([]string)
	c.Manifest = manifest(t, "reach")
	c.Manifest.Plugins[0].Phorge = true
	c.Manifest.Plugins[0].Classes = map[string]Class{"Do": {}}
	c.Site = func(applications, options []string) (*plugins.Site, error) {
		*asked = append(*asked, strings.Join(applications, " ")+": "+strings.Join(options, " "))
		return s, nil
	}
	return c, asked
}

func hooks(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT COUNT(*) FROM hook").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestHandlersReachThePhorgeAndNobodySeesItsPassword(t *testing.T) {
	s, db := phorge(t)
	c, asked := reaching(t, s)
	h, log := startReady(t, c)
	order := map[string]any{"text": "http://receiver.example/"}
	want(t, run(t.Context(), h, "Do", order), tasks.Failed, "really sent")
	if n := hooks(t, db); n != 1 {
		t.Errorf("%d rows were written", n)
	}
	pid := h.List()[0].PID
	shown := map[string]string{"the log": log.String()}
	for _, kind := range []string{"cmdline", "environ"} {
		files, err := filepath.Glob("/proc/[0-9]*/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if content, err := os.ReadFile(file); err == nil {
				shown[file] = string(content)
			}
		}
	}
	status, err := json.Marshal(h.List())
	if err != nil {
		t.Fatal(err)
	}
	shown["the status"] = string(status)
	if !strings.Contains(string(status), `"databases":["config","herald","repository"],"options":["acme.list"]`) {
		t.Errorf("the status does not say what the binary reaches: %s", status)
	}
	if _, err := db.Exec("DROP USER handlers@'%'"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process is started again", func() bool { return h.Ready("Do") && h.List()[0].PID != pid })
	refused := run(t.Context(), h, "Do", order)
	want(t, refused, tasks.Retry, "denied")
	shown["the reason of a failure"] = refused.Reason
	shown["the log after that"] = log.String()
	if shown[fmt.Sprintf("/proc/%d/environ", pid)] == "" {
		t.Error("the environment of the handler was not looked at")
	}
	for where, text := range shown {
		if strings.Contains(text, password[:16]) {
			t.Errorf("the password is shown in %s", where)
		}
	}
	if want := "config herald repository: acme.list"; len(*asked) < 2 || (*asked)[0] != want || (*asked)[1] != want {
		t.Errorf("the site was asked for %q; want %q at each start", *asked, want)
	}
}

func TestAShadowRunTravels(t *testing.T) {
	s, db := phorge(t)
	s.Options["acme.list"] = []byte(`["a"]`)
	c, _ := reaching(t, s)
	h, _ := startReady(t, c)
	shadow := func(what string) (tasks.Outcome, plugins.Effects, error) {
		return h.Shadow(t.Context(), tasks.Task{ID: 7, Class: "Do", Data: []byte(`{"do":"` + what + `","text":"http://receiver.example/a?b=c"}`)})
	}
	effects := plugins.Effects{
		Requests: []plugins.Sent{{
			Method: "PUT", URL: "http://receiver.example/a?b=c", Body: []byte("caf\xe9"), Header: http.Header{"X-Caf\xe9": {"\xe9", "b"}},
		}},
		Writes: []plugins.Written{{
			Database: "herald", Query: "INSERT INTO hook (name) VALUES (?)", Args: []string{"a caf\xe9"}, Rows: 1,
		}},
	}
	for what, kind := range map[string]tasks.Kind{"": tasks.Succeeded, "panic": tasks.Retry} {
		outcome, got, err := shadow(what)
		if err != nil {
			t.Fatal(err)
		}
		if outcome.Kind != kind {
			t.Errorf("%q: %s: %s", what, outcome.Kind, outcome.Reason)
		}
		if diff := cmp.Diff(effects, got); diff != "" {
			t.Error(diff)
		}
	}
	if n := hooks(t, db); n != 0 {
		t.Errorf("%d rows stayed", n)
	}
	if _, _, err := shadow("exit"); err == nil || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("a shadow run that ends the process: %v", err)
	}
	if _, _, err := h.Shadow(t.Context(), tasks.Task{Class: "Other"}); err == nil || !strings.Contains(err.Error(), "no handler binary takes class Other") {
		t.Errorf("a class that nobody takes: %v", err)
	}
	eventually(t, "the process is started again", func() bool { return h.Ready("Do") })
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := h.Shadow(cancelled, tasks.Task{Class: "Do"}); err == nil {
		t.Error("a shadow run that was cancelled is no error")
	}
}

func TestABinaryThatMayNotReachAPhorgeIsNotStarted(t *testing.T) {
	site := func([]string, []string) (*plugins.Site, error) { return &plugins.Site{}, nil }
	for _, c := range []struct {
		name   string
		phorge bool
		site   func([]string, []string) (*plugins.Site, error)
		reason string
	}{
		{"the manifest does not say so", false, site, "wants the databases of config, herald, repository and the options acme.list of Phorge: write `phorge: true`"},
		{"there is none", true, nil, "name the Phorge by `phorge`"},
		{"it cannot be read", true, func([]string, []string) (*plugins.Site, error) { return nil, errors.New("no such master") }, "no such master"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := manifest(t, "reach")
			m.Plugins[0].Phorge = c.phorge
			wantRefused(t, Config{Manifest: m, Site: c.site}, c.reason)
		})
	}
}
