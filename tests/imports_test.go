// Package tests holds what looks at the repository as a whole.
package tests

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/phorge-gantry/gantry/"

// rooms is the import table: what each room may import of this repository.
// Imports point downwards only, and a package that is in no room fails.
var rooms = map[string][]string{
	"tasks":           {},
	"tasks/phorge":    {"tasks"},
	"tasks/embedded":  {"tasks"},
	"tasks/redis":     {"tasks"},
	"tasks/runtime":   {"tasks"},
	"tasks/storetest": {"tasks"},
	"tasks/queueapi":  {"tasks", "tasks/token"},
	"tasks/metrics":   {"tasks"},
	"tasks/tracing":   {"tasks"},
	"tasks/spawn":     {},
	"tasks/token":     {},

	"plugins/pluginpb": {"tasks"},
	"plugins":          {"tasks", "plugins/pluginpb"},
	"plugins/host":     {"tasks", "tasks/spawn", "plugins", "plugins/pluginpb"},
	"plugins/scaffold": {},
	"plugins/phpenc":   {},
	"plugins/fetch":    {},

	"bridge/engine":  {"tasks"},
	"bridge/pool":    {"tasks", "tasks/spawn", "bridge/engine"},
	"bridge/conduit": {"tasks", "bridge/engine"},
	"bridge/gateway": {"tasks/token"},
	"php":            {},

	"contract":         {"tasks"},
	"contract/cases/*": {"contract", "contract/draw"},
	"contract/draw":    {"contract"},
	"contract/mask":    {"contract", "tasks"},
	"contract/queue":   {"tasks", "tasks/phorge"},
	"contract/rows":    {},
	"contract/scratch": {"php"},
	"contract/stage": {
		"tasks", "tasks/phorge", "plugins", "plugins/host", "bridge/pool", "contract", "contract/rows", "contract/scratch",
	},

	"cmd/gantry": {
		"tasks", "tasks/phorge", "tasks/embedded", "tasks/redis", "tasks/runtime", "tasks/queueapi", "tasks/token", "tasks/metrics", "tasks/tracing", "plugins", "plugins/host",
		"plugins/scaffold", "bridge/pool", "bridge/conduit", "bridge/gateway", "php",
		"contract", "contract/mask", "contract/scratch", "contract/stage",
	},
	"cmd/handler-*": {"tasks", "plugins", "plugins/phpenc", "plugins/fetch"},

	"tests/*": {"*"},
}

// drivers may be imported by their own rooms only (and by tests), so that the
// vocabulary and the loop stay free of any backend.
var drivers = map[string][]string{
	"github.com/go-sql-driver/mysql": {"tasks/phorge", "plugins", "contract/rows", "contract/scratch", "contract/stage"},
	"github.com/hashicorp/go-plugin": {"plugins"},
	"modernc.org/sqlite":             {"tasks/embedded"},
	"github.com/prometheus/":         {"tasks/metrics"},
	"go.opentelemetry.io/":           {"tasks/tracing"},
	"github.com/redis/go-redis":      {"tasks/redis"},
}

type listed struct {
	ImportPath string
	Imports    []string
}

func TestRoomsImportDownwardsOnly(t *testing.T) {
	seen := 0
	for _, pkg := range listPackages(t) {
		room, allowed := roomOf(strings.TrimPrefix(pkg.ImportPath, module))
		if room == "" {
			t.Errorf("%s is in no room of the import table; add the room or move the package", pkg.ImportPath)
			continue
		}
		seen++
		for _, imported := range pkg.Imports {
			if complaint := forbidden(room, allowed, imported); complaint != "" {
				t.Errorf("%s imports %s: %s", pkg.ImportPath, imported, complaint)
			}
		}
	}
	if seen < len(rooms)/2 {
		t.Fatalf("only %d packages were looked at; the test is not looking at the repository", seen)
	}
}

func TestForbiddenImportsAreSeen(t *testing.T) {
	for _, c := range []struct{ importer, imported string }{
		{"tasks", module + "tasks/phorge"},
		{"tasks", "github.com/rs/zerolog"},
		{"tasks/runtime", module + "tasks/phorge"},
		{"tasks/phorge", module + "plugins/host"},
		{"tasks/runtime", "github.com/go-sql-driver/mysql"},
		{"bridge/engine", module + "bridge/pool"},
		{"bridge/pool", module + "tasks/phorge"},
		{"bridge/conduit", module + "bridge/pool"},
		{"bridge/conduit", "github.com/go-sql-driver/mysql"},
		{"tasks/runtime", "github.com/prometheus/client_golang/prometheus"},
		{"tasks/queueapi", "go.opentelemetry.io/otel/trace"},
	} {
		room, allowed := roomOf(c.importer)
		if forbidden(room, allowed, c.imported) == "" {
			t.Errorf("%s may import %s, and must not", c.importer, c.imported)
		}
	}
}

// forbidden answers why a room may not import a package, or "".
func forbidden(room string, allowed []string, imported string) string {
	path, ours := strings.CutPrefix(imported, module)
	if !ours {
		return forbiddenOutside(room, imported)
	}
	target, _ := roomOf(path)
	if target == room || slices.Contains(allowed, "*") || slices.Contains(allowed, target) {
		return ""
	}
	return room + " may only import " + strings.Join(allowed, ", ")
}

func forbiddenOutside(room, imported string) string {
	if room == "tasks" && strings.Contains(imported, ".") {
		return "tasks imports the standard library only"
	}
	for driver, owners := range drivers {
		if !strings.HasPrefix(imported, driver) || strings.HasPrefix(room, "tests/") {
			continue
		}
		owns := func(owner string) bool { return room == owner || strings.HasPrefix(room, owner+"/") }
		if !slices.ContainsFunc(owners, owns) {
			return "only " + strings.Join(owners, ", ") + " may import it"
		}
	}
	return ""
}

// roomOf finds the room of a package: its own entry of the table, or one that
// ends in * and begins its path.
func roomOf(path string) (room string, allowed []string) {
	for name, imports := range rooms {
		prefix, open := strings.CutSuffix(name, "*")
		if path == name || open && strings.HasPrefix(path, prefix) {
			return name, imports
		}
	}
	return "", nil
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var packages []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg listed
		switch err := decoder.Decode(&pkg); {
		case errors.Is(err, io.EOF):
			return packages
		case err != nil:
			t.Fatal(err)
		}
		if pkg.ImportPath != strings.TrimSuffix(module, "/")+"/tests" {
			packages = append(packages, pkg)
		}
	}
}
