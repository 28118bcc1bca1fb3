package phorge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Site is what a Phorge's configuration says about its work queue.
type Site struct {
	// DSN names the master of the worker database. It holds the password.
	DSN string

	// DaemonDSN names the master of the database that daemon_log is in. See
	// Heartbeat. It holds the password.
	DaemonDSN string

	// GantryApart says that by cluster.databases the database <namespace>_gantry
	// belongs on another master than the worker database, while one transaction
	// has to reach both. Its partition has to list "worker" and "gantry".
	GantryApart bool

	// Namespace is storage.default-namespace.
	Namespace string

	// ReadOnly is cluster.read-only: nothing may be leased or changed.
	ReadOnly bool

	// Libraries is load-libraries: the directories of the PHP libraries that the
	// Phorge loads besides its own.
	Libraries []string

	// BaseURI is phabricator.base-uri, "" when it is not set.
	BaseURI string

	// DaemonUser is phd.user, whom everything that runs PHP should run as. ""
	// when it is not set.
	DaemonUser string

	// Options is conf/local/local.json as it is, by option. It holds passwords.
	Options map[string]json.RawMessage

	config siteConfig
	file   string
}

// Database answers a DSN of the database of an application on the master that
// cluster.databases gives it, as PhabricatorLiskDAO connects to it to write.
// The error says that it gives it none. The DSN holds the password.
func (s Site) Database(application string) (string, error) {
	cfg, err := s.config.database(application)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.file, err)
	}
	return cfg.FormatDSN(), nil
}

// siteConfig is what Gantry itself needs of conf/local/local.json. PHP takes numbers
// and text for a port.
type siteConfig struct {
	Host      string       `json:"mysql.host"`
	Port      any          `json:"mysql.port"`
	User      string       `json:"mysql.user"`
	Pass      string       `json:"mysql.pass"`
	Namespace string       `json:"storage.default-namespace"`
	ReadOnly  bool         `json:"cluster.read-only"`
	Databases []siteServer `json:"cluster.databases"`
	Libraries []string     `json:"load-libraries"`
	BaseURI   string       `json:"phabricator.base-uri"`
	PhdUser   string       `json:"phd.user"`
}

// siteServer is an entry of cluster.databases, as PhabricatorDatabaseRefParser
// reads it.
type siteServer struct {
	Host      string   `json:"host"`
	Role      string   `json:"role"`
	Port      any      `json:"port"`
	User      *string  `json:"user"`
	Pass      string   `json:"pass"`
	Disabled  bool     `json:"disabled"`
	Partition []string `json:"partition"`
}

// ReadPhorge reads the configuration of the Phorge in a directory: its
// conf/local/local.json over Phorge's defaults. Options that are stored in the
// database are not read; the ones used here are locked, so that Phorge itself
// takes them from the file. A site that is configured by a PHP file
// (PHABRICATOR_ENV, conf/local/ENVIRONMENT) cannot be read and is refused.
func ReadPhorge(dir string) (Site, error) {
	if _, err := os.Stat(filepath.Join(dir, "bin", "worker")); err != nil {
		return Site{}, fmt.Errorf("%s is no Phorge: it has no bin/worker; name the directory of the Phorge itself", dir)
	}
	env, err := environment(dir)
	if err != nil {
		return Site{}, err
	}
	if env != "" && !emptyEnvironment(dir, env) {
		return Site{}, fmt.Errorf("the Phorge at %s is configured by conf/%s.conf.php, which only PHP can read; name its worker database instead, with GANTRY_DSN or dsn_file", dir, env)
	}
	path := filepath.Join(dir, "conf", "local", "local.json")
	c := siteConfig{Host: "localhost", User: "root", Namespace: "phabricator"}
	content, err := readConfig(path)
	if err != nil {
		return Site{}, err
	}
	var options map[string]json.RawMessage
	if len(content) > 0 {
		if err := errors.Join(json.Unmarshal(content, &c), json.Unmarshal(content, &options)); err != nil {
			return Site{}, fmt.Errorf("read the configuration of Phorge: %s: %w", path, readable(err))
		}
	}
	worker, err := c.database("worker")
	if err != nil {
		return Site{}, fmt.Errorf("%s: %w", path, err)
	}
	daemon, err := c.database("daemon")
	if err != nil {
		return Site{}, fmt.Errorf("%s: %w", path, err)
	}
	gantry, err := c.database("gantry")
	if err != nil {
		return Site{}, fmt.Errorf("%s: %w", path, err)
	}
	return Site{
		DSN: worker.FormatDSN(), DaemonDSN: daemon.FormatDSN(), GantryApart: gantry.Addr != worker.Addr,
		Namespace: c.Namespace, ReadOnly: c.ReadOnly, Libraries: c.libraries(dir), BaseURI: c.BaseURI, DaemonUser: c.PhdUser,
		Options: options, config: c, file: path,
	}, nil
}

