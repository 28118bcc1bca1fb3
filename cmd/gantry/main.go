// Command gantry takes over the work queue of a Phorge install: `gantry run`
// leases tasks from Phorge's own tables and runs them in handler binaries and in
// PHP, `gantry tasks` is what bin/worker is to Phorge.
//
// This package joins the rooms and holds no logic of theirs. settings.go,
// layers.go and config.go read the configuration; app.go is what all commands
// share; each command has a file of its own.
package main

import (
	"os"
	"path/filepath"
)

func main() {
	if filepath.Base(os.Args[0]) == demoHandler {
		serveDemo(os.Args[0])
		return
	}
	os.Exit(newApp().main(os.Args[1:]))
}
