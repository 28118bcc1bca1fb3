package contract

import (
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
)

// TestNoFaultPassesForChance tries what a handler that is wrong writes and sends,
// and what looks like what chance and the clock decide.
func TestNoFaultPassesForChance(t *testing.T) {
	const owner = "gantry:1a:0:nonce:host"
	frame := Frame{
		Start: start, Leased: start + 2, Settling: end, End: end, Lease: 7200, TaskID: 7, DataID: 8, Owner: owner,
		Receivers: map[string]string{"hook": "127.0.0.1:4000"},
	}
	raw := func(frame Frame) Observation {
		return Observation{
			Outcome:  Outcome{Kind: tasks.Succeeded},
			Requests: []Request{{Receiver: "hook", Method: "POST", Order: "Host, A", Headers: map[string]string{"User-Agent": "Arcanist/1.0 cURL/7.88.1"}, Body: "at " + at(frame.End)}},
			Changes: []Change{
				{Table: "a.t", Kind: Changed, Key: "1", Columns: map[string]Values{"x": {new("0"), new(at(frame.End))}}},
				{Table: "a.t", Kind: Added, Key: "2", Columns: map[string]Values{"x": {nil, new("PHID-TASK-abcdefghijklmnopqrst")}}},
				{Table: "worker.worker_archivetask", Kind: Added, Key: "7", Columns: map[string]Values{"leaseOwner": {nil, new(owner)}}},
				{Table: "worker.lisk_counter", Kind: Changed, Key: "worker_activetask", Columns: map[string]Values{"counterValue": {new("99"), new("1000")}}},
			},
		}
	}
	after := func(i int, column, value string) func(o *Observation) {
		return func(o *Observation) {
			v := o.Changes[i].Columns[column]
			v.After = &value
			o.Changes[i].Columns[column] = v
		}
	}
	agent := func(value string) func(o *Observation) {
		return func(o *Observation) { o.Requests[0].Headers["User-Agent"] = value }
	}
	short := frame
	short.Settling, short.End = start+2+longRun-1, start+2+longRun-1
	for _, c := range []struct {
		what   string
		frame  Frame
		change func(o *Observation)
		told   bool
	}{
		{"nothing", frame, func(*Observation) {}, false},
		{"a moment of before the call", frame, after(0, "x", at(start+2)), true},
		{"a moment of the start, by the case", frame, after(0, "x", at(start)), true},
		{"a moment of the middle", frame, after(0, "x", at(start+8)), true},
		{"another moment of the end", frame, after(0, "x", at(end-1)), false},
		{"a moment of before a short call", short, after(0, "x", at(start+2)), false},
		{"a moment of before the call, sent", frame, func(o *Observation) { o.Requests[0].Body = "at " + at(start+3) }, true},
		{"a moment's name", frame, after(0, "x", "{{end}}"), true},
		{"a moment's name in a short run", short, after(0, "x", "{{now}}"), true},
		{"another new PHID", frame, after(1, "x", "PHID-TASK-abcdefghijklmnopqrsa"), false},
		{"a PHID that is too short", frame, after(1, "x", "PHID-TASK-abcdefghijklmnopqrs"), true},
		{"a PHID as short as one with a subtype", frame, after(1, "x", "PHID-TASK-abcdefghijklmno"), true},
		{"the lease of another", frame, after(2, "leaseOwner", "gantry:1b:0:nonce:host"), true},
		{"a lease after a crash", frame, after(2, "leaseOwner", "gantry:1a:1:nonce:host"), true},
		{"a counter that is further", frame, after(3, "counterValue", "1001"), false},
		{"a counter that is set back", frame, after(3, "counterValue", "98"), true},
		{"a counter that is gone", frame, func(o *Observation) { o.Changes[3].Kind, o.Changes[3].Columns = Removed, nil }, true},
		{"another curl", frame, agent("Arcanist/1.0 cURL/8.5.0"), false},
		{"Gantry", frame, agent("Arcanist/1.0 Gantry"), false},
		{"another agent", frame, agent("Arcanist/1.0 sqlmap"), true},
		{"an agent with more to it", frame, agent("Arcanist/1.0 cURL/8.5.0 (x)"), true},
		{"another version of HTTP", frame, func(o *Observation) { o.Requests[0].Version = "HTTP/1.0" }, true},
		{"headers in another order", frame, func(o *Observation) { o.Requests[0].Order = "A, Host" }, true},
		{"a header twice", frame, func(o *Observation) { o.Requests[0].Order = "Host, A, A" }, true},
	} {
		changed := raw(c.frame)
		c.change(&changed)
		if told := len(Compare(Case{}, Normalise(raw(c.frame), c.frame), Normalise(changed, c.frame))) > 0; told != c.told {
			t.Errorf("%s: told is %v", c.what, told)
		}
	}
	untouched := Observation{}
	touched := Observation{Changes: []Change{{Table: "a.t", Kind: Changed, Key: "1", Columns: map[string]Values{"x": {new(at(start)), new(at(end))}}}}}
	if len(Compare(Case{}, Normalise(touched, frame), Normalise(untouched, frame))) == 0 {
		t.Error("a row that was not touched at the end of a long run passes for one that was")
	}
}
