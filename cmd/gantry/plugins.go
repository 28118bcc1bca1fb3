package main

import (
	"github.com/phorge-gantry/gantry/plugins/host"
	"github.com/spf13/cobra"
)

func (a *app) pluginsCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "plugins",
		Short: "Begin, look at, pin and verify handler binaries",
		Long: `Look at the handler binaries of a manifest (plugins.yaml), pin them to their
bytes, and verify that they run here. A binary without a pin, or whose bytes are
not those that were pinned, is never started. "new" begins a binary.`,
		Example: `  gantry plugins pin --plugins /etc/gantry/plugins.yaml
  gantry plugins verify
  gantry plugins new handler-acme --class AcmeGreetingWorker`,
	}, a.pluginsListCommand(), a.pluginsPinCommand(), a.pluginsVerifyCommand(), a.pluginsNewCommand())
	addFlags(cmd.PersistentFlags(), "plugins")
	return cmd
}

func (a *app) pluginsPinCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pin",
		Short: "Write the digests of the binaries into the manifest",
		Long: `Write the SHA-256 digests of the handler binaries, as they are now, into the
manifest; the rest of the file stays as it is. Run it after you have put a binary
in place whose origin you know.`,
		Example: "  gantry plugins pin --plugins /etc/gantry/plugins.yaml",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			if _, err := loadPlugins(c); err != nil {
				return err
			}
			pinned, err := host.Pin(c.Plugins)
			if err != nil {
				return err
			}
			for _, p := range pinned {
				switch {
				case a.print.json:
					err = a.print.document(p)
				case p.Changed:
					a.print.linef("%s is pinned to %s.", plain(p.Name), p.SHA256)
				default:
					a.print.linef("%s was pinned to %s already.", plain(p.Name), p.SHA256)
				}
			}
			return err
		},
	}
}

// loadManifest loads the manifest that the configuration names.
func loadManifest(c *config) (*host.Manifest, error) {
	if c.Plugins == "" {
		return nil, errNoManifest
	}
	manifest, err := host.LoadManifest(c.Plugins)
	if err != nil {
		return nil, coded{err, exitUsage}
	}
	return manifest, nil
}

// loadPlugins loads the manifest for a command that has nothing to do unless it
// names a plugin.
func loadPlugins(c *config) (*host.Manifest, error) {
	manifest, err := loadManifest(c)
	if err == nil && len(manifest.Plugins) == 0 {
		err = usagef("plugin manifest %s: it names no plugin", c.Plugins)
	}
	return manifest, err
}

var errNoManifest = usagef("there is no manifest of handler binaries: name one with --plugins, GANTRY_PLUGINS or plugins in the configuration file")

// served answers the classes that the handlers of a manifest take.
func served(manifest *host.Manifest) map[string]bool {
	classes := map[string]bool{}
	for _, plugin := range manifest.Plugins {
		for class := range plugin.Classes {
			classes[class] = true
		}
	}
	return classes
}
