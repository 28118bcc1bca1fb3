package harness

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/phorge-gantry/gantry/contract/scratch"
)

//go:embed schema.sql
var schema string

// RecordedSchema answers the worker tables as a recorded schema has them, and
// others, which are definitions of the same form.
func RecordedSchema(others string) string {
	return strings.ReplaceAll(schema, "CREATE TABLE ", "CREATE TABLE worker.") + others
}

// CreateNamespace makes the database <ns>_worker with Phorge's worker tables,
// empty.
func CreateNamespace(server *scratch.MariaDB, ns string) error {
	ctx := context.Background()
	database := ns + "_worker"
	err := server.Exec(ctx, "", "CREATE DATABASE `"+database+"` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
	if err == nil {
		err = server.Exec(ctx, database, schema)
	}
	if err != nil {
		return fmt.Errorf("make the namespace %s: %w", ns, err)
	}
	return nil
}

// DropNamespace removes the database <ns>_worker.
func DropNamespace(server *scratch.MariaDB, ns string) error {
	if err := server.Exec(context.Background(), "", "DROP DATABASE `"+ns+"_worker`"); err != nil {
		return fmt.Errorf("drop the namespace %s: %w", ns, err)
	}
	return nil
}
