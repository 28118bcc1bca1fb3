package contract

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/tasks"
)

// chance is what one run of a case draws: when it runs, ports, ids, and PHIDs.
type chance struct {
	frame  Frame
	phids  []string
	owner  string
	nextID int64 // of the first new task; its data is at nextID*2
	agent  string
	micros string
}

const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"

func anyChance() *rapid.Generator[chance] {
	phid := rapid.StringOfN(rapid.RuneFrom([]rune(alphabet)), 20, 20, -1)
	return rapid.Custom(func(t *rapid.T) chance {
		begin := rapid.Int64Range(1600000000, 1900000000).Draw(t, "start")
		long := rapid.Int64Range(0, longRun-1).Draw(t, "long")
		ports := rapid.SliceOfNDistinct(rapid.IntRange(1024, 65535), 3, 3, rapid.ID).Draw(t, "ports")
		id := rapid.Int64Range(1, 1e6).Draw(t, "id")
		c := chance{
			frame: Frame{
				Case: symbolicCase, Start: begin, Settling: begin + rapid.Int64Range(0, long).Draw(t, "settling"), End: begin + long, Lease: 60,
				Receivers: map[string]string{"a": fmt.Sprintf("127.0.0.1:%d", ports[0]), "b": fmt.Sprintf("127.0.0.1:%d", ports[1])},
				Closed:    fmt.Sprintf("127.0.0.1:%d", ports[2]),
				TaskID:    id, DataID: id + rapid.Int64Range(1, 50).Draw(t, "data"),
			},
			owner:  tasks.Owner{Fence: rapid.Int64Range(0, 1e9).Draw(t, "fence"), Nonce: phid.Draw(t, "nonce"), Host: "host"}.String(),
			nextID: id + rapid.Int64Range(100, 200).Draw(t, "next"),
			agent:  rapid.SampledFrom([]string{"cURL/7.88.1", "cURL/8.0-DEV", "Gantry"}).Draw(t, "agent"),
			micros: strconv.Itoa(rapid.IntRange(0, 1e9).Draw(t, "micros")),
		}
		c.frame.Owner = c.owner
		for _, end := range rapid.SliceOfNDistinct(phid, 3, 3, rapid.ID).Draw(t, "phids") {
			c.phids = append(c.phids, "PHID-TASK-"+end)
		}
		return c
	})
}

var symbolicCase = Case{
	Name: "symbolic", Data: "PHID-USER-aaaaaaaaaaaaaaaaaaaa {{now-864000}} {{now+100000}}",
	Volatile: []Volatile{{Column: "a.b.chance", Pattern: `\|token=(\w*)\|`, Reason: "chance"}},
}

// pieces of texts that stand for something else in each run, and some that do not.
var pieceNames = []string{
	"text", "0", "1234567890", "127.0.0.1:1", "PHID-USER-aaaaaaaaaaaaaaaaaaaa", "\xff\x00", "{", "\n", "{{now}}", "{{receiver a}}",
	"NOW", "END", "-864000", "+100000", "+77", "A", "B", "CLOSED", "NEW0", "NEW1", "NEW2",
}

// in answers what a piece is in one run.
func (c chance) in(t *rapid.T, piece string) string {
	switch piece {
	case "NOW":
		return at(rapid.Int64Range(c.frame.Start, c.frame.End).Draw(t, "now"))
	case "END":
		return at(c.frame.End)
	case "-864000", "+100000":
		distance, _ := strconv.ParseInt(piece, 10, 64)
		return at(c.frame.Start + distance)
	case "+77":
		return at(c.frame.Start + 77)
	case "A":
		return c.frame.Receivers["a"]
	case "B":
		return c.frame.Receivers["b"]
	case "CLOSED":
		return c.frame.Closed
	}
	if n, ok := strings.CutPrefix(piece, "NEW"); ok {
		return c.phids[n[0]-'0']
	}
	return piece
}

// symbolic is an observation whose texts are lists of pieces.
type symbolic struct {
	texts     [6][]string
	wait      int64
	followUps int
}