// libraries answers load-libraries as PHP finds them: what is relative, beside
// the Phorge, which is where its init script points include_path.
func (c siteConfig) libraries(dir string) []string {
	var found []string
	for _, library := range c.Libraries {
		if !filepath.IsAbs(library) {
			library = filepath.Join(dir, "..", library)
		}
		found = append(found, library)
	}
	return found
}

// environment answers the PHP configuration a Phorge uses, as
// PhabricatorEnv::getSelectedEnvironmentName, or "".
func environment(dir string) (string, error) {
	if env := os.Getenv("PHABRICATOR_ENV"); env != "" {
		return env, nil
	}
	content, err := readConfig(filepath.Join(dir, "conf", "local", "ENVIRONMENT"))
	return strings.TrimSpace(string(content)), err
}

// emptyEnvironment reports whether a configuration is one of those that Phorge
// takes for granted when they have no file; none of them sets what is read here.
func emptyEnvironment(dir, env string) bool {
	if !slices.Contains([]string{"default", "production", "development"}, env) {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, "conf", env+".conf.php"))
	return errors.Is(err, fs.ErrNotExist)
}

// readConfig answers nothing for a file that does not exist.
func readConfig(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the configuration of Phorge: %w; run Gantry as a user who may, such as phd.user", err)
	}
	return content, nil
}

// readable makes an error of encoding/json name the option and never a value.
func readable(err error) error {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return fmt.Errorf("%s holds a %s, which Phorge does not take there", mismatch.Field, strings.Fields(mismatch.Value)[0])
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("it is no JSON at byte %d", syntax.Offset)
	}
	return err
}

// database answers the connection to the database of an application.
func (c siteConfig) database(application string) (*mysql.Config, error) {
	server := siteServer{Host: c.Host}
	if len(c.Databases) > 0 {
		var err error
		if server, err = c.master(application); err != nil {
			return nil, err
		}
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName = c.User, c.Pass, c.Namespace+"_"+application
	cfg.Timeout = 10 * time.Second
	if server.User != nil {
		cfg.User = *server.User
	}
	if server.Pass != "" {
		cfg.Passwd = server.Pass
	}
	port := server.Port
	if port == nil || port == "" {
		port = c.Port
	}
	if len(c.Databases) > 0 && (port == nil || port == "") {
		port = "3306" // as PhabricatorDatabaseRef::newRefs: never a socket
	}
	return cfg, address(cfg, server.Host, port)
}

// master chooses as PhabricatorDatabaseRef::getMasterDatabaseRefForApplication.
func (c siteConfig) master(application string) (siteServer, error) {
	masters := slices.DeleteFunc(slices.Clone(c.Databases), func(s siteServer) bool { return s.Role != "master" })
	chosen := masters
	if len(masters) > 1 {
		holding := func(application string) []siteServer {
			return slices.DeleteFunc(slices.Clone(masters), func(s siteServer) bool {
				return s.Disabled || !slices.Contains(s.Partition, application)
			})
		}
		if chosen = holding(application); len(chosen) == 0 {
			chosen = holding("default")
		}
	}
	if len(chosen) == 0 || chosen[0].Disabled {
		return siteServer{}, fmt.Errorf("cluster.databases names no enabled master for the application %s", application)
	}
	return chosen[0], nil
}

// sockets are where servers on the same host listen. Without a port, PHP
// connects to "localhost" through one, and a server can be set to let a user in
// only there.
var sockets = []string{"/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock"}

func address(cfg *mysql.Config, host string, port any) error {
	if name, inHost, err := net.SplitHostPort(host); err == nil {
		host = name
		if port == nil || port == "" {
			port = inHost
		}
	}
	text := ""
	switch p := port.(type) {
	case nil:
	case string:
		text = p
	case float64:
		text = strconv.FormatFloat(p, 'f', -1, 64)
	default:
		return fmt.Errorf("the port of the database is a %T, which is no port", p)
	}
	if text != "" {
		if n, err := strconv.ParseUint(text, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("the port of the database, %q, is no port", text)
		}
	}
	if host == "localhost" && text != "" {
		host = "127.0.0.1" // as AphrontMySQLiDatabaseConnection: a port is heeded
	}
	if host == "localhost" {
		for _, socket := range sockets {
			if _, err := os.Stat(socket); err == nil {
				cfg.Net, cfg.Addr = "unix", socket
				return nil
			}
		}
	}
	if text == "" {
		text = "3306"
	}
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(host, text)
	return nil
}
