package contract

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func loadWorld(dir string) (World, error) {
	file := filepath.Join(dir, worldFile)
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return World{}, nil
	}
	if err != nil {
		return World{}, fmt.Errorf("read the world of the cases: %w", err)
	}
	var world World
	d, err := decode(file, content, &world)
	if err != nil {
		return World{}, err
	}
	k := &checker{document: d}
	k.world(nil, world, world)
	k.placeholders(Case{World: world}, world)
	return world, errors.Join(k.problems...)
}

// loadCases reads a file of cases and gives them the folder's world. In names is
// where those of other files stand.
func loadCases(file string, base World, names map[string]string) ([]Case, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read cases: %w", err)
	}
	var read casesFile
	d, err := decode(file, content, &read)
	if err != nil {
		return nil, err
	}
	if len(read.Cases) == 0 {
		return nil, fmt.Errorf("%s: it holds no cases; write them under `cases:`, or remove the file", file)
	}
	var problems []error
	for i, c := range read.Cases {
		k := &checker{document: d, at: path{"cases", i}, name: c.Name}
		merged := c.World.over(base)
		k.check(c, merged)
		if other := names[c.Name]; other != "" {
			k.refuse(path{"name"}, "%s has a case of this name; names are unique in a folder", other)
		}
		names[c.Name] = d.place(k.at.add("name"))
		read.Cases[i].World = merged
		problems = append(problems, k.problems...)
	}
	return read.Cases, errors.Join(problems...)
}

// over lays the world of a case over that of its folder.
func (w World) over(base World) World {
	merged := World{
		Options:   laid(base.Options, w.Options),
		Receivers: laid(base.Receivers, w.Receivers),
		Locks:     slices.Concat(base.Locks, w.Locks),
		Rows:      maps.Clone(base.Rows),
	}
	for table, rows := range w.Rows {
		put(&merged.Rows, table, slices.Concat(base.Rows[table], rows))
	}
	return merged
}

func laid[V any](under, over map[string]V) map[string]V {
	merged := maps.Clone(under)
	for key, value := range over {
		put(&merged, key, value)
	}
	return merged
}
