package live

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tests/harness"
)

const maskNames = "../../contract/mask/names.txt"

// namesIn are what masks keep, by where it stands in Phorge's source: group 1,
// behind a prefix.
var namesIn = []struct {
	prefix string
	*regexp.Regexp
}{
	// Classes that data and rows name.
	{"", regexp.MustCompile(`(?m)^(?:abstract |final )*class (\w+(?:Worker|Story|Editor|Application|SearchEngine|PolicyRule|BuildStepImplementation))\b`)},
	// Keys that somebody composed.
	{"", regexp.MustCompile(`'([a-z]+(?:[A-Z][a-z]*)*(?:PHIDs?|IDs?|Epoch|Type|Mode|Class|Code|URIs?|Key|Count|Date|State|Status|Source|Version|Parameters))'`)},
	// Types of transactions, keys of their metadata, and policies of objects.
	{"", regexp.MustCompile(`'(core[:.][a-z-]+|edge:type|attach\.implicit)'`)},
	{"obj.", regexp.MustCompile(`function getObjectPolicyKey\(\) \{\s+return '([a-z.]+)';`)},
	// Kinds of PHIDs, and tokens that have one without chance in it.
	{"PHID-", regexp.MustCompile(`const TYPECONST = '([A-Z]{4})';`)},
	{"PHID-TOKN-", regexp.MustCompile(`array\('([a-z]+-[0-9])', pht\(`)},
}

// TestTheNamesThatMasksKeepArePhorges writes the list anew where
// GANTRY_NAMES_RECORD is set.
func TestTheNamesThatMasksKeepArePhorges(t *testing.T) {
	harness.Live(t)
	from, err := harness.FindPhorge()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	err = filepath.WalkDir(filepath.Join(from.Phorge, "src"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".php") || strings.Contains(path, "/__tests__/") || strings.Contains(path, "/extensions/") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, in := range namesIn {
			for _, match := range in.FindAllSubmatch(content, -1) {
				found[in.prefix+string(match[1])] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(slices.Sorted(maps.Keys(found)), "\n") + "\n"
	if os.Getenv("GANTRY_NAMES_RECORD") != "" {
		if err := os.WriteFile(maskNames, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recorded, err := os.ReadFile(maskNames)
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(recorded)) {
		if !found[name] {
			t.Errorf("%s is kept, and stands nowhere in this Phorge; set GANTRY_NAMES_RECORD=1 to write the list anew", name)
		}
	}
}
