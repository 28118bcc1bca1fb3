package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/phpenc"
)

// kind is how objects of one type of PHID are found, and their transactions.
type kind struct {
	application string
	exists      string // answers a row when PHP, too, finds the object

	transactions     string // table
	transactionsFrom string // application, when it is another one
}

// kinds are the types that this handler knows. The omnipotent viewer sees every
// object; but PHP does not find one when something is gone that it belongs to.
// What would take more than a query to know, the queries leave to PHP.
var kinds = map[string]kind{
	"CEVT": {application: "calendar", transactions: "calendar_eventtransaction", exists: `
		SELECT 1 FROM calendar_event
		WHERE phid = ? AND importSourcePHID IS NULL AND COALESCE(instanceOfEventPHID, '') = ''`},
	"CMIT": {application: "repository", transactions: "audit_transaction", transactionsFrom: "audit", exists: `
		SELECT 1 FROM repository_commit c JOIN repository r ON r.id = c.repositoryID WHERE c.phid = ?`},
	"DREV": {application: "differential", transactions: "differential_transaction", exists: `
		SELECT 1 FROM differential_revision WHERE phid = ?`},
	"MOCK": {application: "pholio", transactions: "pholio_transaction", exists: `
		SELECT 1 FROM pholio_mock WHERE phid = ?`},
	"PROJ": {application: "project", transactions: "project_transaction", exists: `
		SELECT 1 FROM project WHERE phid = ? AND COALESCE(parentProjectPHID, '') = ''`},
	"PSTE": {application: "paste", transactions: "paste_transaction", exists: `
		SELECT 1 FROM paste WHERE phid = ?`},
	"REPO": {application: "repository", transactions: "repository_transaction", exists: `
		SELECT 1 FROM repository WHERE phid = ?`},
	"TASK": {application: "maniphest", transactions: "maniphest_transaction", exists: `
		SELECT 1 FROM maniphest_task WHERE phid = ? AND COALESCE(bridgedObjectPHID, '') = ''`},
	"USER": {application: "user", transactions: "user_transaction", exists: `
		SELECT 1 FROM user WHERE phid = ?`},
	"WIKI": {application: "phriction", transactions: "phriction_transaction", exists: `
		SELECT 1 FROM phriction_document d JOIN phriction_content c ON c.phid = d.contentPHID AND c.documentPHID = d.phid
		WHERE d.phid = ?`},
}

func (k kind) transactionsDatabase() string {
	if k.transactionsFrom != "" {
		return k.transactionsFrom
	}
	return k.application
}

// databases answers the databases of all kinds, and that of the requests.
func databases() []string {
	all := map[string]bool{"herald": true}
	for _, k := range kinds {
		all[k.application], all[k.transactionsDatabase()] = true, true
	}
	return slices.Sorted(maps.Keys(all))
}

// typeOf answers to phid_get_type.
func typeOf(phid string) string {
	if len(phid) < 10 || phid[:5] != "PHID-" || phid[9] != '-' || strings.Contains(phid[5:9], "-") {
		return "????"
	}
	return phid[5:9]
}

// find looks for the object of the request, and answers which of its
// transactions are there, the newest first. The task is declined when the
// object is not known or not found here.
func (r *request) find(ctx context.Context) ([]string, error) {
	k, ok := kinds[typeOf(r.objectPHID)]
	if !ok {
		return nil, plugins.Decline("PHP knows where to find objects like " + r.objectPHID)
	}
	var one int
	err := r.task.DB(k.application).QueryRow(ctx, k.exists, r.objectPHID).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, plugins.Decline("object " + r.objectPHID + " was not found; PHP decides whether it is gone")
	}
	if err != nil {
		return nil, err
	}
	if _, ok := r.stored.(phpenc.Array); !ok {
		return nil, fmt.Errorf("webhook request %s: %w", r.phid, errProperties)
	}
	wanted, err := r.transactionPHIDs()
	if err != nil || len(wanted) == 0 {
		return nil, err
	}
	rows, err := r.task.DB(k.transactionsDatabase()).Query(ctx, "SELECT phid FROM "+k.transactions+
		" WHERE objectPHID = ? AND phid IN (?"+strings.Repeat(", ?", len(wanted)-1)+") ORDER BY id DESC",
		append([]any{r.objectPHID}, wanted...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var phid string
		if err := rows.Scan(&phid); err != nil {
			return nil, err
		}
		found = append(found, phid)
	}
	return found, rows.Err()
}

// transactionPHIDs answers the PHIDs of the transactions that the request is
// about.
func (r *request) transactionPHIDs() ([]any, error) {
	value := r.properties().Get("transactionPHIDs")
	if !phpenc.Truth(value) {
		return nil, nil
	}
	list, ok := value.(phpenc.Array)
	if !ok {
		return nil, fmt.Errorf("webhook request %s: its transactionPHIDs are no list", r.phid)
	}
	var phids []any
	for _, pair := range list {
		phid, ok := phpenc.Text(pair.Value)
		if !ok {
			return nil, fmt.Errorf("webhook request %s: one of its transactionPHIDs is no text", r.phid)
		}
		phids = append(phids, phid)
	}
	return phids, nil
}
