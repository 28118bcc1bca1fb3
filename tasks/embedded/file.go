package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phorge-gantry/gantry/tasks"
)

// prepareFile makes sure that there is a file which this process may work
// with, and nobody else may read, and answers what identifies it.
//
// An existing file is never opened here: closing it again would give up the
// locks that SQLite holds on it elsewhere in this process. So a new one is made
// under another name, and gets its own when it is closed.
func prepareFile(path string) (fs.FileInfo, error) {
	dir := filepath.Dir(path)
	if err := checkFilesystem(dir); err != nil {
		return nil, fmt.Errorf("queue %s: %w", path, err)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createFile(path); err != nil {
			return nil, fmt.Errorf("create the queue %s: %w: %w", path, tasks.ErrUnavailable, err)
		}
		info, err = os.Stat(path)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("queue %s: %w: %w", path, tasks.ErrUnavailable, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("queue %s: it is no file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("queue %s: its mode is %#o and task data is nobody else's business; chmod 600 it, and what SQLite put beside it",
			path, info.Mode().Perm())
	}
	return info, nil
}

// checkFile fails when the file was removed, or replaced by another one: what
// is written to the one that is open would be lost.
func (s *Store) checkFile() error {
	info, err := os.Stat(s.path)
	if err == nil && os.SameFile(info, s.info) {
		return nil
	}
	return fmt.Errorf("%w: queue %s: the file was removed or replaced while it was in use; restart everything that works on it",
		tasks.ErrUnavailable, s.path)
}

// Same reports whether another Store works on the same file, whatever the two
// paths are.
func (s *Store) Same(other *Store) bool { return os.SameFile(s.info, other.info) }

func createFile(path string) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if err := temp.Close(); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil // another process was quicker
}

// networks are the filesystems of which several hosts can have one mounted, by
// the number that statfs answers; see statfs(2).
var networks = map[int64]string{
	0x6969:     "NFS",
	0x517b:     "SMB",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x5346414f: "AFS",
	0x6b414653: "AFS",
	0x73757245: "Coda",
	0x01021997: "9P",
	0x00c36400: "Ceph",
	0x0bd00bd0: "Lustre",
	0x01161970: "GFS2",
	0x7461636f: "OCFS2",
	0x47504653: "GPFS",
	0x19830326: "BeeGFS",
	0x013111a8: "IBRIX",
	0xaad7aaea: "PanFS",
	0x786f4256: "a folder shared by VirtualBox",
}

// fuse is everything that a program serves, local or not. What it is, only the
// table of mounts tells.
const fuse = 0x65735546

// networkPrograms are programs that serve files of other hosts.
var networkPrograms = []string{"sshfs", "glusterfs", "s3fs", "rclone", "ceph", "davfs", "juicefs", "mfs", "goofys", "gcsfuse", "smbnetfs", "curlftpfs", "lizardfs", "seaweedfs"}

func checkFilesystem(dir string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return fmt.Errorf("%w: %w", tasks.ErrUnavailable, err)
	}
	program := ""
	if int64(stat.Type) == fuse {
		program = mountedAs(dir)
	}
	return refuseNetwork(int64(stat.Type), program)
}

// refuseNetwork answers why there can be no queue on a filesystem, or nil.
func refuseNetwork(kind int64, program string) error {
	name := networks[kind&0xffffffff]
	for _, p := range networkPrograms {
		if strings.HasPrefix(strings.TrimPrefix(program, "fuse."), p) {
			name = p
		}
	}
	if name == "" {
		return nil
	}
	return fmt.Errorf("it lies on %s, where the processes cannot share memory, as SQLite's write-ahead log requires; put it on a local disk, or use MySQL or Redis for several hosts", name)
}

// mountedAs answers the type of the filesystem that a directory is on, as the
// table of mounts has it, or "".
func mountedAs(dir string) string {
	var own unix.Stat_t
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil || unix.Stat(dir, &own) != nil {
		return ""
	}
	defer table.Close()
	device := fmt.Sprintf("%d:%d", unix.Major(own.Dev), unix.Minor(own.Dev))
	for lines := bufio.NewScanner(table); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if kind := strings.Fields(after); len(fields) > 2 && fields[2] == device && len(kind) > 0 {
			return kind[0]
		}
	}
	return ""
}
