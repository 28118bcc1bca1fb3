package contract

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestDifferencesAreNamedByTheirField(t *testing.T) {
	php := Observation{
		Outcome:  Outcome{Kind: tasks.Retry, Wait: 300, Category: tasks.CategoryTemporary, Reason: "Exception: no"},
		Requests: []Request{{Receiver: "hook", Method: "POST", Headers: map[string]string{"User-Agent": "a", "Expect": ""}, Body: "1"}, {Receiver: "hook"}},
		Changes: []Change{
			{Table: "a.b", Kind: Changed, Key: "1", Columns: map[string]Values{"x": {new("1"), new("2")}, "y": {nil, new("")}, "same": {nil, new("z")}}},
			{Table: "a.b", Kind: Removed, Key: "2"},
		},
	}
	ours := Observation{
		Outcome:  Outcome{Kind: tasks.Succeeded, Category: tasks.CategoryTemporary, Reason: "no", FollowUps: []FollowUp{{TaskClass: "B", Data: "1", Priority: new(3)}}},
		Requests: []Request{{Receiver: "hook", Method: "GET", Headers: map[string]string{"User-Agent": "b"}, Body: "1\n"}},
		Changes: []Change{
			{Table: "a.b", Kind: Added, Key: "1", Columns: map[string]Values{"x": {new("1"), nil}, "new": {new("3"), new("4")}, "same": {nil, new("z")}}},
		},
	}
	want := []Difference{
		{"outcome.kind", new("retry"), new("succeeded")},
		{"outcome.wait", new("300"), new("0")},
		{"outcome.followUps[1]", nil, new("taskClass: B\ndata: \"1\"\npriority: 3\n")},
		{"requests[1].method", new("POST"), new("GET")},
		{"requests[1].headers[Expect]", new(""), nil},
		{"requests[1].headers[User-Agent]", new("a"), new("b")},
		{"requests[1].body", new("1"), new("1\n")},
		{"requests[2]", new("receiver: hook\nmethod: \"\"\ntarget: \"\"\nheaders: {}\nbody: \"\"\n"), nil},
		{"changes[a.b 1].kind", new("changed"), new("added")},
		{"changes[a.b 1].new", nil, new(`"3" → "4"`)},
		{"changes[a.b 1].x.after", new("2"), nil},
		{"changes[a.b 1].y", new(`NULL → ""`), nil},
		{"changes[a.b 2]", new("table: a.b\nkind: removed\nkey: \"2\"\n"), nil},
	}
	if diff := cmp.Diff(want, Compare(Case{}, php, ours)); diff != "" {
		t.Error(diff)
	}
	if found := Compare(Case{}, php, php); found != nil {
		t.Errorf("an observation differs from itself: %v", found)
	}
}

func TestADeclinedCaseWantsThatAndNothingElse(t *testing.T) {
	c := Case{Name: "a", Declines: true}
	php := Observation{Outcome: Outcome{Kind: tasks.Succeeded}, Requests: []Request{{Receiver: "hook"}}}
	lease := Change{Table: "worker.worker_activetask", Kind: Changed, Key: "{{task}}", Columns: map[string]Values{
		"leaseOwner": {nil, new("{{lease}}")}, "leaseExpires": {nil, new("{{leased+60}}")},
	}}
	declined := Observation{Outcome: Outcome{Kind: tasks.Declined, Reason: "it is not known here"}, Changes: []Change{lease}}
	if found := Compare(c, php, declined); found != nil {
		t.Errorf("declining is reported: %v", found)
	}
	other := func(change func(o *Observation)) Observation {
		o := declined.clone()
		change(&o)
		return o
	}
	for field, got := range map[string]Observation{
		"outcome.kind":                                 other(func(o *Observation) { o.Outcome.Kind = tasks.Succeeded }),
		"outcome.followUps[1]":                         other(func(o *Observation) { o.Outcome.FollowUps = []FollowUp{{}} }),
		"requests[1]":                                  other(func(o *Observation) { o.Requests = php.Requests }),
		"changes[a.b 1]":                               other(func(o *Observation) { o.Changes = append(o.Changes, Change{Table: "a.b", Kind: Changed, Key: "1"}) }),
		"changes[worker.worker_activetask 1]":          other(func(o *Observation) { o.Changes[0].Key = "1" }),
		"changes[worker.worker_activetask {{task#1}}]": other(func(o *Observation) { o.Changes[0].Kind, o.Changes[0].Key = Added, "{{task#1}}" }),
		"changes[worker.worker_activetask {{task}}]":   other(func(o *Observation) { o.Changes[0].Columns["failureCount"] = Values{} }),
		"changes[worker.worker_archivetask {{task}} (2)]": other(func(o *Observation) {
			archived := Change{Table: "worker.worker_archivetask", Key: "{{task}}"}
			o.Changes = append(o.Changes, archived, archived)
		}),
	} {
		found := Compare(c, php, got)
		if len(found) == 0 || found[len(found)-1].Field != field {
			t.Errorf("%s is not reported: %v", field, found)
		}
	}
	if len(declined.Changes) != 1 {
		t.Error("comparing changed what it compares")
	}
}

func TestAFollowUpWithoutAPriorityHasThatOfTheTask(t *testing.T) {
	with := func(priority *int) Observation {
		return Observation{Outcome: Outcome{Kind: tasks.Succeeded, FollowUps: []FollowUp{{TaskClass: "B", Priority: priority}}}}
	}
	alerts := Case{Task: TaskColumns{Priority: new(tasks.PriorityAlerts)}}
	for _, c := range []struct {
		of        Case
		priority  int
		different bool
	}{
		{Case{}, tasks.PriorityDefault, false}, {Case{}, tasks.PriorityAlerts, true},
		{alerts, tasks.PriorityAlerts, false}, {alerts, tasks.PriorityDefault, true},
	} {
		php, ours := with(&c.priority), with(nil)
		if found := Compare(c.of, php, ours); (len(found) > 0) != c.different {
			t.Errorf("%+v: %v", c, found)
		}
		if ours.Outcome.FollowUps[0].Priority != nil {
			t.Error("comparing changed what it compares")
		}
	}
}

func TestADifferenceSaysWhatItIsAndHowItIsDeclaredVolatile(t *testing.T) {
	for _, c := range []struct {
		d            Difference
		text, column string
	}{
		{Difference{"requests[1].body", new("a"), nil}, `requests[1].body: want "a", got NULL`, "request.body"},
		{Difference{"requests[1].headers[X-A]", nil, new("a")}, `requests[1].headers[X-A]: want NULL, got "a"`, "request.headers.X-A"},
		{Difference{"requests[1].method", nil, new("a")}, `requests[1].method: want NULL, got "a"`, ""},
		{Difference{"changes[a.b 1 x].name.after", nil, nil}, "changes[a.b 1 x].name.after", "a.b.name"},
		{Difference{"changes[a.b 1]", nil, nil}, "changes[a.b 1]", ""},
	} {
		if c.d.String() != c.text || c.d.Column() != c.column {
			t.Errorf("got %s and %q, want %s and %q", c.d, c.d.Column(), c.text, c.column)
		}
	}
}
