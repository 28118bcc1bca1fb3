package embedded

import (
	"context"
	"fmt"

	"github.com/phorge-gantry/gantry/tasks"
)

const (
	// applicationID marks the file as a queue of Gantry, for file(1) and us.
	applicationID = 0x476e7472

	// schemaVersion is the version that this program reads and writes:
	// PRAGMA user_version of the file.
	schemaVersion = len(versions)
)

// lane says by which index a row is found. Each row is in one lane, and so in
// one index, besides those of lane unripe, which few rows pass through.
type lane int

const (
	fresh  lane = iota // never leased and due, by (priority, id)
	unripe             // never leased, with an expiry that was not seen to have passed
	parked             // owned by nobody, or by something that is no Gantry
	held               // leased by a Gantry
)

// versions are the steps that lead from one version to the next. A step is
// never changed once it was released.
//
// A row without an owner but with an expiry is due when that has passed, and
// then stands among the rows that have none, by (priority, id). No index can
// know what has passed; so the leaseExpires that was found to have passed is
// written to ripe, and the row changes its lane. Whoever writes leaseExpires
// anew, a person with the sqlite3 shell included, need not know of it.
var versions = [...]string{`
CREATE TABLE queue (
	id INTEGER PRIMARY KEY CHECK (id = 1),
	clock INTEGER NOT NULL,    -- the latest time that was seen
	lastID INTEGER NOT NULL,   -- of a task; ids are never used twice
	fence INTEGER NOT NULL,    -- of the last lease call
	archived INTEGER NOT NULL  -- rows of archive
);
INSERT INTO queue VALUES (1, 0, 0, 0, 0);

CREATE TABLE task (
	id INTEGER PRIMARY KEY,
	taskClass TEXT NOT NULL,
	leaseOwner TEXT,
	leaseExpires INTEGER,
	ripe INTEGER,
	failureCount INTEGER NOT NULL,
	failureTime INTEGER,
	priority INTEGER NOT NULL,
	objectPHID TEXT,
	containerPHID TEXT,
	dateCreated INTEGER NOT NULL,
	dateModified INTEGER NOT NULL,
	lane INTEGER NOT NULL GENERATED ALWAYS AS (CASE
		WHEN leaseOwner GLOB 'gantry:*:*:*:*' THEN 3
		WHEN leaseOwner IS NOT NULL THEN 2
		WHEN leaseExpires IS NULL OR leaseExpires IS ripe THEN 0
		ELSE 1 END) VIRTUAL
);
CREATE INDEX fresh ON task (taskClass, priority, id) WHERE lane = 0;
CREATE INDEX unripe ON task (leaseExpires) WHERE lane = 1;
CREATE INDEX unripeClass ON task (taskClass) WHERE lane = 1;
CREATE INDEX parked ON task (taskClass, leaseExpires, id) WHERE lane = 2;
CREATE INDEX held ON task (taskClass, leaseExpires, id) WHERE lane = 3;

CREATE TABLE archive (
	id INTEGER PRIMARY KEY,
	taskClass TEXT NOT NULL,
	leaseOwner TEXT,
	leaseExpires INTEGER,
	failureCount INTEGER NOT NULL,
	priority INTEGER NOT NULL,
	objectPHID TEXT,
	containerPHID TEXT,
	dateCreated INTEGER NOT NULL,
	dateModified INTEGER NOT NULL,
	result INTEGER NOT NULL,
	duration INTEGER NOT NULL,
	archivedEpoch INTEGER NOT NULL
);
CREATE INDEX archiveAge ON archive (archivedEpoch, id);

CREATE TABLE inbox (
	idempotencyKey TEXT PRIMARY KEY,
	contentHash BLOB NOT NULL,
	taskIDs TEXT NOT NULL,
	epoch INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX inboxAge ON inbox (epoch);

-- Of active and archived tasks. A table of its own, so that a change of a task
-- does not rewrite its data.
CREATE TABLE data (
	id INTEGER PRIMARY KEY,
	data TEXT NOT NULL
);`, `
CREATE TABLE attempt (
	id INTEGER PRIMARY KEY,
	taskID INTEGER NOT NULL,
	taskClass TEXT NOT NULL,
	attempt INTEGER NOT NULL,
	route TEXT NOT NULL,
	category TEXT NOT NULL,
	reason TEXT NOT NULL,
	host TEXT NOT NULL,
	leaseOwner TEXT NOT NULL,
	durationUs INTEGER NOT NULL,
	epoch INTEGER NOT NULL
);
CREATE INDEX attemptTask ON attempt (taskID, id);`, `
-- It is read with the data, and never changes either.
ALTER TABLE data ADD COLUMN traceparent TEXT;`}

const identifySQL = `SELECT (SELECT application_id FROM pragma_application_id),
(SELECT user_version FROM pragma_user_version), (SELECT COUNT(*) FROM sqlite_schema)`

// upgrade brings the file to schemaVersion, whichever process comes first.
func (s *Store) upgrade(ctx context.Context) error {
	w := s.writer.conn
	err := s.patiently(ctx, func() error { // before anything is written
		_, err := s.identify(w)
		return err
	})
	if err != nil {
		return err
	}
	var mode string
	err = s.patiently(ctx, func() error { return w.row("PRAGMA journal_mode = WAL", nil, &mode) })
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("queue %s: SQLite cannot keep a write-ahead log there (journal_mode is %q); put it on a local disk", s.path, mode)
	}
	err = s.patiently(ctx, func() error { return w.exec("BEGIN IMMEDIATE") })
	if err != nil {
		return err
	}
	err = s.upgradeFrom(w)
	if err == nil {
		err = w.exec("COMMIT")
	}
	if err != nil {
		w.rollback()
	}
	return err
}

func (s *Store) upgradeFrom(w *conn) error {
	version, err := s.identify(w)
	if err != nil || version == schemaVersion {
		return err
	}
	for _, step := range versions[version:] {
		if err := w.script(step); err != nil {
			return err
		}
	}
	return w.script(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, schemaVersion))
}

// identify answers the version of the file, 0 for an empty one. It refuses what
// is no queue, and queues of a Gantry of tomorrow.
func (s *Store) identify(w *conn) (version int, err error) {
	var application, objects int
	if err := w.row(identifySQL, nil, &application, &version, &objects); err != nil {
		return 0, err
	}
	if application != applicationID && (application != 0 || version != 0 || objects > 0) {
		return 0, fmt.Errorf("queue %s: it is an SQLite file of something else; name another one", s.path)
	}
	return version, s.checkVersion(version)
}

func (s *Store) checkVersion(version int) error {
	if version > schemaVersion {
		return fmt.Errorf("queue %s: a newer Gantry has upgraded it to version %d, and this one knows %d; use the newer one",
			s.path, version, schemaVersion)
	}
	return nil
}

// farAhead is how far the file may be ahead of the clock, in seconds.
const farAhead = 24 * 60 * 60

func (s *Store) checkClock(ctx context.Context) error {
	var clock int64
	err := s.patiently(ctx, func() error { return s.writer.conn.row("SELECT clock FROM queue", nil, &clock) })
	if err != nil {
		return err
	}
	if ahead := clock - s.config.Clock().Unix(); ahead > farAhead {
		return fmt.Errorf(`%w: queue %s: it has seen a time that is %d seconds ahead of the clock of this host, and no wait would end before that; set the clock right, or, if the file saw a wrong time, stop what works on it and run: sqlite3 %[2]s "UPDATE queue SET clock = 0"`,
			tasks.ErrUnavailable, s.path, ahead)
	}
	return nil
}