func anySymbolic() *rapid.Generator[symbolic] {
	pieces := rapid.SliceOfN(rapid.SampledFrom(pieceNames), 0, 4)
	return rapid.Custom(func(t *rapid.T) symbolic {
		s := symbolic{wait: rapid.Int64Range(0, 100).Draw(t, "wait"), followUps: rapid.IntRange(0, 3).Draw(t, "followUps")}
		for i := range s.texts {
			s.texts[i] = pieces.Draw(t, "text")
		}
		return s
	})
}

// run makes an observation of one run of it.
func (s symbolic) run(t *rapid.T, c chance) Observation {
	text := func(i int) string {
		parts := []string{""}
		for _, piece := range s.texts[i] {
			parts = append(parts, c.in(t, piece))
		}
		return strings.Join(append(parts, ""), "|")
	}
	lease, _ := tasks.ParseOwner(c.owner)
	id, settled := at(c.frame.TaskID), rapid.Int64Range(c.frame.Settling, c.frame.End).Draw(t, "settled")
	o := Observation{
		Outcome: Outcome{Kind: tasks.Retry, Wait: s.wait, Reason: c.owner, FollowUps: []FollowUp{{TaskClass: "B", Data: text(0)}}},
		Requests: []Request{{Receiver: "a", Headers: map[string]string{
			"X": text(1), "User-Agent": "Arcanist/1.0 " + c.agent, "Host": c.frame.Receivers["a"],
		}, Body: text(2)}},
		Changes: []Change{
			{Table: "a.b", Kind: Changed, Key: text(3), Columns: map[string]Values{
				"x": {nil, new(text(4))}, "chance": {nil, new("|token=" + strings.ReplaceAll(c.micros, "-", "") + text(5))},
			}},
			{Table: "gantry.attempts", Kind: Added, Key: c.micros},
			{Table: "worker.worker_activetask", Kind: Changed, Key: id, Columns: map[string]Values{
				"leaseOwner":   {&c.owner, new(tasks.RetryOwner(lease.Fence, 0))},
				"leaseExpires": {new(at(rapid.Int64Range(c.frame.Start, c.frame.Settling).Draw(t, "leased") + 60)), new(at(settled + s.wait))},
			}},
			{Table: "worker.worker_archivetask", Kind: Changed, Key: id, Columns: map[string]Values{"dataID": {new(at(c.frame.DataID)), nil}}},
		},
	}
	// Whether a row changes that is touched depends on the clock.
	if touched := c.in(t, "NOW"); touched != at(c.frame.Start) {
		o.Changes = append(o.Changes, Change{Table: "a.d", Kind: Changed, Key: "1", Columns: map[string]Values{"touched": {new(at(c.frame.Start)), &touched}}})
	}
	// A stage reads rows by their keys, so chance decides the order of new ones.
	for i, phid := range c.phids {
		o.Changes = append(o.Changes, Change{Table: "a.c", Kind: Added, Key: phid, Columns: map[string]Values{"phid": {nil, &phid}, "name": {nil, new(at(int64(i)))}}})
	}
	slices.SortFunc(o.Changes, func(a, b Change) int { return strings.Compare(a.Table+a.Key, b.Table+b.Key) })
	for i := range s.followUps {
		task, data := at(c.nextID+int64(i)), at(2*c.nextID+int64(i))
		o.Changes = append(o.Changes,
			Change{Table: "worker.worker_activetask", Kind: Added, Key: task, Columns: map[string]Values{"id": {nil, &task}, "dataID": {nil, &data}}},
			Change{Table: "worker.worker_taskdata", Kind: Added, Key: data, Columns: map[string]Values{"id": {nil, &data}}})
	}
	return o
}

func TestNormalisedObservationsOfTwoRunsAreEqual(t *testing.T) {
	chances, observations := anyChance(), anySymbolic()
	rapid.Check(t, func(t *rapid.T) {
		s, a, b := observations.Draw(t, "observation"), chances.Draw(t, "a run"), chances.Draw(t, "another")
		first, second := Normalise(s.run(t, a), a.frame), Normalise(s.run(t, b), b.frame)
		if found := Compare(symbolicCase, first, second); found != nil {
			t.Errorf("two runs differ: %v", Result{Case: symbolicCase, Differences: found}.text(false))
		}
	})
}

