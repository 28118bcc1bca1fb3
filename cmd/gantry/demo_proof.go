package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/phorge-gantry/gantry/tasks"
)

// demoProof is what a demo came to. Of the tasks that were to succeed, Lost were
// not archived as succeeded, and Unrun were though no process wrote down that
// they ran. Doubled are those that ran more often than the kills explain, and
// those that no call to the queue is for.
type demoProof struct {
	Queued     int       `json:"queued"`
	Succeeded  int       `json:"succeeded"`
	Executions int       `json:"executions"`
	Again      int       `json:"ranAgain"` // tasks that ran more than once
	Held       int       `json:"heldWhenKilled"`
	Lost       int       `json:"lost"`
	Unrun      int       `json:"archivedWithoutARun"`
	Doubled    int       `json:"doubled"`
	Left       int       `json:"waitingForPHP"`
	Who        []demoWho `json:"who"`
}

// demoWho is what one process, or one holder of leases, did.
type demoWho struct {
	Did   string `json:"did"`
	Who   string `json:"who"`
	PID   int    `json:"pid"`
	Tasks int    `json:"tasks"`
}

// conclude proves what became of the tasks, and says who did what.
func (d *demo) conclude(ctx context.Context) error {
	if err := d.readOn(); err != nil {
		return err
	}
	archived := map[int64]tasks.Record{}
	err := d.each(ctx, tasks.Archived, func(r tasks.Record) error {
		archived[r.ID] = r
		return nil
	})
	proof := demoProof{Held: len(d.held), Executions: d.executions()}
	if err == nil {
		err = d.each(ctx, tasks.Active, func(r tasks.Record) error {
			if r.Class == demoPHPClass {
				proof.Left++
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	d.prove(&proof, archived)
	proof.Who = d.who(archived)
	if err := d.tell(ctx, proof); err != nil {
		return err
	}
	if proof.Lost+proof.Unrun+proof.Doubled > 0 {
		return fmt.Errorf("that must not be: please report it, with the folder %s", d.dir)
	}
	if proof.Left > 0 {
		return nil // a demo with PHP goes on with them
	}
	return d.note("ended %d", os.Getpid())
}

// prove compares the ledger with the archive.
func (d *demo) prove(proof *demoProof, archived map[int64]tasks.Record) {
	proof.Queued = len(d.flood)
	known := map[int64]bool{}
	for _, id := range d.chosen {
		known[id] = true
	}
	for _, id := range d.flood {
		known[id] = true
		if r, is := archived[id]; !is || r.Result != tasks.ResultSuccess {
			proof.Lost++
			continue
		}
		proof.Succeeded++
		runs := len(d.ran[id])
		if runs == 0 {
			proof.Unrun++
		}
		if runs > 1 {
			proof.Again++
		}
		if runs > 1+len(d.held[id]) {
			proof.Doubled++
		}
	}
	for id, r := range archived {
		if d.runs(r.Class) && !known[id] {
			proof.Doubled++ // queued twice
		}
	}
}

// who answers who did what, in the order in which it is done.
func (d *demo) who(archived map[int64]tasks.Record) (who []demoWho) {
	queued, ended := map[demoWho]int{}, map[demoWho]int{}
	for _, run := range d.queued {
		queued[demoWho{Did: "queued", Who: "gantry demo", PID: run.demo}] += run.count
	}
	executed := map[demoWho]int{}
	for _, runs := range d.ran {
		for _, run := range runs {
			name := map[string]string{"go": demoHandler + ", a plugin", "php": "PHP, of the pool"}[run.route]
			executed[demoWho{Did: "executed", Who: name, PID: run.pid}]++
		}
	}
	holders := d.holders(archived)
	for _, r := range archived {
		if owner, ok := tasks.ParseOwner(deref(r.Owner)); ok {
			ended[demoWho{Did: "leased and archived", Who: "gantry:…:" + owner.Nonce + ":" + owner.Host, PID: holders[owner.Nonce]}]++
		}
	}
	for _, did := range []map[demoWho]int{queued, executed, ended} {
		whose := slices.SortedFunc(maps.Keys(did), func(a, b demoWho) int {
			return cmp.Or(cmp.Compare(slices.Index(d.demos, a.PID), slices.Index(d.demos, b.PID)), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Who, b.Who))
		})
		for _, one := range whose {
			one.Tasks = did[one]
			who = append(who, one)
		}
	}
	return who
}

// holders answers the process id of the demo that has a nonce in its owners: the
// one for which a task ran that ran once.
func (d *demo) holders(archived map[int64]tasks.Record) map[string]int {
	holders := map[string]int{}
	for id, r := range archived {
		if owner, ok := tasks.ParseOwner(deref(r.Owner)); ok && len(d.ran[id]) == 1 {
			holders[owner.Nonce] = d.ran[id][0].demo
		}
	}
	return holders
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func (d *demo) tell(ctx context.Context, proof demoProof) error {
	if d.print.json {
		return d.print.document(proof)
	}
	var rows [][]string
	for _, one := range proof.Who {
		rows = append(rows, []string{one.Did, one.Who, strconv.Itoa(one.PID), strconv.Itoa(one.Tasks)})
	}
	d.say("")
	d.print.table([]string{"WHAT", "BY", "PROCESS", "TASKS"}, rows)
	d.say("")
	rows = nil
	for i, id := range append([]int64{d.flood[0]}, d.chosen...) {
		why := "of the flood"
		if i > 0 {
			why = demoChosen[i-1].why
		}
		r, err := d.queue.Get(ctx, id)
		if err != nil {
			return err
		}
		owner := "NULL"
		if r.Owner != nil {
			owner = *r.Owner
		}
		rows = append(rows, []string{strconv.FormatInt(id, 10), r.Class, why, owner, strconv.Itoa(r.FailureCount), demoOutcome(r)})
	}
	d.print.table([]string{"ID", "CLASS", "TASK", "LEASEOWNER", "FAILURES", "OUTCOME"}, rows)
	d.say("")
	d.say("%s", proof)
	if proof.Left > 0 {
		d.say("%s for PHP, which an earlier demo had: %s.", plural(proof.Left, "task waits", "tasks wait"), plain(d.run.why))
	}
	d.say("Look at the queue with  gantry tasks list --sqlite %s", d.path("queue.db"))
	return nil
}

func (p demoProof) String() string {
	text := fmt.Sprintf("%d tasks were to succeed, and by the ledger and the archive %d did:\n%d lost, %d doubled, %d that nobody ran.",
		p.Queued, p.Succeeded, p.Lost, p.Doubled, p.Unrun)
	if p.Held > 0 {
		text += fmt.Sprintf("\n%d were leased when a demo was killed; of these, %d had run and ran again, and ended once.", p.Held, p.Again)
	}
	return text
}

func demoOutcome(r tasks.Record) string {
	switch {
	case r.Archive == nil && r.Owner == nil:
		return "in the queue, untouched"
	case r.Archive == nil:
		return "in the queue, waiting"
	case r.Result == tasks.ResultSuccess:
		return fmt.Sprintf("archived: succeeded after %d µs", r.Duration)
	}
	return "archived: failed"
}
