package stage

import (
	"context"
	"regexp"
	"strings"

	"github.com/phorge-gantry/gantry/contract/rows"
)

// Tables of the queue, by the names that observations use.
const (
	activeTable = "worker.worker_activetask"
	dataTable   = "worker.worker_taskdata"
	countTable  = "worker.lisk_counter"
)

var phidPattern = regexp.MustCompile(`PHID-[A-Z]{4}-(?:[A-Z]{4}-)?[A-Za-z0-9]+`)

// phidsIn answers the PHIDs that stand somewhere in tables.
func phidsIn(tables map[string]*rows.Table) map[string]bool {
	phids := map[string]bool{}
	for _, t := range tables {
		for _, row := range t.Rows {
			for _, value := range row {
				if !strings.Contains(value.String, "PHID-") {
					continue
				}
				for _, phid := range phidPattern.FindAllString(value.String, -1) {
					phids[phid] = true
				}
			}
		}
	}
	return phids
}

// reread reads a known table again.
func (s *Stage) reread(ctx context.Context, name string) (*rows.Table, error) {
	return s.names.Read(ctx, s.db, name, s.tables[name].Key)
}
