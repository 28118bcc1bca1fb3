package phorge

import (
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// PasswordIn answers the password of a DSN. In one that the driver cannot read
// it takes user:password@ up to the last @, from the first colon behind the
// scheme of a URL. Text that is no DSN at all may be all password.
func PasswordIn(dsn string) string {
	if parsed, err := mysql.ParseDSN(dsn); err == nil {
		return parsed.Passwd
	}
	if scheme, rest, found := strings.Cut(dsn, "://"); found && !strings.ContainsAny(scheme, ":@/") {
		dsn = rest
	}
	at := strings.LastIndexByte(dsn, '@')
	if at < 0 {
		if strings.Contains(dsn, "/") {
			return ""
		}
		return dsn
	}
	_, password, _ := strings.Cut(dsn[:at], ":")
	return password
}

// ShowDSN answers of a DSN the user, the address, the database and the names
// of the parameters: any value may be a secret.
func ShowDSN(dsn string) string {
	parsed, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "***"
	}
	shown := mysql.NewConfig()
	shown.User, shown.Net, shown.Addr, shown.DBName = parsed.User, parsed.Net, parsed.Addr, parsed.DBName
	if parsed.Passwd != "" {
		shown.Passwd = "***"
	}
	// The driver takes the last slash too, and skips what has no =.
	_, parameters, _ := strings.Cut(dsn[strings.LastIndexByte(dsn, '/'):], "?")
	text, separator := shown.FormatDSN(), "?"
	for parameter := range strings.SplitSeq(parameters, "&") {
		if name, _, found := strings.Cut(parameter, "="); found {
			text += separator + name + "=***"
			separator = "&"
		}
	}
	return text
}

// NamespaceIn answers the storage.default-namespace of the worker database
// that a DSN names.
func NamespaceIn(dsn string) (string, error) {
	parsed, err := configure(dsn)
	if err != nil {
		return "", err
	}
	namespace, ok := strings.CutSuffix(parsed.DBName, "_worker")
	if !ok || namespace == "" {
		return "", fmt.Errorf("the DSN names the database %q, and the worker database of a Phorge is <namespace>_worker", parsed.DBName)
	}
	return namespace, nil
}

// WorkerDSN answers the DSN of the worker database of a Phorge on the server at
// host:port.
func WorkerDSN(address, user, password, namespace string) string {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr = user, password, "tcp", address
	cfg.DBName = namespace + "_worker"
	return cfg.FormatDSN()
}
