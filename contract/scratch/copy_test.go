package scratch

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The checkout may be the one that a site runs on.
func TestACopyHoldsNothingOfTheSiteAndWritesNothingToIt(t *testing.T) {
	site, from, to := t.TempDir(), filepath.Join(t.TempDir(), "current"), filepath.Join(t.TempDir(), "copy")
	elsewhere := t.TempDir()
	for path, text := range map[string]string{
		"src/Class.php":         "class",
		".git/HEAD":             "history",
		"conf/default.conf.php": "default",
		"conf/local/local.json": "password",
		"conf/local/README":     "read me",
	} {
		path = filepath.Join(site, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		filepath.Join(site, "conf/keys"):     elsewhere,
		filepath.Join(site, "src/Alias.php"): "Class.php",
		from:                                 site,
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyTree(from, to); err != nil {
		t.Fatal(err)
	}
	if got, want := filesBelow(t, to), []string{"conf/default.conf.php", "src/Alias.php", "src/Class.php"}; !slices.Equal(got, want) {
		t.Errorf("copied %q, want %q", got, want)
	}
	for _, dir := range []string{"conf/local", "conf/keys"} {
		if err := os.WriteFile(filepath.Join(to, dir, "local.json"), []byte("scratch"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(site, "conf/local/local.json")); err != nil || string(text) != "password" {
		t.Errorf("the site's configuration now says %q, %v", text, err)
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
		t.Errorf("the site's keys now hold %v, %v", left, err)
	}
}

func filesBelow(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		files = append(files, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
