package scratch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/phorge-gantry/gantry/php"
)

// Checkouts are the directories of a Phorge and of the Arcanist that it loads.
// They are only read.
type Checkouts struct{ Phorge, Arcanist string }

// Check answers an error that names the directory which is no such checkout,
// and says where to get one. It wraps what os.Stat said.
func (c Checkouts) Check() error {
	for _, look := range []struct{ dir, file, source string }{
		{c.Phorge, "scripts/__init_script__.php", "phorge"},
		{c.Arcanist, "support/init/init-script.php", "arcanist"},
	} {
		if _, err := os.Stat(filepath.Join(look.dir, look.file)); err != nil {
			return fmt.Errorf("%q is no checkout of %s; clone https://we.phorge.it/source/%s.git: %w",
				look.dir, look.source, look.source, err)
		}
	}
	return nil
}

// Phorge is a stock Phorge with the library of package php: a scratch copy of a
// checkout, with a configuration and a storage of its own. Whatever is started
// in it ends with it, and with this process.
//
// Its methods are not safe for use at the same time, except those that answer
// what never changes.
type Phorge struct {
	server    *MariaDB
	namespace string
	dir       string
	reaper    *Reaper
}

// Install makes a Phorge whose storage is in the given namespace of a server,
// which should hold nothing of that name. It takes tens of seconds. Call Remove
// when the Phorge is no longer needed.
func Install(ctx context.Context, server *MariaDB, namespace string, from Checkouts) (*Phorge, error) {
	if err := from.Check(); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("php"); err != nil {
		return nil, fmt.Errorf("a Phorge needs PHP; on Debian and Ubuntu: "+
			"apt-get install php-cli php-mysql php-mbstring php-curl: %w", err)
	}
	dir, err := os.MkdirTemp("", "gantry-phorge-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for a scratch Phorge: %w", err)
	}
	p := &Phorge{server: server, namespace: namespace, dir: dir}
	if p.reaper, err = StartReaper(p.Instance(), "-l", dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := p.install(ctx, from); err != nil {
		return nil, errors.Join(fmt.Errorf("install a scratch Phorge: %w", err), p.Remove())
	}
	return p, nil
}

func (p *Phorge) install(ctx context.Context, from Checkouts) error {
	if err := errors.Join(
		copyTree(from.Phorge, p.Root()),
		copyTree(from.Arcanist, filepath.Join(p.dir, "arcanist")),
		os.CopyFS(p.library(), php.Library),
		os.MkdirAll(p.temp(), 0o755)); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"mysql.host":                "127.0.0.1",
		"mysql.port":                fmt.Sprint(p.server.Port()),
		"mysql.user":                "root",
		"mysql.pass":                "",
		"storage.default-namespace": p.namespace,
		"load-libraries":            []string{filepath.Join(p.library(), "src")},
		"phd.taskmasters":           0,
		"phd.log-directory":         filepath.Join(p.dir, "log"),

		// phd finds daemons by their process title, on the whole machine. The
		// instance is in that title, and keeps it from touching others.
		"cluster.instance": p.Instance(),
	})
	if err != nil {
		return err
	}
	if err := p.writeConfig(config); err != nil {
		return err
	}
	_, err = p.Bin(ctx, "storage", "upgrade", "--force")
	return err
}

// Remove ends every process of the Phorge and removes its directory. Its
// databases go with the server.
func (p *Phorge) Remove() error { return p.reaper.Reap() }

// Dir answers the directory that holds the Phorge and all it writes. What is put
// beside goes with it.
func (p *Phorge) Dir() string { return p.dir }

// Root answers the directory of the scratch checkout.
func (p *Phorge) Root() string { return filepath.Join(p.dir, "phorge") }

// Server answers the server that has the storage.
func (p *Phorge) Server() *MariaDB { return p.server }

// Namespace answers storage.default-namespace.
func (p *Phorge) Namespace() string { return p.namespace }

// DSN answers a go-sql-driver DSN for the worker database.
func (p *Phorge) DSN() string { return p.server.DSN(p.namespace + "_worker") }

// Instance answers cluster.instance, which every daemon of the Phorge has in its
// process title behind "-l".
func (p *Phorge) Instance() string { return filepath.Base(p.dir) }

// PoolCommand answers the command of a resident process for bridge/pool.
func (p *Phorge) PoolCommand() []string {
	return []string{"php", filepath.Join(p.library(), "bin", "pool-host.php"), "--phorge", p.Root()}
}

func (p *Phorge) library() string { return filepath.Join(p.dir, "php") }
func (p *Phorge) temp() string    { return filepath.Join(p.dir, "tmp") }
func (p *Phorge) config() string  { return filepath.Join(p.Root(), "conf/local/local.json") }

// Configure sets options of the scratch configuration, as bin/config set does.
// PHP processes that already run keep the values they started with.
func (p *Phorge) Configure(options map[string]any) error {
	_, err := p.Override(options)
	return err
}

// Override is Configure, and answers what puts the configuration back.
func (p *Phorge) Override(options map[string]any) (reset func() error, err error) {
	was, err := os.ReadFile(p.config())
	if err != nil {
		return nil, fmt.Errorf("read the scratch configuration: %w", err)
	}
	config := map[string]any{}
	if err := json.Unmarshal(was, &config); err != nil {
		return nil, fmt.Errorf("read the scratch configuration %s: %w", p.config(), err)
	}
	for key, value := range options {
		config[key] = value
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("write the scratch configuration: %w", err)
	}
	return func() error { return p.writeConfig(was) }, p.writeConfig(text)
}

func (p *Phorge) writeConfig(text []byte) error {
	if err := os.WriteFile(p.config(), text, 0o644); err != nil {
		return fmt.Errorf("write the scratch configuration: %w", err)
	}
	return nil
}

// Options answers the names of the options that the Phorge has.
func (p *Phorge) Options(ctx context.Context) ([]string, error) {
	out, err := p.Bin(ctx, "config", "list")
	return strings.Fields(out), err
}

// Bin runs a program of Phorge's bin directory and answers what it printed, on
// stdout and stderr. The error holds it as well.
func (p *Phorge) Bin(ctx context.Context, name string, args ...string) (string, error) {
	out, err := p.Run(ctx, filepath.Join(p.Root(), "bin", name), args...)
	if err != nil {
		return out, fmt.Errorf("bin/%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return out, nil
}

// Run runs a program in the Phorge's environment and answers what it printed, on
// stdout and stderr. When the context ends, so does it.
func (p *Phorge) Run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Env = p.Environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	child, err := Spawn(cmd)
	if err != nil {
		return "", err
	}
	select {
	case <-child.Exited():
		return out.String(), child.Err()
	case <-ctx.Done():
		err := errors.Join(ctx.Err(), child.Kill()) // nothing writes to out any more
		return out.String(), err
	}
}

// Environment is ours without what would reach into the configuration of
// Phorge, and with temporary files where they are removed.
func (p *Phorge) Environment() []string {
	env := []string{"TMPDIR=" + p.temp()}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if name != "TMPDIR" && !strings.HasPrefix(name, "PHABRICATOR_") && !strings.HasPrefix(name, "PHUTIL_") {
			env = append(env, entry)
		}
	}
	return env
}
