package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/phorge-gantry/gantry/tasks/runtime"
)

// load reads a configuration from a file's content, variables and arguments.
func load(t *testing.T, content string, environ, args []string) (*config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.String("config", "", "")
	for _, s := range settings {
		addFlags(flags, s.name)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return loadConfig(flags, environ, writeFile(t, "gantry.yaml", content, 0o600))
}

func writeFile(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return path
}

func TestTheLastOfDefaultFileEnvironmentAndFlagWins(t *testing.T) {
	for _, c := range []struct {
		name          string
		file          string
		environ, args []string
		want          int
		origin        string
	}{
		{name: "nothing says anything", want: runtime.DefaultSlots, origin: "default"},
		{name: "the file", file: "slots: 5", want: 5, origin: "file"},
		{name: "the environment over the file", file: "slots: 5", environ: []string{"GANTRY_SLOTS=6"}, want: 6, origin: "environment"},
		{name: "the flag over both", file: "slots: 5", environ: []string{"GANTRY_SLOTS=6"}, args: []string{"--slots=7"}, want: 7, origin: "command line"},
		{name: "an empty variable is no variable", file: "slots: 5", environ: []string{"GANTRY_SLOTS="}, want: 5, origin: "file"},
		{name: "an empty value is no value", file: "slots:", want: runtime.DefaultSlots, origin: "default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := load(t, c.file, c.environ, c.args)
			if err != nil {
				t.Fatal(err)
			}
			origin := got.origin["slots"]
			if strings.HasSuffix(origin, "gantry.yaml") {
				origin = "file"
			}
			if got.Slots != c.want || origin != c.origin {
				t.Errorf("slots = %d from the %s, want %d from the %s", got.Slots, origin, c.want, c.origin)
			}
		})
	}
}

