package harness

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/phorge-gantry/gantry/contract/scratch"
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

// Phorge is a scratch Phorge with the classes and scripts of the harness.
type Phorge struct{ *scratch.Phorge }

// FindPhorge answers the installed checkouts: those named by PHORGE_ROOT and
// ARCANIST_ROOT, else /opt/phorge and /opt/arcanist. The error wraps ErrNoPhorge
// when neither was named and not both are there; a named directory that holds no
// checkout is an error of its own.
func FindPhorge() (scratch.Checkouts, error) {
	found := scratch.Checkouts{Phorge: "/opt/phorge", Arcanist: "/opt/arcanist"}
	named := false
	for env, dir := range map[string]*string{"PHORGE_ROOT": &found.Phorge, "ARCANIST_ROOT": &found.Arcanist} {
		if value, set := os.LookupEnv(env); set {
			*dir, named = value, true
		}
	}
	err := found.Check()
	if err != nil && !named {
		err = fmt.Errorf("%w: PHORGE_ROOT and ARCANIST_ROOT are not set, and %w", ErrNoPhorge, err)
	}
	return found, err
}

// InstallPhorge makes a Phorge whose storage is in the given namespace of a
// server. The error wraps ErrNoPhorge as FindPhorge does.
func InstallPhorge(server *scratch.MariaDB, namespace string) (*Phorge, error) {
	checkouts, err := FindPhorge()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	installed, err := scratch.Install(ctx, server, namespace, checkouts)
	if err != nil {
		return nil, err
	}
	p := &Phorge{installed}
	if err := p.addFiles(); err != nil {
		return nil, errors.Join(err, p.Remove())
	}
	return p, nil
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

// script answers where a script of the harness is.
func (p *Phorge) script(name string) string { return filepath.Join(p.Dir(), name) }

// Reset empties the worker tables and forgets the executions and the mails. The
// id counter goes on. Nothing may be working on the queue.
func (p *Phorge) Reset() error {
	err := p.Server().Exec(context.Background(), p.Namespace()+"_worker",
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
