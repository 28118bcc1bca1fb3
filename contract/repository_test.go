package contract

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// ofAMachine is what a golden must not say: where somebody keeps a Phorge.
var ofAMachine = regexp.MustCompile(`/(?:tmp|opt|root|home|usr|work)/`)

// TestTheGoldensOfThisRepositoryAreAsTheyAreRecorded: nobody wrote in them by
// hand, none is left of a case that is gone, and recording again leaves no
// traces of another machine.
func TestTheGoldensOfThisRepositoryAreAsTheyAreRecorded(t *testing.T) {
	dirs, err := filepath.Glob("cases/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("there are no folders of cases: %v", err)
	}
	for _, dir := range dirs {
		f, err := LoadFolder(dir)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, c := range f.Cases {
			if err := f.Current(c); err != nil {
				t.Errorf("%s: case %s: %v", dir, c.Name, err)
			}
		}
		stale, err := f.Stale()
		if err != nil || len(stale) > 0 {
			t.Errorf("no case has these goldens: %q, %v; remove them", stale, err)
		}
		err = filepath.WalkDir(filepath.Join(dir, "golden"), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || slices.Contains(stale, path) {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			g, err := readGolden(path)
			if err != nil {
				return err
			}
			again, err := encode(g)
			if err != nil {
				return err
			}
			if !bytes.Equal(content, again) {
				t.Errorf("%s is not as it would be recorded", path)
			}
			if found := ofAMachine.Find(content); found != nil {
				t.Errorf("%s says %q, which is of one machine", path, found)
			}
			return nil
		})
		if err != nil {
			t.Errorf("read the goldens of %s: %v", dir, err)
		}
	}
}

func TestEveryDeviationOfACaseStandsInTheDocument(t *testing.T) {
	document, err := os.ReadFile("../DEVIATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob("cases/*")
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	for _, dir := range dirs {
		f, err := LoadFolder(dir)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, c := range f.Cases {
			if c.Deviation == nil {
				continue
			}
			declared++
			if !bytes.Contains(document, []byte("`"+c.Deviation.ID+"`")) {
				t.Errorf("case %s declares the deviation `%s`, which DEVIATIONS.md does not explain", c.Name, c.Deviation.ID)
			}
		}
	}
	if declared == 0 {
		t.Error("no case declares a deviation; the test looks at nothing")
	}
}