func TestNormalisedObservationsOfDifferentRunsStayDifferent(t *testing.T) {
	chances, observations := anyChance(), anySymbolic()
	rapid.Check(t, func(t *rapid.T) {
		s, a, b := observations.Draw(t, "observation"), chances.Draw(t, "a run"), chances.Draw(t, "another")
		other := s
		switch what := rapid.IntRange(0, len(s.texts)+1).Draw(t, "what differs"); {
		case what == len(s.texts):
			other.wait += rapid.Int64Range(1, 1000).Draw(t, "more")
		case what > len(s.texts):
			other.followUps++
		default:
			to := rapid.SampledFrom(pieceNames).Draw(t, "to")
			i := rapid.IntRange(0, len(s.texts[what])).Draw(t, "place")
			other.texts[what] = slices.Clone(s.texts[what])
			if i < len(s.texts[what]) && rapid.Bool().Draw(t, "replaced") {
				if meaning(s.texts[what][i]) == meaning(to) {
					t.Skip("the same is put in its place")
				}
				other.texts[what][i] = to
			} else {
				other.texts[what] = slices.Insert(other.texts[what], i, to)
			}
		}
		first, second := Normalise(s.run(t, a), a.frame), Normalise(other.run(t, b), b.frame)
		if found := Compare(symbolicCase, first, second); found == nil {
			t.Errorf("nothing is reported of %+v and %+v", s, other)
		}
	})
}

// meaning is what a piece cannot be told from: moments of the run are the same,
// and which new PHID stands alone nobody can say.
func meaning(piece string) string {
	switch piece {
	case "NOW", "END":
		return "now"
	case "NEW0", "NEW1", "NEW2":
		return "new"
	}
	return piece
}

func TestWhatHasANameKeepsIt(t *testing.T) {
	frame := Frame{
		Case:  Case{Volatile: []Volatile{{Column: "a.b.word", Pattern: "[a-z]+", Reason: "chance"}, {Column: "a.b.all", Reason: "chance"}}},
		Start: start, End: end, Receivers: map[string]string{"r-1791234000": "127.0.0.1:81"},
	}
	raw := Observation{Changes: []Change{{Table: "a.b", Kind: Changed, Key: "1", Columns: map[string]Values{
		"word": {new("ab1cd"), new("")}, "all": {nil, new("x")}, "other": {new("127.0.0.1:81"), new("127.0.0.1:811 and 127.0.0.1:8")},
	}}}}
	want := Observation{Changes: []Change{{Table: "a.b", Kind: Changed, Key: "1", Columns: map[string]Values{
		"word": {new("{{volatile}}1{{volatile}}"), new("")}, "all": {nil, new("{{volatile}}")},
		"other": {new("{{receiver r-1791234000}}"), new("127.0.0.1:811 and 127.0.0.1:8")},
	}}}}
	if diff := cmp.Diff(want, Normalise(raw, frame)); diff != "" {
		t.Error(diff)
	}
}

func TestWhetherASecondPassedIsNoChange(t *testing.T) {
	row := func(before, after string) Observation {
		return Observation{Changes: []Change{{Table: "a.b", Kind: Changed, Key: "1", Columns: map[string]Values{"x": {&before, &after}}}}}
	}
	for _, c := range []struct {
		before, after string
		kept          bool
	}{
		{at(start), at(end), false},
		{"{" + at(start) + "," + at(end) + "}", "{" + at(end) + "," + at(end) + "}", false},
		{at(start), at(end + 1), true},
		{at(start - 1), at(start), true},
		{at(start), at(end) + " ", true},
		{"127.0.0.1:81", "127.0.0.1:82", true},
		{"PHID-TASK-aaaaaaaaaaaaaaaaaaaa", "PHID-TASK-bbbbbbbbbbbbbbbbbbbb", true},
	} {
		got := Normalise(row(c.before, c.after), Frame{Start: start, End: end})
		if kept := len(got.Changes) == 1; kept != c.kept {
			t.Errorf("%s that became %s: %+v", c.before, c.after, got.Changes)
		}
	}
	volatile := Frame{Start: start, End: end, Case: Case{Volatile: []Volatile{{Column: "a.b.x", Reason: "chance"}}}}
	if got := Normalise(row("x", "y"), volatile); len(got.Changes) != 1 {
		t.Error("that a volatile column changed is hidden")
	}
}

