package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/phorge-gantry/gantry/tasks/phorge"
)

// hostScript is the program of the pool's PHP processes, seen from the library.
const hostScript = "../bin/pool-host.php"

// findLibrary answers the directory of Gantry's PHP library: the one that is
// set, or the one that the Phorge loads.
func (c *config) findLibrary() (string, error) {
	if c.Library != "" {
		if !isLibrary(c.Library) {
			return "", fmt.Errorf("library %s is not the PHP library of Gantry: it is the directory php/src, which has %s beside it", c.Library, hostScript)
		}
		return c.Library, nil
	}
	site, err := phorge.ReadPhorge(c.Phorge)
	if err != nil {
		return "", err
	}
	for _, library := range site.Libraries {
		if isLibrary(library) {
			return library, nil
		}
	}
	return "", fmt.Errorf("the Phorge at %s does not load Gantry's PHP library: add its directory php/src to load-libraries, with %s set, or set library",
		c.Phorge, filepath.Join(c.Phorge, "bin", "config"))
}

func isLibrary(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, hostScript))
	return err == nil
}
