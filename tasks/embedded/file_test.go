package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

func TestOnlyTheOwnerMayReadTheFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Path: filepath.Join(dir, "queue.db")})
	if _, err := s.Enqueue(t.Context(), some(1)); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %#o (%v)", entry.Name(), info.Mode().Perm(), err)
		}
	}
	if len(entries) != 3 {
		t.Errorf("there are %d files, want queue.db, queue.db-wal and queue.db-shm", len(entries))
	}
}

func TestFilesThatAreNoQueueAreRefused(t *testing.T) {
	write := func(text string, mode fs.FileMode) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), mode) }
	}
	sqlite := func(statements string) func(string) error {
		return func(path string) error {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			_, err := openFile(t, path).Exec(statements)
			return err
		}
	}
	for _, c := range []struct {
		name    string
		make    func(path string) error
		want    string
		passing bool
	}{
		{"a file that others may read", write("", 0o644), "chmod 600", false},
		{"a directory", func(path string) error { return os.Mkdir(path, 0o700) }, "it is no file", false},
		{"a text", write(strings.Repeat("text ", 1000), 0o600), "it is no SQLite file", false},
		{"the file of another program", sqlite("CREATE TABLE notes (text)"), "SQLite file of something else", false},
		{"the file of a program that signs", sqlite("PRAGMA application_id = 17"), "SQLite file of something else", false},
		{"the file of a program that counts", sqlite("PRAGMA user_version = 1"), "SQLite file of something else", false},
		{
			"a queue of tomorrow", sqlite(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, schemaVersion+1)),
			fmt.Sprintf("a newer Gantry has upgraded it to version %d, and this one knows %d", schemaVersion+1, schemaVersion), false,
		},
		{"nothing, in a directory that is not there", func(path string) error { return os.Remove(filepath.Dir(path)) }, "no such file", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "d", "queue.db")
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			s, err := Open(t.Context(), Config{Path: path})
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, tasks.ErrUnavailable) != c.passing {
				t.Errorf("Open answers %v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file has changed")
			}
		})
	}
}

