package main

import (
	"os"
	"strings"
	"testing"
)

func TestABinaryReachesPhorgeOnlyWhenTheManifestSaysSo(t *testing.T) {
	const password = "hunter2-of-the-database"
	self := binary(t)
	closed := manifest(t, self, "AcmeWorker")
	content, err := os.ReadFile(closed)
	if err != nil {
		t.Fatal(err)
	}
	open := writeFile(t, "plugins.yaml", strings.Replace(string(content), "    classes:", "    phorge: true\n    classes:", 1), 0o600)
	phorge := phorgeDir(t, `{"mysql.host": "db", "mysql.pass": "`+password+`", "acme.hooks": ["http://secret.example/"]}`)
	masterless := phorgeDir(t, `{"cluster.databases": [{"host": "m1", "role": "master", "partition": ["worker", "daemon", "gantry"]},
{"host": "m2", "role": "master", "partition": ["config"]}]}`)
	for _, c := range []struct {
		name, role, manifest, phorge string
		want                         string
	}{
		{"the manifest does not", "reaches", closed, phorge,
			"wants the databases of config, herald, repository and the options acme.hooks of Phorge: write `phorge: true`"},
		{"there is no Phorge", "reaches", open, "", "name the Phorge by `phorge` in its configuration"},
		{"a database has no master", "reaches", open, masterless, "cluster.databases names no enabled master for the application herald"},
		{"it does", "reaches", open, phorge, "takes its classes; it reaches the databases of config, herald, repository of Phorge and reads acme.hooks"},
		{"it does in vain", "good", open, phorge, "it uses none: remove the line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(role, c.role)
			for _, verb := range [][]string{{"plugins", "verify"}, {"config", "check", "--php=off"}} {
				args := append(verb, "--plugins="+c.manifest)
				if c.phorge != "" {
					args = append(args, "--phorge="+c.phorge)
				}
				got := command(t, newMemory(), "", args...)
				if !strings.Contains(got.out, c.want) {
					t.Errorf("%v says\n%s%s\nwhich does not contain %q", verb, got.out, got.err, c.want)
				}
				if shown := got.out + got.err; strings.Contains(shown, password) || strings.Contains(shown, "secret.example") {
					t.Errorf("%v shows a secret:\n%s", verb, shown)
				}
			}
		})
	}
	got := command(t, nil, "", "plugins", "list", "--plugins="+open)
	if !strings.HasSuffix(strings.TrimSpace(got.out), "yes") {
		t.Errorf("list says\n%s", got.out)
	}
}
