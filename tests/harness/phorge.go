package harness

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrNoPhorge says that there is no Phorge to test against on this machine.
var ErrNoPhorge = errors.New("no Phorge checkout")

// phpFiles are classes, which the scratch Phorge knows besides its own, and
// scripts, which begin with a small letter.
//
//go:embed php
var phpFiles embed.FS

// LiveWorker is a taskClass that the scratch Phorge knows besides its own. It
// takes the data of PhabricatorTestWorker, and doWork "yield" with the seconds
// in "yield", and leaves a line for every execution: see Executions.
const LiveWorker = "GantryLiveWorker"

// Phorge is a stock Phorge with the library php/ of this repository: a scratch
// copy of a checkout, with a configuration and a storage of its own. Whatever is started in it ends with it, and with
// this process.
type Phorge struct {
	server    *MariaDB
	namespace string
	dir       string
	reaper    *reaper
}

// FindPhorge answers the directories of the installed checkouts: those named by
// PHORGE_ROOT and ARCANIST_ROOT, else /opt/phorge and /opt/arcanist. The error
// wraps ErrNoPhorge when neither was named and nothing is there; a named
// directory that holds no Phorge is an error of its own.
func FindPhorge() (phorge, arcanist string, err error) {
	for _, find := range []struct {
		env, fallback, file string
		found               *string
	}{
		{"PHORGE_ROOT", "/opt/phorge", "scripts/__init_script__.php", &phorge},
		{"ARCANIST_ROOT", "/opt/arcanist", "support/init/init-script.php", &arcanist},
	} {
		dir, named := os.LookupEnv(find.env)
		if !named {
			dir = find.fallback
		}
		if _, err := os.Stat(filepath.Join(dir, find.file)); err == nil {
			*find.found = dir
		} else if named {
			return "", "", fmt.Errorf("%s names %s, which is no such checkout: %w", find.env, dir, err)
		} else {
			return "", "", fmt.Errorf("%w: %s is not set and %s holds none", ErrNoPhorge, find.env, dir)
		}
	}
	return phorge, arcanist, nil
}

// InstallPhorge makes a Phorge whose storage is in the given namespace of a
// server. The error wraps ErrNoPhorge as FindPhorge does.
func InstallPhorge(server *MariaDB, namespace string) (*Phorge, error) {
	phorge, arcanist, err := FindPhorge()
	if err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("php"); err != nil {
		return nil, fmt.Errorf("a Phorge is installed, but no PHP to run it; on Debian and Ubuntu: "+
			"apt-get install php-cli php-mysql php-mbstring php-curl: %w", err)
	}
	dir, err := os.MkdirTemp("", "gantry-phorge-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for a scratch Phorge: %w", err)
	}
	p := &Phorge{server: server, namespace: namespace, dir: dir}
	if p.reaper, err = startReaper(p.instance(), "-l", dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := p.install(phorge, arcanist); err != nil {
		return nil, errors.Join(fmt.Errorf("install a scratch Phorge: %w", err), p.Remove())
	}
	return p, nil
}

func (p *Phorge) install(phorge, arcanist string) error {
	if err := errors.Join(
		copyTree(phorge, p.Root()),
		copyTree(arcanist, filepath.Join(p.dir, "arcanist")),
		os.MkdirAll(p.temp(), 0o755)); err != nil {
		return err
	}
	repository, err := findRepository()
	if err != nil {
		return err
	}
	if err := copyTree(filepath.Join(repository, "php"), p.library()); err != nil {
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
		"cluster.instance": p.instance(),
	})
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(p.config(), config, 0o644), p.addFiles()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	_, err = p.Bin(ctx, "storage", "upgrade", "--force")
	return err
}

func (p *Phorge) addFiles() error {
	files, err := phpFiles.ReadDir("php")
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := phpFiles.ReadFile("php/" + file.Name())
		if err != nil {
			return err
		}
		path := p.script(file.Name())
		if strings.HasPrefix(file.Name(), "Gantry") {
			path = filepath.Join(p.Root(), "src/extensions", file.Name())
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Remove ends every process of the Phorge and removes its directory. Its
// databases go with the server.
func (p *Phorge) Remove() error { return p.reaper.reap() }

// findRepository answers the directory of this repository, in which or below
// which the program runs.
func findRepository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "php", "bin", "pool-host.php")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the library php/ of this repository is not above the working directory; run from the repository")
		}
		dir = parent
	}
}