func TestEverySettingReachesItsField(t *testing.T) {
	content := `
dsn: u@/ns_worker
plugins: /p.yaml
php: pool
library: /l
php_binary: php8.2
php_processes: 6
php_pickup_delay: 1s
conduit: https://phorge.example.com/
conduit_key_file: /k.json
conduit_host: phorge
conduit_ca: /ca.pem
conduit_token_file: /t
conduit_connections: 5
conduit_tasks_per_call: 7
api: :8090
tokens: /tokens.yaml
api_lease: 10m
api_retry_wait: 1m
api_keep_keys: 1h
api_query_token: true
api_max_body: 2048
instance: acme
socket: /s
slots: "3"
lease: 10s
idle_poll: 20ms
drain_timeout: 5s
max_crashes: 4
pickup_delay: 1s
gateway: https://phorge.example.com/
gateway_host: phorge
gateway_ca: /g.pem
gateway_listen: :8150
gateway_certificate: /c.pem
gateway_certificate_key: /c.key
gateway_query_token: true
gateway_max_body: 4096
metrics: localhost:9590
log_level: debug
log_format: json
classes:
  Acme.Deploy\Worker:
    slots: 1
    lease: 2m
    deadline: 1h
    pickup_delay: 0s
    max_crashes: 9
  Other: {}
`
	want := &config{
		DSN: "u@/ns_worker", Plugins: "/p.yaml",
		PHP: "pool", Library: "/l", PHPBinary: "php8.2", PHPProcesses: "6", PHPPickupDelay: time.Second,
		Conduit: "https://phorge.example.com/", ConduitKeyFile: "/k.json", ConduitHost: "phorge", ConduitCA: "/ca.pem",
		ConduitTokenFile: "/t", API: ":8090", Tokens: "/tokens.yaml", APILease: 10 * time.Minute, APIRetryWait: time.Minute,
		APIKeepKeys: time.Hour, APIQueryToken: true, APIMaxBody: 2048, Instance: "acme",
		ConduitConnections: 5, ConduitTasksPerCall: 7, Socket: "/s", Slots: 3, Lease: 10 * time.Second,
		IdlePoll: 20 * time.Millisecond, DrainTimeout: 5 * time.Second, MaxCrashes: 4,
		PickupDelay: time.Second, LogLevel: "debug", LogFormat: "json",
		Gateway: "https://phorge.example.com/", GatewayHost: "phorge", GatewayCA: "/g.pem", GatewayListen: ":8150",
		GatewayCertificate: "/c.pem", GatewayCertificateKey: "/c.key", GatewayQueryToken: true, GatewayMaxBody: 4096, Metrics: "localhost:9590",
		Classes: map[string]classConfig{
			`Acme.Deploy\Worker`: {
				Slots: new(1), Lease: new(2 * time.Minute), Deadline: new(time.Hour),
				PickupDelay: new(time.Duration(0)), MaxCrashes: new(9),
			},
			"Other": {},
		},
	}
	got, err := load(t, content, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(config{})); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

// TestEverySettingHasAFieldOfItsName finds what the test above forgets.
func TestEverySettingHasAFieldOfItsName(t *testing.T) {
	fields := map[string]bool{}
	for field := range reflect.TypeFor[config]().Fields() {
		fields[field.Tag.Get("koanf")] = true
	}
	for _, s := range settings {
		if !fields[s.name] {
			t.Errorf("no field holds %s", s.name)
		}
	}
	for _, name := range instanceSettings {
		if _, known := find(settings, name); !known {
			t.Errorf("an instance has the setting %s, which there is not", name)
		}
	}
}

func TestWhoeverNamesTheStoreMeansThatOne(t *testing.T) {
	got, err := load(t, "dsn: u:p@/file_worker", []string{"GANTRY_DSN_FILE=/run/dsn"}, []string{"--phorge=/opt/phorge"})
	if err != nil {
		t.Fatal(err)
	}
	if got.DSN != "" || got.DSNFile != "" || got.Phorge != "/opt/phorge" {
		t.Errorf("dsn %q, dsn_file %q, phorge %q; want only phorge", got.DSN, got.DSNFile, got.Phorge)
	}
}

func TestRelativePathsInTheFileStartAtTheFile(t *testing.T) {
	path := writeFile(t, "gantry.yaml", "plugins: plugins.yaml\ndsn_file: ../dsn", 0o600)
	got, err := load(t, "", []string{"GANTRY_CONFIG=" + path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(path)
	if got.Plugins != filepath.Join(dir, "plugins.yaml") || got.DSNFile != filepath.Join(filepath.Dir(dir), "dsn") {
		t.Errorf("plugins %q, dsn_file %q", got.Plugins, got.DSNFile)
	}
	fromFlag, err := load(t, "", nil, []string{"--plugins=plugins.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if fromFlag.Plugins != "plugins.yaml" {
		t.Errorf("a path on the command line became %q", fromFlag.Plugins)
	}
}

func TestTheFlagNamesTheFileBeforeTheEnvironment(t *testing.T) {
	one, two := writeFile(t, "one.yaml", "slots: 1", 0o600), writeFile(t, "two.yaml", "slots: 2", 0o600)
	got, err := load(t, "slots: 3", []string{"GANTRY_CONFIG=" + one}, []string{"--config", two})
	if err != nil {
		t.Fatal(err)
	}
	if got.Slots != 2 {
		t.Errorf("slots = %d, want those of the file that --config names", got.Slots)
	}
}

func TestAConfigurationThatIsWrongSaysWhat(t *testing.T) {
	for _, c := range []struct {
		name          string
		file          string
		environ, args []string
		want          []string
	}{
		{name: "unknown key", file: "slotz: 3", want: []string{"gantry.yaml: there is no setting slotz; did you mean slots?"}},
		{name: "key of another grouping", file: "runtime:\n  slots: 3", want: []string{"there is no setting runtime; `gantry help config` lists them all"}},
		{name: "letters that changed places", file: "dns: x", want: []string{"did you mean dsn?"}},
		{name: "unknown variable", environ: []string{"GANTRY_DRAIN_TIME=3s"}, want: []string{"environment: there is no setting GANTRY_DRAIN_TIME; did you mean GANTRY_DRAIN_TIMEOUT?"}},
		{name: "classes in the environment", environ: []string{"GANTRY_CLASSES=x"}, want: []string{"there is no setting GANTRY_CLASSES"}},
		{name: "unknown key of a class", file: "classes: {Foo: {deadlin: 3s}}", want: []string{"there is no setting classes.Foo.deadlin; did you mean classes.Foo.deadline?"}},
		{name: "two keys at once", file: "slotz: 3\nleese: 3s", want: []string{"slotz", "leese; did you mean lease?"}},
		{name: "text for a number", file: "slots: many", want: []string{`gantry.yaml: slots: "many" must be a whole number`}},
		{name: "fraction for a number", file: "slots: 1.5", want: []string{`slots: "1.5" must be a whole number`}},
		{name: "truth for a number", file: "slots: true", want: []string{`slots: "true" must be a whole number`}},
		{name: "number too small", environ: []string{"GANTRY_SLOTS=0"}, want: []string{"environment: GANTRY_SLOTS: 0 must be at least 1"}},
		{name: "duration without a unit", file: "lease: 60", want: []string{`lease: "60" must be a duration with its unit`}},
		{name: "duration too short", args: []string{"--lease=10ms"}, want: []string{"command line: --lease: 10ms must be at least 1s"}},
		{name: "word that is not offered", file: "log_level: loud", want: []string{`log_level: "loud" must be one of debug, info, warn, error`}},
		{name: "processes in words", file: "php_processes: some", want: []string{`php_processes: "some" must be a whole number, or two as 1..4`}},
		{name: "no process", file: "php_processes: 0", want: []string{`php_processes: "0" must be at least 1`}},
		{name: "processes that shrink", file: "php_processes: 4..1", want: []string{`"4..1" must be at least 1, and the second number not below the first`}},
		{name: "a Conduit that is no URL", file: "conduit: phorge.example.com", want: []string{"conduit: must be a URL such as https://phorge.example.com/"}},
		{name: "a Conduit with a user", file: "conduit: https://u:p@phorge.example.com", want: []string{"conduit: must not hold a user or a password"}},
		{name: "map for text", file: "plugins: {a: b}", want: []string{"plugins: must be text"}},
		{name: "classes that is no map", file: "classes: [a]", want: []string{"classes must hold names of classes"}},
		{name: "class that is no map", file: "classes: {Foo: 3}", want: []string{"classes.Foo must hold names of settings"}},
		{name: "two stores in one source", file: "dsn: u@/a_worker\nphorge: /opt/phorge", want: []string{"dsn, phorge all say where the store is: keep one"}},
		{name: "text for a truth", file: "api_query_token: perhaps", want: []string{`api_query_token: "perhaps" must be true or false`}},
		{name: "an address without a port", file: "api: localhost", want: []string{"api: must be a host and a port such as 127.0.0.1:8090"}},
		{name: "a Redis that is no URL", file: "redis: db:6379", want: []string{"redis: must be a URL such as redis://db:6379/0"}},
		{name: "a Redis on the command line that is no URL", args: []string{"--redis=db:6379"}, want: []string{"--redis: must be a URL such as redis://db:6379/0"}},
		{name: "a Redis whose address is read as no URL at all", args: []string{"--redis=127.0.0.1:6379"}, want: []string{"--redis: must be a URL such as redis://db:6379/0"}},
		{name: "two stores in one instance", file: "instances: {a: {sqlite: a.db, dsn: u@/a_worker}}", want: []string{"instances.a.dsn, instances.a.sqlite all say where the store is"}},
		{name: "a setting that instances share", file: "instances: {a: {sqlite: a.db, api: h:1}}", want: []string{"there is no setting instances.a.api"}},
		{name: "an unknown key of a class of an instance", file: "instances: {a: {sqlite: a.db, classes: {Foo: {slot: 1}}}}", want: []string{"there is no setting instances.a.classes.Foo.slot; did you mean instances.a.classes.Foo.slots?"}},
		{name: "a name that no instance can have", file: "instances: {a.b: {sqlite: a.db}}", want: []string{"instances.a.b: the name of an instance has at most 64 letters, digits, hyphens and underscores"}},
		{name: "instances that are one queue", file: "instances: {a: {sqlite: /q.db}, b: {sqlite: /q.db}}", want: []string{"instances.b: its store is that of instances.a: give each its own"}},
		{name: "an instance without a store", file: "instances: {a: {}}", want: []string{"instances.a: nothing says where its store is"}},
		{name: "instances that are none", file: "instances: {}", want: []string{"instances must hold names of instances"}},
		{name: "instances in the environment", environ: []string{"GANTRY_INSTANCES=a"}, want: []string{"there is no setting GANTRY_INSTANCES; did you mean GANTRY_INSTANCE?"}},
		{name: "an instance that is not there", file: "instances: {a: {sqlite: a.db}, b: {sqlite: b.db}}", args: []string{"--instance=c"}, want: []string{"command line: there is no instance c; there are a, b"}},
		{name: "no YAML", file: "a: [", want: []string{"gantry.yaml: yaml: line 1"}},
		{name: "key given twice", file: "slots: 1\nslots: 2", want: []string{`mapping key "slots" already defined`}},
		{name: "file that is not there", args: []string{"--config=/nonexistent/gantry.yaml"}, want: []string{"open /nonexistent/gantry.yaml: no such file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.file, c.environ, c.args)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error is\n%v\nand does not say\n%s", err, want)
				}
			}
		})
	}
}

const password = "hunter2:/@?&"

func TestAPasswordIsNeverRepeated(t *testing.T) {
	dsn := "gantry:" + password + "@tcp(db:3306)/ns_worker"
	for _, c := range []struct {
		name          string
		file          string
		environ, args []string
	}{
		{name: "on the command line", args: []string{"--dsn=" + dsn}},
		{name: "under a misspelt key", file: "dns: " + dsn},
		{name: "under a misspelt variable", environ: []string{"GANTRY_DNS=" + dsn}},
		{name: "in a list", file: "dsn: [\"" + dsn + "\"]"},
		{name: "as the whole file", file: dsn},
		{name: "of a Redis on the command line", args: []string{"--redis=redis://u:hunter2@db:6379/0"}},
		{name: "in the URL of a Redis", file: "redis: http://u:" + password + "@h/"},
		{name: "in an instance", file: "instances: {a: {dns: \"" + dsn + "\"}}"},
		{name: "in a URL", file: "conduit: https://u:" + password + "@h/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.file, c.environ, c.args)
			if err == nil {
				t.Fatal("it was accepted")
			}
			if strings.Contains(err.Error(), "hunter") {
				t.Errorf("the error repeats the password: %v", err)
			}
		})
	}
}

