package tests

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	quoted = regexp.MustCompile(`"([^"]+)"`)
	named  = regexp.MustCompile(`Test[A-Za-z0-9]+`)
)

// TestEveryDeviationNamesATestThatExists keeps DEVIATIONS.md true: the last
// cell of each row names behaviours of the conformance table or of the API's, or
// cases of the PHP suite, or tests.
func TestEveryDeviationNamesATestThatExists(t *testing.T) {
	document, err := os.ReadFile("../DEVIATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	behaviours, tests := sources(t, "../tasks/storetest", ".go"), sources(t, "..", "_test.go")
	ofAPI := sources(t, "../tasks/queueapi", "_test.go")
	inPHP := sources(t, "../php/tests", "Test.php")
	rows := 0
	for line := range strings.Lines(string(document)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[3]) == "test" {
			continue
		}
		rows++
		proofs := 0
		for _, name := range quoted.FindAllStringSubmatch(cells[3], -1) {
			proofs++
			if !strings.Contains(behaviours, `name: "`+name[1]+`"`) &&
				!strings.Contains(ofAPI, `{"`+name[1]+`", func(`) && !strings.Contains(inPHP, "'"+name[1]+"' => ") {
				t.Errorf("there is no behaviour %q", name[1])
			}
		}
		for _, name := range named.FindAllString(cells[3], -1) {
			proofs++
			if !strings.Contains(tests, "func "+name+"(") {
				t.Errorf("there is no test %s", name)
			}
		}
		if proofs == 0 {
			t.Errorf("a deviation without a test: %s", cells[0])
		}
	}
	if rows < 10 {
		t.Errorf("only %d deviations were found; the test does not read the document", rows)
	}
}

// sources answers the text of all files below a folder whose names end so.
func sources(t *testing.T, dir, end string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, end) {
			return err
		}
		content, err := os.ReadFile(path)
		all.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
