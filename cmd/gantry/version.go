package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker: -ldflags "-X main.version=1.2.3". Without it,
// the version that Go noted when it built the program is used.
var version string

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  gantry version --output json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			info := readVersion()
			if a.print.json {
				return a.print.document(info)
			}
			a.print.linef("%s", info)
			return nil
		},
	}
}

func (v versionInfo) String() string {
	return fmt.Sprintf("gantry %s (revision %s, %s, %s)", v.Version, v.Revision, v.Go, v.Platform)
}

func readVersion() versionInfo {
	info := versionInfo{
		Version:  version,
		Revision: "unknown",
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if info.Version == "" {
		info.Version = build.Main.Version
	}
	for _, s := range build.Settings {
		if s.Key == "vcs.revision" {
			info.Revision = s.Value
		}
	}
	return info
}