func TestAPasswordOnTheCommandLineIsRefusedWithTheRemedy(t *testing.T) {
	_, err := load(t, "", nil, []string{"--dsn=u:p@/ns_worker"})
	for _, remedy := range []string{"GANTRY_DSN", "configuration file", "--dsn-file", "--phorge"} {
		if err == nil || !strings.Contains(err.Error(), remedy) {
			t.Errorf("error %v does not name %s", err, remedy)
		}
	}
	if _, err := load(t, "", nil, []string{"--dsn=u@unix(/run/mysqld.sock)/ns_worker"}); err != nil {
		t.Errorf("a dsn without a password: %v", err)
	}
}

func TestAPublicFileWithAPasswordIsWarnedOf(t *testing.T) {
	for _, c := range []struct {
		name, content string
		mode          os.FileMode
		want          int
	}{
		{"everybody may read the password", "dsn: u:p@/ns_worker", 0o644, 1},
		{"only the group may", "dsn: u:p@/ns_worker", 0o640, 0},
		{"of an instance", "instances: {a: {dsn: 'u:p@/ns_worker'}}", 0o644, 1},
		{"in the URL of a Redis", "redis: redis://u:p@db/", 0o644, 1},
		{"there is no password", "dsn: u@/ns_worker", 0o644, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := writeFile(t, "gantry.yaml", c.content, c.mode)
			got, err := load(t, "", []string{"GANTRY_CONFIG=" + path}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.warnings) != c.want {
				t.Errorf("warnings: %q, want %d", got.warnings, c.want)
			}
		})
	}
	got, err := load(t, "", []string{"GANTRY_DSN_FILE=" + writeFile(t, "dsn", "u:p@/ns_worker", 0o644)}, nil)
	if err != nil || len(got.warnings) != 1 {
		t.Errorf("a public dsn_file: warnings %q, %v", got.warnings, err)
	}
	got, err = load(t, "conduit_key_file: "+writeFile(t, "keys.json", "{}", 0o644), nil, nil)
	if err != nil || len(got.warnings) != 1 {
		t.Errorf("a public file of keys: warnings %q, %v", got.warnings, err)
	}
}

func TestTheNumberOfProcessesIsOneOrARange(t *testing.T) {
	for text, want := range map[string][2]int{"3": {3, 3}, "1..4": {1, 4}, " 2 .. 2 ": {2, 2}} {
		if least, most, err := parseProcesses(text); err != nil || [2]int{least, most} != want {
			t.Errorf("%q is %d to %d, %v", text, least, most, err)
		}
	}
}
