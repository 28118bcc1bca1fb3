package harness

import (
	"context"
	_ "embed"
	"fmt"
)

//go:embed schema.sql
var schema string

// CreateNamespace makes the database <ns>_worker with Phorge's worker tables,
// empty.
func (m *MariaDB) CreateNamespace(ns string) error {
	ctx := context.Background()
	database := ns + "_worker"
	err := m.exec(ctx, "", "CREATE DATABASE `"+database+"` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
	if err == nil {
		err = m.exec(ctx, database, schema)
	}
	if err != nil {
		return fmt.Errorf("make the namespace %s: %w", ns, err)
	}
	return nil
}

// DropNamespace removes the database <ns>_worker.
func (m *MariaDB) DropNamespace(ns string) error {
	if err := m.exec(context.Background(), "", "DROP DATABASE `"+ns+"_worker`"); err != nil {
		return fmt.Errorf("drop the namespace %s: %w", ns, err)
	}
	return nil
}
