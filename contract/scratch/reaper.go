package scratch

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"syscall"
)

// reap kills every process whose title matches, until there is none, and removes
// the directory. It waits for the end of its input first: that comes when the
// owner is removed, and also when whoever made it was killed. So processes that
// leave their parent never stay behind.
const reap = `cat >/dev/null
again=yes
while test "$again"; do
  again=
  for title in $(LC_ALL=C grep -Ela -e "$1" /proc/[0-9]*/cmdline); do
    process=${title%/cmdline}
    kill -9 "${process#/proc/}" && again=yes
  done
done
rm -rf "$2"`

// Reaper ends processes that are not our children.
type Reaper struct {
	dir   string
	cmd   *exec.Cmd
	input io.Closer // closing it sets the reaper to work
}

// StartReaper starts one for the processes whose title carries "<prefix> <name>",
// and for a directory. It also sets to work when this process is killed.
func StartReaper(name, prefix, dir string) (*Reaper, error) {
	// Arguments are apart by zeros in a title, or by spaces where it was set.
	title := regexp.QuoteMeta(prefix) + "[^[:alnum:]]" + regexp.QuoteMeta(name) + "[^[:alnum:]]"
	r := &Reaper{dir: dir, cmd: exec.Command("sh", "-c", reap, "reaper", title, dir)}
	var err error
	if r.input, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// Out of reach of what ends us, Ctrl-C included.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the process that ends what was started in %s: %w", dir, err)
	}
	return r, nil
}

// Reap ends every process and removes the directory.
func (r *Reaper) Reap() error {
	if err := errors.Join(r.input.Close(), r.cmd.Wait()); err != nil {
		return fmt.Errorf("end what was started in %s: %w", r.dir, err)
	}
	return nil
}
