package contract

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// worldFile is the file of the world that every case of a folder starts from.
const worldFile = "world.yaml"

// Folder is a folder of cases, with what was recorded of them: golden/NAME.yaml
// is the observation of PHP, golden/NAME.go.yaml that of Go where the case
// declares a deviation, and schema.sql has the tables that the cases need.
type Folder struct {
	Dir   string
	Cases []Case // by file and place in it, each with its whole world
}

// LoadFolder reads the cases of a folder: `cases:` of every file that ends in
// .yaml, over the World of world.yaml. A case's own options and receivers go over
// those of the same name, its rows and locks come after. Unknown keys,
// impossible values and placeholders that stand for nothing are refused, all of
// them at once, each with its file and line and what to mend.
func LoadFolder(dir string) (*Folder, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the folder of cases: %w", err)
	}
	world, err := loadWorld(dir)
	problems := []error{err}
	f := &Folder{Dir: dir}
	where := map[string]string{}
	for _, entry := range entries {
		name := entry.Name()
		if filepath.Ext(name) == ".yml" {
			problems = append(problems, fmt.Errorf("%s: cases are read from files that end in .yaml; rename it", filepath.Join(dir, name)))
		}
		if entry.IsDir() || filepath.Ext(name) != ".yaml" || name == worldFile {
			continue
		}
		cases, err := loadCases(filepath.Join(dir, name), world, where)
		problems = append(problems, err)
		f.Cases = append(f.Cases, cases...)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if len(f.Cases) == 0 {
		return nil, fmt.Errorf("%s holds no cases; `gantry contract new CLASS` writes a first one", dir)
	}
	return f, nil
}

// Name is how reports name the folder: its last element.
func (f *Folder) Name() string {
	dir, err := filepath.Abs(f.Dir)
	if err != nil {
		dir = f.Dir
	}
	return filepath.Base(dir)
}

// Tables are those that the world and the recorded observations name, sorted,
// each as database.table: what schema.sql must define. A table that a class only
// reads, and finds empty, is named by a world with an empty list of its rows.
func (f *Folder) Tables() ([]string, error) {
	named := map[string]bool{}
	for _, c := range f.Cases {
		for table := range c.World.Rows {
			named[table] = true
		}
		for _, path := range f.recorded(c) {
			o, err := readGolden(path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			for _, change := range o.Changes {
				named[change.Table] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(named)), nil
}

// Golden answers the recorded observation of PHP. The error wraps fs.ErrNotExist
// when there is none.
func (f *Folder) Golden(name string) (Observation, error) {
	g, err := readGolden(f.golden(name))
	return g.Observation, err
}

// SaveGolden records what PHP makes of a case, which is normalised.
func (f *Folder) SaveGolden(c Case, o Observation) error { return writeGolden(f.golden(c.Name), c, o) }

// GoldenOfGo answers the recorded observation of Go, of a case that declares a
// deviation. The error wraps fs.ErrNotExist when there is none.
func (f *Folder) GoldenOfGo(name string) (Observation, error) {
	g, err := readGolden(f.goldenOfGo(name))
	return g.Observation, err
}

// SaveGoldenOfGo records what Go makes of a case, which is normalised. It refuses
// what does not differ from what PHP did: the deviation is none then.
func (f *Folder) SaveGoldenOfGo(c Case, o Observation) error {
	php, err := f.Golden(c.Name)
	if err != nil {
		return err
	}
	if len(Compare(c, php, o)) == 0 {
		return fmt.Errorf("case %s declares a deviation, and Go does what PHP did; remove the deviation from the case", c.Name)
	}
	return writeGolden(f.goldenOfGo(c.Name), c, o)
}

// Want answers what Go is to be held against: what PHP did, or what Go is
// declared to do instead.
func (f *Folder) Want(c Case) (Observation, error) {
	if c.Deviation != nil {
		return f.GoldenOfGo(c.Name)
	}
	return f.Golden(c.Name)
}

// Stale answers the files in golden/ that belong to no case.
func (f *Folder) Stale() ([]string, error) {
	found, err := filepath.Glob(filepath.Join(f.Dir, "golden", "*"))
	if err != nil {
		return nil, fmt.Errorf("list the goldens of %s: %w", f.Dir, err)
	}
	belongs := map[string]bool{}
	for _, c := range f.Cases {
		for _, path := range f.recorded(c) {
			belongs[path] = true
		}
	}
	return slices.DeleteFunc(found, func(path string) bool { return belongs[path] }), nil
}

// Schema answers the recorded definitions of tables. The error wraps
// fs.ErrNotExist when there are none.
func (f *Folder) Schema() (string, error) {
	content, err := os.ReadFile(f.schema())
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w; `gantry contract record` writes it", err)
	}
	return string(content), err
}

// SaveSchema records them.
func (f *Folder) SaveSchema(sql string) error { return writeFile(f.schema(), []byte(sql)) }

func (f *Folder) golden(name string) string {
	return filepath.Join(f.Dir, "golden", name+".yaml")
}

func (f *Folder) goldenOfGo(name string) string {
	return filepath.Join(f.Dir, "golden", name+".go.yaml")
}

func (f *Folder) schema() string { return filepath.Join(f.Dir, "schema.sql") }

// recorded are the files of a case.
func (f *Folder) recorded(c Case) []string {
	if c.Deviation != nil {
		return []string{f.golden(c.Name), f.goldenOfGo(c.Name)}
	}
	return []string{f.golden(c.Name)}
}

// writeFile leaves a file that already says so as it is, and never half of one.
func writeFile(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	draft := filepath.Join(filepath.Dir(path), "."+strings.TrimPrefix(filepath.Base(path), ".")+".new")
	if err := os.WriteFile(draft, content, 0o644); err != nil {
		return err
	}
	return os.Rename(draft, path)
}