// Root answers the directory of the scratch checkout.
func (p *Phorge) Root() string { return filepath.Join(p.dir, "phorge") }

// PoolCommand answers the command of a resident process for bridge/pool.
func (p *Phorge) PoolCommand() []string {
	return []string{"php", filepath.Join(p.library(), "bin", "pool-host.php"), "--phorge", p.Root()}
}

// Namespace answers storage.default-namespace.
func (p *Phorge) Namespace() string { return p.namespace }

// DSN answers a go-sql-driver DSN for the worker database.
func (p *Phorge) DSN() string { return p.server.DSN(p.namespace + "_worker") }

func (p *Phorge) library() string           { return filepath.Join(p.dir, "php") }
func (p *Phorge) temp() string              { return filepath.Join(p.dir, "tmp") }
func (p *Phorge) instance() string          { return filepath.Base(p.dir) }
func (p *Phorge) config() string            { return filepath.Join(p.Root(), "conf/local/local.json") }
func (p *Phorge) script(name string) string { return filepath.Join(p.dir, name) }

// Configure sets options of the scratch configuration, as bin/config set does.
// PHP processes that already run keep the values they started with.
func (p *Phorge) Configure(options map[string]any) error {
	path := p.config()
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the scratch configuration: %w", err)
	}
	config := map[string]any{}
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("read the scratch configuration %s: %w", path, err)
	}
	for key, value := range options {
		config[key] = value
	}
	if text, err = json.Marshal(config); err != nil {
		return fmt.Errorf("write the scratch configuration: %w", err)
	}
	return os.WriteFile(path, text, 0o644)
}

// Override is Configure, and answers what puts the configuration back.
func (p *Phorge) Override(options map[string]any) (reset func() error, err error) {
	text, err := os.ReadFile(p.config())
	if err != nil {
		return nil, fmt.Errorf("read the scratch configuration: %w", err)
	}
	return func() error { return os.WriteFile(p.config(), text, 0o644) }, p.Configure(options)
}

// Reset empties the worker tables and forgets the executions and the mails. The
// id counter goes on. Nothing may be working on the queue.
func (p *Phorge) Reset() error {
	err := p.server.exec(context.Background(), p.namespace+"_worker",
		"TRUNCATE worker_activetask; TRUNCATE worker_archivetask; TRUNCATE worker_taskdata")
	if err := errors.Join(err, p.forget()); err != nil {
		return fmt.Errorf("reset the scratch Phorge: %w", err)
	}
	return nil
}

// forget removes what PHP recorded.
func (p *Phorge) forget() (err error) {
	for _, file := range []string{p.executions(), p.mails()} {
		if rm := os.Remove(file); !errors.Is(rm, os.ErrNotExist) {
			err = errors.Join(err, rm)
		}
	}
	return err
}

// Execution is one run of a LiveWorker task by a PHP process.
type Execution struct {
	ID  int64 // of the task
	PID int   // of the process
}

// Executions answers every run of a LiveWorker task since the last Reset, in
// their order.
func (p *Phorge) Executions() ([]Execution, error) {
	text, err := os.ReadFile(p.executions())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the executions: %w", err)
	}
	var all []Execution
	for line := range strings.Lines(string(text)) {
		var e Execution
		if _, err := fmt.Sscan(line, &e.ID, &e.PID); err != nil {
			return nil, fmt.Errorf("read the executions: line %q: %w", line, err)
		}
		all = append(all, e)
	}
	return all, nil
}

// Mails answers the mails that were delivered since the last Reset or Restore,
// as JSON objects.
func (p *Phorge) Mails() ([]string, error) {
	text, err := os.ReadFile(p.mails())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the mails: %w", err)
	}
	return slices.Collect(strings.Lines(string(text))), nil
}

func (p *Phorge) executions() string { return filepath.Join(p.Root(), "executions") }
func (p *Phorge) mails() string      { return filepath.Join(p.Root(), "mails") }
