package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestTheVariablesOfGorgeAreReadBelowOurOwn(t *testing.T) {
	gorge := []string{
		"MYSQL_HOST=db", "MYSQL_PORT=3307", "MYSQL_USER=queue", "MYSQL_PASS=hunter2", "STORAGE_NAMESPACE=acme",
		"LISTEN_ADDR=:8090", "SERVICE_TOKEN=hunter2", "LEASE_DURATION=600", "RETRY_WAIT=60", "POLL_INTERVAL=250", "MAX_WORKERS=9",
	}
	c, err := load(t, "", gorge, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.shown("dsn") != "queue:***@tcp(db:3307)/acme_worker" || !strings.HasPrefix(c.DSN, "queue:hunter2@") {
		t.Errorf("dsn is %s", c.shown("dsn"))
	}
	if c.API != ":8090" || c.GatewayListen != ":8090" || c.gorge.token != "hunter2" || c.APILease != 10*time.Minute || c.APIRetryWait != time.Minute || c.IdlePoll != 250*time.Millisecond || c.Slots != 9 {
		t.Errorf("configuration: %+v", c)
	}
	if got := c.origin["slots"]; got != "environment, MAX_WORKERS" {
		t.Errorf("slots come from %q", got)
	}

	c, err = load(t, "sqlite: q.db\nslots: 3", append(gorge, "GANTRY_API_LEASE=5m"), []string{"--api=:1"})
	if err != nil {
		t.Fatal(err)
	}
	if c.DSN != "" || c.Slots != 3 || c.APILease != 5*time.Minute || c.API != ":1" || c.APIRetryWait != time.Minute {
		t.Errorf("with settings of our own: %+v", c)
	}
	var log strings.Builder
	c.gorge.tell(zerolog.New(&log), "dsn", "slots", "api", "api_lease", "api_retry_wait")
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"variable":"RETRY_WAIT","setting":"api_retry_wait"`) {
		t.Errorf("the log is %s", got)
	}
}

func TestTheLongerNamesOfGorgeGoFirstAndWhatCannotBeReadIsPassedOver(t *testing.T) {
	for _, c := range []struct {
		environ []string
		want    int
		unread  string
	}{
		{[]string{"MAX_WORKERS=2", "GORGE_WORKER_MAX_WORKERS=3"}, 3, ""},
		{[]string{"MAX_WORKERS=2", "GORGE_WORKER_MAX_WORKERS="}, 2, ""},
		{[]string{"MAX_WORKERS=2", "GORGE_WORKER_MAX_WORKERS=many"}, 2, "GORGE_WORKER_MAX_WORKERS: must be a whole number"},
		{[]string{"MAX_WORKERS=0"}, 64, "MAX_WORKERS: 0 must be at least 1"},
		{[]string{"LEASE_DURATION=2h"}, 64, "LEASE_DURATION: must be a whole number of seconds"},
		{[]string{"MYSQL_PORT=tcp://10.0.0.1:3306"}, 64, "MYSQL_PORT: must be a whole number"},
		{[]string{"GORGE_TASKQUEUE_LISTEN_ADDR=nonsense"}, 64, "GORGE_TASKQUEUE_LISTEN_ADDR: must be a host and a port"},
	} {
		got, err := load(t, "", c.environ, nil)
		if err != nil || got.Slots != c.want || got.DSN != "" || !strings.HasPrefix(strings.Join(got.gorge.unread, "\n"), c.unread) || len(got.gorge.unread) > 1 {
			t.Errorf("%v: slots %d, unread %q, %v", c.environ, got.Slots, got.gorge.unread, err)
		}
	}
}

func TestWhatGorgeLeavesOutIsAsInGorge(t *testing.T) {
	c, err := load(t, "", []string{"MYSQL_HOST=db"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.shown("dsn"); got != "phorge@tcp(db:3306)/phorge_worker" {
		t.Errorf("dsn is %s", got)
	}
}

// TestTheTableMapsTheVariablesOfGorge holds GORGE.md against what is read.
func TestTheTableMapsTheVariablesOfGorge(t *testing.T) {
	table, err := os.ReadFile("GORGE.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, v := range gorgeVariables {
		sets := "`" + v.setting + "`"
		if part, is := strings.CutPrefix(v.setting, "dsn: "); is {
			sets = "the " + part + " of `dsn`"
		} else if v.setting == partToken {
			sets = "a token with all rights"
		}
		unit := v.unit
		if unit == "" {
			unit = "-"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", strings.Join(v.names, "`, `"), sets, unit)
	}
	if !strings.Contains(string(table), rows.String()) {
		t.Errorf("GORGE.md must have these rows:\n%s", rows.String())
	}
}

// TestTheReadmeHasTheSettingsOfTheAPI finds a row that is missing.
func TestTheReadmeHasTheSettingsOfTheAPI(t *testing.T) {
	readme, err := os.ReadFile("../../tasks/queueapi/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range apiSettings {
		if !strings.Contains(string(readme), "| `"+name+"` | ") {
			t.Errorf("there is no row for %s", name)
		}
	}
}
