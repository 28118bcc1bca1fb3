package phorge

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tests/harness"
)

// As Phorge's storage has it.
const daemonLogSQL = `CREATE TABLE %s.daemon_log (
id int unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, daemon varchar(255) NOT NULL, host varchar(255) NOT NULL, pid int unsigned NOT NULL,
argv longtext NOT NULL, explicitArgv longtext NOT NULL, dateCreated int unsigned NOT NULL, dateModified int unsigned NOT NULL,
status varchar(8) NOT NULL, runningAsUser varchar(255) DEFAULT NULL, daemonID varchar(64) NOT NULL, UNIQUE KEY key_daemonID (daemonID))`

// heart is a heartbeat on a database of its own.
type heart struct {
	*queue
	log  string // the quoted table
	told chan error
	stop func()
}

func beating(t *testing.T, c HeartbeatConfig) *heart {
	t.Helper()
	q := newQueue(t)
	database := quoted(strings.TrimSuffix(strings.Trim(q.gantry(), "`"), "_gantry") + "_daemon")
	q.exec("CREATE DATABASE " + database)
	t.Cleanup(func() { q.exec("DROP DATABASE " + database) })
	q.exec(fmt.Sprintf(daemonLogSQL, database))
	c.DSN, c.Every = q.dsn, 5*time.Millisecond
	b, err := NewHeartbeat(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	h := &heart{queue: q, log: database + ".daemon_log", told: make(chan error, 10)}
	done := make(chan struct{})
	h.stop = func() {
		cancel()
		<-done
	}
	go func() {
		defer close(done)
		b.Run(ctx, func(err error) { h.told <- err })
	}()
	t.Cleanup(h.stop)
	return h
}

// shows waits until so many rows meet a condition.
func (h *heart) shows(want int64, where string, args ...any) {
	h.t.Helper()
	harness.Eventually(h.t, fmt.Sprintf("%d rows with %s", want, where), func() bool {
		return h.number("SELECT COUNT(*) FROM "+h.log+" WHERE "+where, args...) == want
	})
}

func TestAHeartbeatIsARowAsATaskmasterHasIt(t *testing.T) {
	h := beating(t, HeartbeatConfig{Host: "somewhere"})
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	h.shows(1, `daemon = 'PhabricatorTaskmasterDaemon' AND host = 'somewhere' AND pid = ? AND argv = '[]' AND explicitArgv = '[]'
AND status = 'run' AND runningAsUser = ? AND daemonID LIKE 'gantry:%' AND dateCreated > 0`, os.Getpid(), me.Username)
	h.stop()
	h.shows(1, "status = 'exit' AND dateModified >= UNIX_TIMESTAMP() - 60")
	h.shows(1, "TRUE")
}

func TestAHeartbeatBringsItsRowBack(t *testing.T) {
	h := beating(t, HeartbeatConfig{})
	alive := "status = 'run' AND dateModified >= UNIX_TIMESTAMP() - 60"
	h.shows(1, alive)
	for _, harm := range []string{
		"UPDATE %s SET status = 'unknown'", "UPDATE %s SET status = 'dead'", "UPDATE %s SET dateModified = 5", "DELETE FROM %s",
	} {
		h.exec(fmt.Sprintf(harm, h.log))
		h.shows(1, alive)
	}
}

func TestAHeartbeatSurvivesAnOutageAndTellsOfItOnce(t *testing.T) {
	h := beating(t, HeartbeatConfig{})
	h.shows(1, "TRUE")
	h.exec("RENAME TABLE " + h.log + " TO " + h.log + "_away")
	if err := <-h.told; !contains(err, "tell Phorge that its queue is drained") {
		t.Errorf("it tells %v", err)
	}
	h.exec("RENAME TABLE " + h.log + "_away TO " + h.log)
	if err := <-h.told; err != nil {
		t.Errorf("it tells %v, want that it works again", err)
	}
	h.exec("UPDATE " + h.log + " SET dateModified = 5")
	h.shows(0, "dateModified = 5")
	select {
	case err := <-h.told:
		t.Errorf("it also tells %v", err)
	default:
	}
}

func TestAHeartbeatThatCannotSayGoodbyeTellsSo(t *testing.T) {
	h := beating(t, HeartbeatConfig{})
	h.shows(1, "TRUE")
	h.exec("DROP TABLE " + h.log)
	<-h.told
	h.stop()
	if err := <-h.told; !contains(err, "tell Phorge that Gantry has stopped") {
		t.Errorf("it tells %v", err)
	}
}

func TestHeartbeatsOfSeveralProcessesAreSeveralRows(t *testing.T) {
	one, err := NewHeartbeat(HeartbeatConfig{DSN: "root@tcp(127.0.0.1:1)/ns_daemon", User: "daemons", Host: "h"})
	if err != nil {
		t.Fatal(err)
	}
	defer one.db.Close()
	other, err := NewHeartbeat(HeartbeatConfig{DSN: "root@tcp(127.0.0.1:1)/ns_worker"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.db.Close()
	if one.daemonID == other.daemonID || len(one.daemonID) > 64 {
		t.Errorf("the daemon ids are %s and %s", one.daemonID, other.daemonID)
	}
	for _, h := range []*Heartbeat{one, other} {
		if !strings.Contains(h.server.place, `"ns_daemon"`) {
			t.Errorf("it beats in %s", h.server.place)
		}
	}
	if one.user != "daemons" || one.every != BeatEvery || BeatEvery > 2*time.Minute {
		t.Errorf("user %s, every %v", one.user, one.every)
	}
	if _, err := NewHeartbeat(HeartbeatConfig{DSN: "hunter2"}); !contains(err, "the DSN cannot be read") || contains(err, "hunter2") {
		t.Errorf("error %v", err)
	}
}
