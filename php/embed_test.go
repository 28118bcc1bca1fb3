package php

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Names that begin with "_" are passed over by the directive unless it names them.
func TestTheBinaryCarriesTheWholeLibrary(t *testing.T) {
	for _, dir := range []string{"bin", "resources", "src"} {
		want, got := filesIn(t, os.DirFS("."), dir), filesIn(t, Library, dir)
		if !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("of %s it carries\n%q\nand there are\n%q", dir, got, want)
		}
	}
}

func filesIn(t *testing.T, files fs.FS, dir string) (found []string) {
	t.Helper()
	err := fs.WalkDir(files, dir, func(path string, entry fs.DirEntry, err error) error {
		// What begins with a dot is a cache of PHP's.
		if err == nil && !entry.IsDir() && !strings.HasPrefix(filepath.Base(path), ".") {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
