package stage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/rows"
	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
)

func TestAnOutcomeIsObservedAsItIsSettled(t *testing.T) {
	s := newStage(t)
	for _, c := range []struct {
		name   string
		result error
		want   contract.Outcome
		rows   []string // table and kind of what changed
	}{
		{"a success", nil, contract.Outcome{Kind: tasks.Succeeded},
			[]string{"worker.worker_activetask removed", "worker.worker_archivetask added"}},
		{"a yield of less than there is", plugins.Yield(time.Second), contract.Outcome{Kind: tasks.Yielded, Wait: 5},
			[]string{"worker.worker_activetask changed"}},
		{"a failure for now", errors.New("no"), contract.Outcome{Kind: tasks.Retry, Wait: 90, Category: "temporary", Reason: "no"},
			[]string{"worker.worker_activetask changed"}},
		{"a failure for good", plugins.Fail(errors.New("never")), contract.Outcome{Kind: tasks.Failed, Category: "permanent", Reason: "never"},
			[]string{"worker.worker_activetask removed", "worker.worker_archivetask added"}},
		{"a task for somebody else leaves no trace", plugins.Decline("not mine"), contract.Outcome{Kind: tasks.Declined, Reason: "not mine"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := all(t, s)
			o := run(t, s, acmeCase(contract.World{}), does(s, func(context.Context, *plugins.Task) error { return c.result }))
			if o.Outcome.Kind == tasks.Yielded {
				o.Outcome.Reason = ""
			}
			if diff := cmp.Diff(c.want, o.Outcome); diff != "" {
				t.Error(diff)
			}
			var changed []string
			for _, change := range o.Changes {
				changed = append(changed, change.Table+" "+string(change.Kind))
			}
			if diff := cmp.Diff(c.rows, changed); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, all(t, s), cmp.AllowUnexported(rows.Table{})); diff != "" {
				t.Errorf("left behind: %s", diff)
			}
		})
	}
}

func TestFollowUpsAreObservedAsGivenAndAsRows(t *testing.T) {
	s := newStage(t)
	o := run(t, s, acmeCase(contract.World{}), does(s, func(_ context.Context, task *plugins.Task) error {
		task.Queue(tasks.NewTask{Class: "AcmeNextWorker", Data: []byte(`{"n": 1}`), Priority: ptr(4000), ObjectPHID: ptr("PHID-ACME-1")})
		return nil
	}))
	want := []contract.FollowUp{{TaskClass: "AcmeNextWorker", Data: `{"n": 1}`, Priority: ptr(4000), ObjectPHID: ptr("PHID-ACME-1")}}
	if diff := cmp.Diff(want, o.Outcome.FollowUps); diff != "" {
		t.Error(diff)
	}
	queued := 0
	for _, c := range o.Changes {
		if c.Table == activeTable && c.Kind == contract.Added && *c.Columns["taskClass"].After == "AcmeNextWorker" {
			queued++
		}
	}
	if queued != 1 {
		t.Errorf("%d rows of follow-ups among %+v", queued, o.Changes)
	}
}

func TestTheTaskIsWhatTheCaseSays(t *testing.T) {
	s := newStage(t)
	c := acmeCase(contract.World{})
	c.Data = `not "JSON`
	c.Task = contract.TaskColumns{FailureCount: 3, Priority: ptr(1), ObjectPHID: ptr("PHID-ACME-1"), ContainerPHID: ptr("PHID-ACME-2")}
	var got plugins.Task
	run(t, s, c, does(s, func(_ context.Context, task *plugins.Task) error {
		got = *task
		return nil
	}))
	if string(got.Data) != c.Data || got.FailureCount != 3 || got.Priority != 1 || *got.ObjectPHID != "PHID-ACME-1" || *got.ContainerPHID != "PHID-ACME-2" {
		t.Errorf("the handler got %+v", got)
	}
}

func TestAWaitingTaskIsAlwaysModified(t *testing.T) {
	s := newStage(t)
	o := run(t, s, acmeCase(contract.World{}), does(s, func(context.Context, *plugins.Task) error { return errors.New("no") }))
	if len(o.Changes) != 1 || *o.Changes[0].Columns["dateModified"].After != "{{now}}" {
		t.Errorf("changes %+v", o.Changes)
	}
}

