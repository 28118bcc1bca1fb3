package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/phorge-gantry/gantry/plugins/scaffold"
	"github.com/spf13/cobra"
)

// newPlugin is what `plugins new` was asked for.
type newPlugin struct {
	classes []string
	module  string
	gantry  string
}

func (a *app) pluginsNewCommand() *cobra.Command {
	var n newPlugin
	cmd := &cobra.Command{
		Use:   "new DIR --class CLASS...",
		Short: "Write a new module for a handler binary",
		Long: `Write a Go module for a handler binary into a new or empty folder: a handler for
each class, its test, a first case for "gantry contract", a test that draws cases,
a manifest and a script for CI. It builds and its tests pass at once. Until their
work is written, the handlers leave every task to PHP.

The module takes the released Gantry, of this version where this is one; with
--gantry, a checkout on this machine, by a relative path where that lies beside the
module. "go mod tidy" is run in the folder; when it fails, nothing is left there,
and the exit code is 1. contract/GUIDE.md of Gantry tells the way from there.`,
		Example: `  gantry plugins new handler-acme --class AcmeGreetingWorker --gantry ../gantry
  gantry plugins new handler-acme --class AcmeOrderWorker --class AcmeInvoiceWorker`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one folder for the module, as in `%s handler-acme --class AcmeGreetingWorker`", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return a.writeModule(ctx, args[0], n)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&n.classes, "class", nil, "task `class` that the binary is for; can be repeated")
	flags.Lookup("class").DefValue = ""
	flags.StringVar(&n.module, "module", "", "`path` of the module (default example.com/ and the name of the folder)")
	flags.StringVar(&n.gantry, "gantry", "", "`directory` of a checkout of Gantry to take instead of a released one")
	return cmd
}

// gantryModule is the module that handler binaries import.
const gantryModule = "github.com/phorge-gantry/gantry"

func (a *app) writeModule(ctx context.Context, dir string, n newPlugin) error {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	m := scaffold.Module{Dir: dir, Path: n.module, Classes: n.classes, Version: requirable(readVersion().Version)}
	if m.Path == "" {
		m.Path = "example.com/" + filepath.Base(absolute)
	}
	if n.gantry != "" {
		if m.Checkout, err = checkout(n.gantry); err != nil {
			return err
		}
		m.Version = "v0.0.0"
	}
	made := firstMissing(absolute)
	written, err := m.Write()
	if err != nil {
		return coded{err, exitUsage}
	}
	if err := tidy(ctx, dir); err != nil {
		err = fmt.Errorf("the module cannot be built, so it was removed again: %w", err)
		if n.gantry == "" {
			err = fmt.Errorf("%w\nWhere no release of Gantry can be had, name a checkout of it with --gantry /path/to/gantry", err)
		}
		return errors.Join(err, unwrite(dir, made))
	}
	return a.printModule(m, written)
}

// firstMissing answers the topmost folder on the way to a path that is not there,
// or "" when all are.
func firstMissing(path string) (missing string) {
	for {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return missing
		}
		missing, path = path, filepath.Dir(path)
	}
}

// unwrite removes what was written: the folders that were made for it, or what is
// in the one that was there, and was empty.
func unwrite(dir, made string) error {
	if made != "" {
		return os.RemoveAll(made)
	}
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	return err
}

// released are the versions that a tag gives; go.mod takes no other of a
// module that is not there.
var released = regexp.MustCompile(`^v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)$`)

// requirable answers the version of this Gantry as go.mod requires it, or the
// latest for a build of something that was not released.
func requirable(version string) string {
	if match := released.FindStringSubmatch(version); match != nil {
		return "v" + match[1]
	}
	return "latest"
}

// checkout answers the absolute path of a checkout of Gantry.
func checkout(dir string) (string, error) {
	content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", usagef("--gantry: %w", err)
	}
	if first, _, _ := strings.Cut(string(content), "\n"); strings.TrimSpace(first) != "module "+gantryModule {
		return "", usagef("--gantry %s is no checkout of Gantry: its go.mod is that of another module", dir)
	}
	return filepath.Abs(dir)
}

// tidy writes into go.mod and go.sum what the module needs.
func tidy(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "mod", "tidy")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go mod tidy: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

func (a *app) printModule(m scaffold.Module, written []string) error {
	if a.print.json {
		return a.print.document(struct {
			Dir    string   `json:"dir"`
			Module string   `json:"module"`
			Files  []string `json:"files"`
		}{m.Dir, m.Path, written})
	}
	a.print.linef("The module %s was written to %s:", m.Path, m.Dir)
	for _, name := range written {
		a.print.linef("    %s", name)
	}
	a.print.linef("")
	a.print.linef("Next:")
	a.print.linef("    cd %s", m.Dir)
	a.print.linef("    go test ./...")
	a.print.linef("    gantry contract new %s --cases cases --name real --from-queue 5   # more cases, of real tasks", m.Classes[0])
	a.print.linef("    gantry contract record --cases cases --phorge /path/to/phorge   # what PHP does with them")
	a.print.linef("Then write the work in workers/, until ./ci.sh finds no difference.")
	return nil
}
