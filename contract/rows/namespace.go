// Package rows reads the tables of a Phorge as they are, says how one differs
// from what it held before, and puts rows back. A table is called
// database.table, without the namespace: herald.herald_webhook.
package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Open answers a pool of connections to a server. They read the content of
// columns as bytes and write the same bytes, whatever characters the columns hold.
func Open(server *mysql.Config) (*sql.DB, error) {
	c := server.Clone()
	c.DBName = ""
	c.MultiStatements = true
	c.InterpolateParams = true
	c.Logger = &mysql.NopLogger{} // it would say once more, on stderr, what errors say
	if c.Params == nil {
		c.Params = map[string]string{}
	}
	// A transaction that somebody left open shows here, and not as a call that hangs.
	c.Params["lock_wait_timeout"] = "30"
	c.Params["innodb_lock_wait_timeout"] = "30"
	c.Params["sql_mode"] = "'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO'"
	if err := c.Apply(mysql.Charset("binary", "")); err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("connect to the server at %s: %w", c.Addr, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(2)
	return db, nil
}

// Namespace is storage.default-namespace of a Phorge, with which the names of its
// databases begin.
type Namespace string

// Database answers the name of the database of an application.
func (n Namespace) Database(application string) string { return string(n) + "_" + application }

// Name answers how a table of a database of the namespace is called here.
func (n Namespace) Name(database, table string) string {
	return strings.TrimPrefix(database, n.Database("")) + "." + table
}

// Quoted answers the name of a table as SQL wants it.
func (n Namespace) Quoted(name string) string {
	database, table, _ := strings.Cut(name, ".")
	return Quote(n.Database(database)) + "." + Quote(table)
}

// Like is the pattern of LIKE that the databases of the namespace match.
func (n Namespace) Like() string { return strings.ReplaceAll(n.Database(""), "_", `\_`) + "%" }

// Quote answers one name as SQL wants it.
func Quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// SHOW INDEX and the like answer for one table at a time; a Phorge has five
// hundred.
const listTables = `
SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.AUTO_INCREMENT, GROUP_CONCAT(k.COLUMN_NAME ORDER BY k.ORDINAL_POSITION)
FROM information_schema.TABLES t
LEFT JOIN information_schema.KEY_COLUMN_USAGE k
  ON k.TABLE_SCHEMA = t.TABLE_SCHEMA AND k.TABLE_NAME = t.TABLE_NAME AND k.CONSTRAINT_NAME = 'PRIMARY'
WHERE t.TABLE_SCHEMA LIKE ? AND t.TABLE_TYPE = 'BASE TABLE'
GROUP BY t.TABLE_SCHEMA, t.TABLE_NAME, t.AUTO_INCREMENT`

// ReadAll reads every row of the namespace.
func (n Namespace) ReadAll(ctx context.Context, db *sql.DB) (map[string]*Table, error) {
	found, err := db.QueryContext(ctx, listTables, n.Like())
	if err != nil {
		return nil, err
	}
	tables := map[string]*Table{}
	for found.Next() {
		var database, name string
		var key sql.NullString
		t := &Table{}
		if err := found.Scan(&database, &name, &t.Next, &key); err != nil {
			return nil, errors.Join(err, found.Close())
		}
		if key.Valid {
			t.Key = strings.Split(key.String, ",")
		}
		tables[n.Name(database, name)] = t
	}
	if err := errors.Join(found.Err(), found.Close()); err != nil {
		return nil, err
	}
	for name, t := range tables {
		read, err := n.Read(ctx, db, name, t.Key)
		if err != nil {
			return nil, err
		}
		read.Next, tables[name] = t.Next, read
	}
	return tables, nil
}