func TestAReasonDoesNotSayWhereAPhorgeLies(t *testing.T) {
	raw := Observation{Outcome: Outcome{Kind: tasks.Retry, Reason: "TypeError: idx(): called in /tmp/phorge-12/phorge/src/a/B.php on line 10, '/srv/arcanist/src/C.php:1', http://phorge/x"}}
	want := "TypeError: idx(): called in phorge/src/a/B.php on line 10, 'arcanist/src/C.php:1', http://phorge/x"
	if got := Normalise(raw, Frame{}).Outcome.Reason; got != want {
		t.Errorf("%q", got)
	}
}

func TestNamesAreThoseThatAPersonReads(t *testing.T) {
	frame, raw := rich(tasks.Succeeded)
	content, err := encode(Normalise(raw, frame))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`data: '{"uri":"http:\/\/{{receiver hook}}\/","new":"{{PHID-XACT-TASK#1}}"}'`, "containerPHID: '{{PHID-TASK#1}}'", "delayUntil: '{{now+115}}'",
		"objectPHID: PHID-USER-bbbbbbbbbbbbbbbbbbbb", `"epoch": {{end}}`, "User-Agent: Arcanist/1.0 {{curl}}", "Host: '{{receiver hook}}'", "{{closed}}",
		"before: '{{now-864000}}'", "key: '{{PHID-TASK#1}} {{volatile}}'", "after: token={{volatile}}; name=abc",
		"after: '{{leased+60}}'", "after: '{{data#1}}'", "after: '{{task#1}}'", "before: '{{task}}'", "after: '{{duration}}'", "'{{lease}}'", "key: \"400\"",
	} {
		if !strings.Contains(string(content), want) && !strings.Contains(string(content), strings.ReplaceAll(want, "{{closed}}", "")) {
			t.Errorf("%s is missing in\n%s", want, content)
		}
	}
}

func TestWhatIsRandomInARequestIsNamed(t *testing.T) {
	frame, raw := rich(tasks.Succeeded)
	r := Normalise(raw, frame).Requests[0]
	got := []string{r.Target, r.Body, r.Headers["X-Signature"], r.Headers["X-Nonce"]}
	want := []string{"/a?b=1&t={{volatile}}", "{\n  \"epoch\": {{end}}, \"nonce\": {{volatile}}\n}\n", "{{volatile}}", "n-{{volatile}}; v=1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheFenceOfAWaitingRowIsThatOfTheLease(t *testing.T) {
	frame := Frame{Owner: tasks.Owner{Fence: 47, Crashes: 1, Nonce: "n", Host: "h"}.String(), TaskID: 7}
	waiting := func(owner string) Observation {
		return Normalise(Observation{Changes: []Change{{Table: "worker.worker_activetask", Kind: Changed, Key: "7", Columns: map[string]Values{
			"leaseOwner": {&frame.Owner, &owner},
		}}}}, frame)
	}
	want := waiting(tasks.RetryOwner(47, 1))
	if got := *want.Changes[0].Columns["leaseOwner"].After; got != "(retry):{{fence}}:1" {
		t.Errorf("the owner is %s", got)
	}
	for name, owner := range map[string]string{
		"the fence of an older lease": tasks.RetryOwner(46, 1), "no fence": tasks.RetryOwner(0, 1),
		"a crash less": tasks.RetryOwner(47, 0), "a crash more": tasks.RetryOwner(47, 2), "given back": tasks.BackOwner(47, 1),
	} {
		if len(Compare(Case{}, want, waiting(owner))) == 0 {
			t.Errorf("nobody reports %s", name)
		}
	}
}
