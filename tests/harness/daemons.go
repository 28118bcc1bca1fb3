package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/phorge-gantry/gantry/contract/scratch"
)

// PHP runs a script of the harness on the Phorge and answers what it printed.
func (p *Phorge) PHP(ctx context.Context, script string, args ...string) (string, error) {
	out, err := p.Run(ctx, "php", append([]string{p.script(script), p.Root()}, args...)...)
	if err != nil {
		return out, fmt.Errorf("%s %s: %w\n%s", script, strings.Join(args, " "), err, out)
	}
	return out, nil
}

// Schedule queues n equal tasks through PhabricatorWorker::scheduleTask, each
// in a transaction of its own as everywhere in Phorge, and answers their ids.
// Options are those of scheduleTask and may be nil.
func (p *Phorge) Schedule(ctx context.Context, class string, n int, data, options map[string]any) ([]int64, error) {
	args := []string{class, strconv.Itoa(n)}
	for _, m := range []map[string]any{data, options} {
		text := []byte("{}")
		if m != nil {
			var err error
			if text, err = json.Marshal(m); err != nil {
				return nil, fmt.Errorf("schedule %s: %w", class, err)
			}
		}
		args = append(args, string(text))
	}
	out, err := p.PHP(ctx, "schedule.php", args...)
	if err != nil {
		return nil, err
	}
	ids := make([]int64, 0, n)
	for line := range strings.Lines(out) {
		id, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("schedule %d tasks of %s: it printed %s", n, class, out)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// patience is far more than a loaded machine needs to start or end what a test
// asks for.
const patience = time.Minute

// Taskmaster is one stock PhabricatorTaskmasterDaemon, started as the overseer
// of phd starts it but without an overseer: it is not started again when a
// temporary failure ends it.
type Taskmaster struct {
	process *scratch.Process
	log     string
}

// StartTaskmaster starts a taskmaster.
func (p *Phorge) StartTaskmaster() (*Taskmaster, error) {
	log, err := os.CreateTemp(p.Dir(), "taskmaster-*.log")
	if err != nil {
		return nil, fmt.Errorf("start a taskmaster: %w", err)
	}
	defer log.Close()
	cmd := exec.Command("./exec_daemon.php", "PhabricatorTaskmasterDaemon", "-l", p.Instance())
	cmd.Dir = filepath.Join(p.Root(), "scripts/daemon/exec")
	cmd.Env = p.Environment()
	// A member of a pool leaves it when it was idle for "down" seconds; the
	// only one hibernates after fifteen. A test wants it to stay.
	cmd.Stdin = strings.NewReader(`{"down": 86400}`)
	cmd.Stdout, cmd.Stderr = log, log
	// The daemon makes a session of its own and fails when it leads a process
	// group already, so it gets none from us.
	child, err := scratch.Spawn(cmd)
	if err != nil {
		return nil, fmt.Errorf("start a taskmaster: %w", err)
	}
	return &Taskmaster{process: child, log: log.Name()}, nil
}

// PID answers the process id, which begins every leaseOwner of the taskmaster.
func (m *Taskmaster) PID() int { return m.process.PID() }

// Done is closed when the taskmaster has ended.
func (m *Taskmaster) Done() <-chan struct{} { return m.process.Exited() }

// Log answers what the taskmaster printed, its messages to an overseer
// included.
func (m *Taskmaster) Log() (string, error) {
	text, err := os.ReadFile(m.log)
	return string(text), err
}

// Kill ends the taskmaster in the middle of what it does.
func (m *Taskmaster) Kill() error { return m.process.Kill() }

// Stop lets the taskmaster finish its task and waits for its end.
func (m *Taskmaster) Stop() error {
	if err := m.process.End(syscall.SIGINT, patience); err != nil {
		return errors.Join(fmt.Errorf("stop a taskmaster: %w", err), m.Kill())
	}
	return nil
}