func TestAQueueThatIsUpgradedMeanwhileIsLeftAlone(t *testing.T) {
	q := sharedQueue(t, time.Minute)
	if err := q.other.exec(fmt.Sprintf("PRAGMA user_version = %d", schemaVersion+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Enqueue(t.Context(), some(1)); err == nil || !strings.Contains(err.Error(), "use the newer one") {
		t.Errorf("Enqueue answers %v", err)
	}
}

func TestAQueueOfVersion1IsUpgradedAndKeepsWhatIsInIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := openFile(t, path)
	if _, err := old.Exec(versions[0] + fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = 1;", applicationID) + `
INSERT INTO task (id, taskClass, failureCount, priority, dateCreated, dateModified) VALUES (1, 'A', 2, 1000, 5, 5);
INSERT INTO archive VALUES (2, 'B', 'w#1', 9, 0, 2000, NULL, NULL, 5, 6, 0, 7, 6);
INSERT INTO data VALUES (1, '{"k":1.0}'), (2, '[]');
UPDATE queue SET clock = 6, lastID = 2, fence = 1, archived = 1;`); err != nil {
		t.Fatal(err)
	}
	before, err := rows{old}.All()
	if err != nil || len(before) != 2 {
		t.Fatal(before, err)
	}
	s := open(t, Config{Path: path})
	if after, err := (rows{old}).All(); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("the rows were %+v and are %+v (%v)", before, after, err)
	}
	var version int
	if err := old.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version != schemaVersion {
		t.Errorf("the file has version %d (%v)", version, err)
	}
	leased, err := s.Lease(t.Context(), storetest.Any(1))
	if err != nil || len(leased) != 1 || string(leased[0].Data) != `{"k":1.0}` {
		t.Fatal(leased, err)
	}
	_, err = s.Settle(t.Context(), []tasks.Settlement{{
		ID: 1, Lease: *leased[0].Lease, Outcome: tasks.Outcome{Kind: tasks.Failed, Reason: "no use"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	attempts, err := s.Attempts(t.Context(), 1, 10)
	if err != nil || len(attempts) != 1 || attempts[0].Number != 3 || attempts[0].Reason != "no use" {
		t.Errorf("the attempts are %+v (%v)", attempts, err)
	}
	sound(t, old)
}

func TestManyProcessesMayCreateAQueueAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "with ? and % and # in its name.db")
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			s, err := Open(t.Context(), Config{Path: path})
			if err != nil {
				return err
			}
			_, err = s.Enqueue(t.Context(), some(1))
			return errors.Join(err, s.Close())
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	s := open(t, Config{Path: path})
	page, err := s.List(t.Context(), tasks.Filter{State: tasks.Active, Limit: 100})
	if err != nil || len(page.Tasks) != 8 {
		t.Errorf("there are %d tasks, want 8 (%v)", len(page.Tasks), err)
	}
	sound(t, openFile(t, path))
}

func TestNetworkFilesystemsAreRefused(t *testing.T) {
	for _, c := range []struct {
		kind    int64
		program string
		refused bool
	}{
		{0xef53, "", false}, {0x01021994, "", false}, {0x6969, "", true}, {0xff534d42 - 1<<32, "", true}, {0x01021997, "", true},
		{fuse, "fuse.sshfs", true}, {fuse, "fuse.rclone", true}, {fuse, "fuse.gocryptfs", false}, {fuse, "", false}, {fuse, "virtiofs", false},
	} {
		err := refuseNetwork(c.kind, c.program)
		if (err != nil) != c.refused || c.refused && (!strings.Contains(err.Error(), "local disk") || errors.Is(err, tasks.ErrUnavailable)) {
			t.Errorf("%#x %s: %v", c.kind, c.program, err)
		}
	}
	if kind := mountedAs("/proc"); kind != "proc" {
		t.Errorf("/proc is mounted as %q", kind)
	}
}

func TestAFullDiskAndAReadOnlyOneAreUnavailable(t *testing.T) {
	for _, c := range []struct{ name, spoil, mend, want string }{
		{"full", "PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000", "the disk is full"},
		{"read-only", "PRAGMA query_only = 1", "PRAGMA query_only = 0", "cannot be written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, Config{Path: filepath.Join(t.TempDir(), "queue.db")})
			ctx := t.Context()
			if _, err := s.Enqueue(ctx, some(200)); err != nil {
				t.Fatal(err)
			}
			leased, err := s.Lease(ctx, storetest.Any(100))
			if err != nil || len(leased) != 100 {
				t.Fatal(len(leased), err)
			}
			if err := s.writer.conn.script(c.spoil); err != nil {
				t.Fatal(err)
			}
			follow := succeeded(leased)
			for i := range follow {
				follow[i].Outcome.FollowUps = some(10)
			}
			_, settling := s.Settle(ctx, follow)
			_, queuing := s.Enqueue(ctx, some(1000))
			for _, err := range []error{settling, queuing} {
				if !errors.Is(err, tasks.ErrUnavailable) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), s.path) {
					t.Errorf("the answer is %v", err)
				}
			}
			if err := s.writer.conn.script(c.mend); err != nil {
				t.Fatal(err)
			}
			settled, err := s.Settle(ctx, follow)
			if err != nil {
				t.Fatal(err)
			}
			for _, answer := range settled {
				if answer.Err != nil || len(answer.FollowUps) != 10 {
					t.Errorf("%+v", answer)
				}
			}
			stats, err := s.Stats(ctx)
			if err != nil || len(stats.Classes) != 1 || stats.Classes[0].Active != 100+1000 {
				t.Errorf("%+v (%v)", stats, err)
			}
		})
	}
}

func TestAFileThatIsRemovedOrReplacedIsNotWrittenOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	s := open(t, Config{Path: path})
	for _, change := range []func() error{
		func() error { return os.Rename(path, path+".old") },
		func() error { return os.WriteFile(path, nil, 0o600) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		_, writing := s.Enqueue(t.Context(), some(1))
		_, reading := s.Lease(t.Context(), storetest.Any(1))
		for _, err := range []error{writing, reading} {
			if !errors.Is(err, tasks.ErrUnavailable) || !strings.Contains(err.Error(), "removed or replaced") {
				t.Errorf("the answer is %v", err)
			}
		}
	}
	if err := os.Rename(path+".old", path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enqueue(t.Context(), some(1)); err != nil {
		t.Error(err)
	}
}

func TestADamagedFileSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	s := open(t, Config{Path: path})
	if _, err := s.Enqueue(t.Context(), some(2000)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err == nil {
		_, err = file.WriteAt(make([]byte, info.Size()-8192), 8192)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	s, err = Open(t.Context(), Config{Path: path})
	if err == nil {
		_, err = s.Lease(t.Context(), storetest.Any(100))
		s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "restore a backup") || errors.Is(err, tasks.ErrUnavailable) {
		t.Errorf("the answer is %v", err)
	}
}

func TestB22DataThatIsTooLargeIsRefused(t *testing.T) {
	s := open(t, Config{Path: filepath.Join(t.TempDir(), "queue.db")})
	data := func(n int) []tasks.NewTask {
		return []tasks.NewTask{{Class: "A", Data: []byte(`"` + strings.Repeat("x", n-2) + `"`)}}
	}
	var size *tasks.SizeError
	_, err := s.Enqueue(t.Context(), data(maxData+1))
	if !errors.Is(err, tasks.ErrTooLarge) || !errors.As(err, &size) || size.Limit != maxData {
		t.Errorf("Enqueue answers %v", err)
	}
	if _, err := s.Enqueue(t.Context(), data(5<<20)); err != nil {
		t.Error(err)
	}
}

func TestTwoPathsToOneFileAreTheSameQueue(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "queue.db"), filepath.Join(dir, "link.db")
	one := open(t, Config{Path: path})
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if !one.Same(open(t, Config{Path: link})) {
		t.Error("a link to the file is called another queue")
	}
	if one.Same(open(t, Config{Path: filepath.Join(dir, "other.db")})) {
		t.Error("another file is called the same queue")
	}
}
