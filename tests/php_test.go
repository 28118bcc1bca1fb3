package tests

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestThePHPSuitePasses(t *testing.T) {
	cmd := exec.Command("phpunit", "--colors=never", "--fail-on-risky", "--fail-on-warning", "--bootstrap", "bootstrap.php", ".")
	cmd.Dir = "../php/tests"
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("phpunit in php/tests: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "OK (") || strings.Contains(string(out), "No tests executed") {
		t.Errorf("phpunit does not say that all its tests passed:\n%s", out)
	}
}

// Phorge finds classes through the map alone: one that is missing there does
// not exist.
func TestTheMapOfThePHPLibraryIsCurrent(t *testing.T) {
	if differs := compareMap(t, "../php/src"); differs != "" {
		t.Errorf("php/src/__phutil_library_map__.php is stale:\n%sRun arc liberate in php/src.", differs)
	}
}

func TestAStaleMapIsSeen(t *testing.T) {
	root := filepath.Join(t.TempDir(), "src")
	if err := os.CopyFS(root, os.DirFS("../php/src")); err != nil {
		t.Fatal(err)
	}
	var moved string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if moved == "" && filepath.Dir(path) != root && filepath.Ext(path) == ".php" {
			moved = path
		}
		return err
	})
	if err != nil || moved == "" {
		t.Fatalf("no class in php/src: %v", err)
	}
	class := strings.TrimSuffix(filepath.Base(moved), ".php")
	for name, change := range map[string]func() error{
		"a new class": func() error {
			return os.WriteFile(filepath.Join(filepath.Dir(moved), "GantryNew.php"), []byte("<?php\n\nfinal class GantryNew extends Phobject {}\n"), 0o600)
		},
		"a class that moved": func() error {
			return os.Rename(moved, filepath.Join(filepath.Dir(moved), "Moved.php"))
		},
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"a new class": "GantryNew", "a class that moved": class}[name]
		if differs := compareMap(t, root); !strings.Contains(differs, want) {
			t.Errorf("%s goes unnoticed: %q", name, differs)
		}
	}
}

// compareMap answers a line for each symbol that is not in the map of a library
// as it is in its files.
func compareMap(t *testing.T, root string) string {
	t.Helper()
	out, err := exec.Command("php", "librarymap.php", root).CombinedOutput()
	if err != nil {
		t.Fatalf("librarymap.php %s: %v\n%s", root, err, out)
	}
	return string(out)
}