func TestWhatDidNotRunIsAnErrorThatSaysWhy(t *testing.T) {
	s := newStage(t)
	fine := func(context.Context, *plugins.Task) error { return nil }
	before := all(t, s)
	for _, c := range []struct {
		name  string
		world contract.World
		side  Side
		want  string
	}{
		{"a table that is not there", contract.World{Rows: map[string][]contract.Row{"acme.none": {{}}}}, does(s, fine), "no table acme.none"},
		{"a column that is not there", contract.World{Rows: map[string][]contract.Row{"acme.acme_thing": {{"nmae": "x"}}}}, does(s, fine), `no column "nmae"; it has id, phid, name`},
		{"a value that is no text", contract.World{Rows: map[string][]contract.Row{"acme.acme_thing": {{"name": 1.5}}}}, does(s, fine), "quotation marks"},
		{"a row that is there twice", contract.World{Rows: map[string][]contract.Row{"acme.acme_thing": {{"id": 1}, {"id": 1}}}}, does(s, fine), "row 2 of acme.acme_thing"},
		{"a text that does not fit", contract.World{Rows: map[string][]contract.Row{"acme.acme_thing": {{"name": strings.Repeat("x", 65)}}}}, does(s, fine), "row 1 of acme.acme_thing"},
		{"another task of the class", contract.World{Rows: map[string][]contract.Row{activeTable: {{"id": 1, "taskClass": "AcmeWorker"}}}}, does(s, fine), "another task of class AcmeWorker"},
		{"an executor that gives the task back", contract.World{}, released{does(s, fine)}, "the task was not run: nobody is here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.Run(t.Context(), acmeCase(c.world), c.side)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "case acme: ") {
				t.Errorf("the error is %v, want one that says %q", err, c.want)
			}
			if diff := cmp.Diff(before, all(t, s), cmp.AllowUnexported(rows.Table{})); diff != "" {
				t.Errorf("left behind: %s", diff)
			}
		})
	}
}

type released struct{ Side }

func (released) Execute(context.Context, tasks.Task, func(time.Duration)) tasks.Outcome {
	return tasks.Outcome{Kind: tasks.Released, Reason: "nobody is here"}
}

func TestARunThatIsCutOffLeavesNothing(t *testing.T) {
	s := newStage(t)
	before := all(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	world := contract.World{Rows: map[string][]contract.Row{"acme.acme_thing": {{"name": "x"}}}, Locks: []string{"acme"}}
	_, err := s.Run(ctx, acmeCase(world), does(s, func(ctx context.Context, _ *plugins.Task) error {
		cancel()
		return ctx.Err()
	}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if diff := cmp.Diff(before, all(t, s), cmp.AllowUnexported(rows.Table{})); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
	run(t, s, acmeCase(world), does(s, func(context.Context, *plugins.Task) error { return nil })) // the lock is free again
}

func TestALeaseIsAsLongAsTheHandlerWants(t *testing.T) {
	s := newStage(t)
	for _, c := range []struct {
		required time.Duration
		want     string
	}{
		{0, "{{leased+7200}}"},
		{time.Minute, "{{leased+7200}}"}, // which it has already
		{24 * time.Hour, "{{leased+86400}}"},
	} {
		o := run(t, s, acmeCase(contract.World{}), s.Handlers(plugins.Handler{
			Class:         "AcmeWorker",
			Handle:        func(context.Context, *plugins.Task) error { return nil },
			RequiredLease: func(*plugins.Task) time.Duration { return c.required },
		}))
		archived := slices.IndexFunc(o.Changes, func(c contract.Change) bool { return c.Table == "worker.worker_archivetask" })
		if archived < 0 {
			t.Fatalf("no archived task in %+v", o)
		}
		if got := *o.Changes[archived].Columns["leaseExpires"].After; got != c.want {
			t.Errorf("a lease of %s ends at %s, want %s", c.required, got, c.want)
		}
	}
}
