package phorge

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// BeatEvery is how often a Heartbeat writes its row, half of how often a
	// daemon of Phorge does (PhutilDaemonHandle::getHeartbeatEventFrequency). The
	// console gives up a daemon that was silent for three of Phorge's beats.
	BeatEvery = time.Minute

	// beatAgain is how soon a beat that failed is tried again.
	beatAgain = 10 * time.Second

	// lastBeat is how long the last word may take.
	lastBeat = 5 * time.Second
)

const (
	// The status is written each time: the console changes it to unknown, and
	// then to dead, when a beat is late. The row may be gone too, since Phorge
	// collects old ones and backups are restored.
	beatSQL = `INSERT INTO daemon_log (daemon, host, pid, argv, explicitArgv, dateCreated, dateModified, status, runningAsUser, daemonID)
VALUES ('PhabricatorTaskmasterDaemon', ?, ?, '[]', '[]', UNIX_TIMESTAMP(), UNIX_TIMESTAMP(), 'run', ?, ?)
ON DUPLICATE KEY UPDATE status = VALUES(status), dateModified = VALUES(dateModified)`

	endSQL = `UPDATE daemon_log SET status = 'exit', dateModified = UNIX_TIMESTAMP() WHERE daemonID = ?`
)

// Heartbeat tells Phorge that something drains the queue: a row of daemon_log as
// a PhabricatorTaskmasterDaemon has it (PhabricatorDaemonEventListener). As long
// as it beats, Phorge does not warn "Daemons Are Not Running"
// (PhabricatorDaemonsSetupCheck), and the console lists it.
type Heartbeat struct {
	db     *sql.DB
	server serverInfo
	every  time.Duration

	daemonID, host, user string
}

// HeartbeatConfig says where a Heartbeat beats and what the console shows of it.
type HeartbeatConfig struct {
	// DSN names the database <namespace>_daemon: Site.DaemonDSN. When it names
	// <namespace>_worker, as where only that is known, <namespace>_daemon on the
	// same server is meant. Required.
	DSN string

	// Host is shown. Default: the host name.
	Host string

	// User is shown, and Phorge warns when it is not phd.user. Default: the user
	// that this process runs as.
	User string

	// Every is the pause between beats. Default BeatEvery; more than two minutes
	// come too late for Phorge.
	Every time.Duration
}

// NewHeartbeat answers a heartbeat that does not beat yet. Nothing is asked of
// the server.
func NewHeartbeat(c HeartbeatConfig) (*Heartbeat, error) {
	cfg, err := configure(c.DSN)
	if err != nil {
		return nil, err
	}
	if namespace, ok := strings.CutSuffix(cfg.DBName, workerSuffix); ok {
		cfg.DBName = namespace + "_daemon"
	}
	h := &Heartbeat{
		server: serverInfo{place: where(cfg)}, every: cmp.Or(c.Every, BeatEvery),
		daemonID: "gantry:" + strings.ToLower(rand.Text()), host: c.Host, user: c.User,
	}
	if h.host == "" {
		if h.host, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("ask for the host name: %w", err)
		}
	}
	if h.user == "" {
		h.user = currentUser()
	}
	cfg.InterpolateParams = true
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", h.server.place, err)
	}
	h.db = sql.OpenDB(connector)
	h.db.SetMaxOpenConns(1)
	h.db.SetConnMaxIdleTime(idleTime)
	return h, nil
}

// currentUser names who this process runs as; the number where it has no name.
func currentUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Geteuid())
}

// Run beats until ctx ends, and then says that Gantry has left, so that Phorge
// warns at once. A server that cannot be reached is tried again. told is called
// with the error when beating begins to fail, and with nil when it works again.
// Run is called once, and ends the connection.
func (h *Heartbeat) Run(ctx context.Context, told func(error)) {
	defer h.db.Close()
	failing := false
	for {
		err := h.beat(ctx)
		if ctx.Err() != nil {
			break
		}
		if failing != (err != nil) {
			failing = err != nil
			told(err)
		}
		wait := h.every
		if failing {
			wait = min(wait, beatAgain)
		}
		if !tasks.Pause(ctx, wait) {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastBeat)
	defer cancel()
	if err := h.exec(ctx, endSQL, h.daemonID); err != nil {
		told(fmt.Errorf("tell Phorge that Gantry has stopped, which it will find out within the hour: %w", err))
	}
}

func (h *Heartbeat) beat(ctx context.Context) error {
	if err := h.exec(ctx, beatSQL, h.host, os.Getpid(), h.user, h.daemonID); err != nil {
		return fmt.Errorf("tell Phorge that its queue is drained: %w", err)
	}
	return nil
}

func (h *Heartbeat) exec(ctx context.Context, statement string, args ...any) error {
	_, err := h.db.ExecContext(ctx, statement, args...)
	return h.server.explain(err)
}
