package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestCommandsChangeWhatTheyCanAndWarnOfTheRest(t *testing.T) {
	for _, c := range []struct {
		args     string
		code     int
		out, err string
	}{
		{"cancel --id 1 --id 9", exitOK,
			"Task 1 (PhabricatorSearchWorker) was cancelled.\nChanged 1 of 2 selected tasks.\n",
			"warning: task 9 (PhabricatorMetaMTAWorker) was left as it is: it is in the archive\n"},
		{"free --id 2 --id 1", exitOK,
			"Task 2 (PhabricatorTestWorker) was freed from its lease.\nChanged 1 of 2 selected tasks.\n",
			"warning: task 1 (PhabricatorSearchWorker) was left as it is: it has no lease\n"},
		{"priority --class PhabricatorMetaMTAWorker --priority 1000", exitOK,
			"Task 8 (PhabricatorMetaMTAWorker) has priority 1000 now.\nChanged 1 of 1 selected tasks.\n", ""},
		{"priority --id 8 --priority 2000", exitNothing, "",
			"warning: task 8 (PhabricatorMetaMTAWorker) was left as it is: it is so already\ngantry: nothing was changed\n"},
		{"delay --id 1 --id 2 --until 1800018000", exitOK,
			"Task 1 (PhabricatorSearchWorker) waits until 2027-01-15 13:00:00Z (in 1h0m0s).\nChanged 1 of 2 selected tasks.\n",
			"warning: task 2 (PhabricatorTestWorker) was left as it is: somebody works on it; free its lease first, or wait\n"},
		{"retry --class PhabricatorMetaMTAWorker", exitOK,
			"Task 10 (PhabricatorMetaMTAWorker) was queued again.\nChanged 1 of 2 selected tasks.\n",
			"warning: task 9 (PhabricatorMetaMTAWorker) was left as it is: it succeeded; --repeat runs it again\n"},
		{"retry --id 9 --repeat", exitOK,
			"Task 9 (PhabricatorMetaMTAWorker) was queued again.\nChanged 1 of 1 selected tasks.\n", ""},
		{"retry --id 1", exitNothing, "",
			"warning: task 1 (PhabricatorSearchWorker) was left as it is: it is in the queue\ngantry: nothing was changed\n"},
		{"awaken --class PhabricatorTestWorker", exitOK, "1 of 6 selected tasks were awakened.\n", ""},
		{"awaken --id 1", exitNothing, "0 of 1 selected tasks were awakened.\n",
			"gantry: nothing was changed: only tasks that yielded and never failed can be awakened\n"},
		{"cancel --class NoSuchWorker", exitNothing, "", "gantry: no task matches\n"},
		{"cancel --id 1 --id 99 --id 98", exitNothing, "", "gantry: nothing was done: no task matches with id 99, 98\n"},
		{"cancel --id 1 --archived", exitNothing, "", "gantry: nothing was done: no task matches with id 1\n"},
		{"awaken --id 99", exitNothing, "", "gantry: nothing was done: no task matches with id 99\n"},
		{"delay --id 1 --until now", exitOK, "Task 1 (PhabricatorSearchWorker) may run now.\nChanged 1 of 1 selected tasks.\n", ""},
		{"list --class NoSuchWorker", exitNothing, "", "gantry: no task matches\n"},
		{"list --class NoSuchWorker --output json", exitNothing, "", "gantry: no task matches\n"},
		{"list --id 99", exitNothing, "", "gantry: no task matches with id 99\n"},
		{"show --class NoSuchWorker", exitNothing, "", "gantry: no task matches\n"},
		{"show --id 99", exitNothing, "", "gantry: no task matches with id 99\n"},
	} {
		t.Run(c.args, func(t *testing.T) {
			got := command(t, seed(t), "", append([]string{"tasks"}, strings.Fields(c.args)...)...)
			expect(t, got, c.code, c.out, c.err)
		})
	}
}

func TestChangesAsJSONAreOneDocumentALine(t *testing.T) {
	expect(t, command(t, seed(t), "", "tasks", "retry", "--class=PhabricatorMetaMTAWorker", "--output=json"), exitOK, `
{"id":9,"taskClass":"PhabricatorMetaMTAWorker","changed":false,"reason":"succeeded"}
{"id":10,"taskClass":"PhabricatorMetaMTAWorker","changed":true}
`[1:], "")
	expect(t, command(t, seed(t), "", "tasks", "awaken", "--id=3", "--id=1", "--output=json"), exitOK,
		`{"selected":2,"awakened":1}`+"\n", "")
}

func TestAnIDThatIsMissingStopsTheWholeChange(t *testing.T) {
	m := seed(t)
	command(t, m, "", "tasks", "cancel", "--id=1", "--id=99")
	if record, err := m.Get(t.Context(), 1); err != nil || record.Archive != nil {
		t.Errorf("task 1 was changed although task 99 does not exist: %+v, %v", record, err)
	}
}

func TestCommandsSelectWhereTheyCanAct(t *testing.T) {
	m := seed(t)
	expect(t, command(t, m, "", "tasks", "cancel", "--class=PhabricatorMetaMTAWorker"), exitOK,
		"Task 8 (PhabricatorMetaMTAWorker) was cancelled.\nChanged 1 of 1 selected tasks.\n", "")
	if record, err := m.Get(t.Context(), 8); err != nil || record.Archive == nil || record.Result != tasks.ResultCancelled {
		t.Errorf("task 8 is %+v, %v", record, err)
	}
}

func TestAChangeOfManyTasksReachesEveryPage(t *testing.T) {
	m := newMemory()
	command(t, m, "", "tasks", "flood", "--count=1201")
	got := command(t, m, "", "tasks", "cancel", "--active")
	if want := "Changed 1201 of 1201 selected tasks.\n"; !strings.HasSuffix(got.out, want) || got.code != exitOK {
		t.Errorf("exit code %d; it did not end in %q", got.code, want)
	}
}

func TestEnqueueStoresWhatItIsGiven(t *testing.T) {
	m := newMemory()
	file := writeFile(t, "data.json", "{\"n\":1.0}\n", 0o600)
	expect(t, command(t, m, "", "tasks", "enqueue", "--class=A", `--data={"n":9007199254740993}`, "--priority=7",
		"--object=PHID-TASK-o", "--container=PHID-PROJ-c", "--delay=6 hours"), exitOK, "Task 1 (A) was queued.\n", "")
	expect(t, command(t, m, "", "tasks", "enqueue", "--class=A", "--data-file="+file), exitOK, "Task 2 (A) was queued.\n", "")
	expect(t, command(t, m, "[3]", "tasks", "enqueue", "--class=B", "--data-file=-", "--output=json"), exitOK, `{"id":3,"taskClass":"B"}`+"\n", "")

	for id, want := range []string{`{"n":9007199254740993}`, "{\"n\":1.0}\n", "[3]"} {
		if record, err := m.Get(t.Context(), int64(id+1)); err != nil || string(record.Data) != want {
			t.Errorf("task %d has the data %q, %v; want %q", id+1, record.Data, err, want)
		}
	}
	first, _ := m.Get(t.Context(), 1)
	got := fmt.Sprint(first.Priority, *first.ObjectPHID, *first.ContainerPHID, *first.Owner, *first.Expires)
	if want := fmt.Sprint(7, "PHID-TASK-o", "PHID-PROJ-c", "(delay)", noon+6*3600); got != want {
		t.Errorf("task 1 is %s, want %s", got, want)
	}
}

func TestWhatIsWrittenWrongIsRefusedBeforeTheStoreIsOpened(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"tasks cancel", "say which tasks with a selector, such as --id or --class"},
		{"tasks cancel --id 99999999999999999999", `--id "99999999999999999999" must be a smaller number`},
		{"tasks priority --id 1 --priority high", `--priority "high" must be a whole number`},
		{"run --slots abc", `--slots "abc" must be a whole number`},
		{"run --lease 1", `--lease "1" must be a duration with its unit, such as 500ms, 60s or 2h`},
		{"run --until-empty=maybe", `--until-empty "maybe" must be true or false`},
		{"tasks flood --duration long", `--duration "long" must be a number`},
		{"tasks flood 30", "`gantry tasks flood` takes no arguments, and \"30\" is one"},
		{"tasks enqueue --class A extra", "`gantry tasks enqueue` takes no arguments"},
		{"run foo", "`gantry run` takes no arguments"},
		{"version extra", "`gantry version` takes no arguments"},
		{"config check extra", "`gantry config check` takes no arguments"},
		{"plugins pin extra", "`gantry plugins pin` takes no arguments"},
		{"tasks list --limit 0", "--limit 0 must be at least 1"},
		{"tasks cancel --limit 3", "say which tasks with a selector"},
		{"tasks show", "say which tasks with a selector"},
		{"tasks show 12", `"12" is not understood; select tasks with flags, as in ` + "`gantry tasks show --id 4711`"},
		{"tasks cancel --id twelve", `--id "twelve" must be a whole number, or several with commas between them`},
		{"tasks cancel --active --archived", "no task is both"},
		{"tasks cancel --active --limit 0", "--limit 0 must be at least 1"},
		{"tasks cancel --min-failure-count 3 --max-failure-count 2", "--min-failure-count 3 is above --max-failure-count 2"},
		{"tasks cancel --min-priority 3 --max-priority 2", "--min-priority 3 is above --max-priority 2"},
		{"tasks cancel --object T123", `"T123" is not a PHID`},
		{"tasks cancel --class=", "--class is empty"},
		{"tasks priority --id 1", "name the new priority with --priority"},
		{"tasks delay --id 1", "say with --until when the tasks may run"},
		{"tasks delay --id 1 --until soon", `--until: "soon" is not a time`},
		{"tasks enqueue --data {}", "name the class of the task with --class"},
		{"tasks enqueue --class A", "give the data of the task with --data or with --data-file"},
		{"tasks enqueue --class A --data {} --data-file x", "not with both"},
		{"tasks enqueue --class A --data-file /nonexistent", "no such file"},
		{"tasks enqueue --class A --data {} --delay 3", `--delay: "3" is not a time`},
		{"tasks flood --count 0", "--count 0 must be at least 1"},
		{"tasks flood --duration -1", "--duration -1 must not be negative"},
		{"tasks lst", "there is no command \"lst\" of `gantry tasks`; did you mean list?"},
		{"taks", "there is no command \"taks\" of `gantry`; did you mean tasks?"},
		{"tasks list --bogus", "unknown flag: --bogus"},
		{"tasks list --output xml", `--output "xml" must be text or json`},
	} {
		t.Run(c.args, func(t *testing.T) {
			got := command(t, nil, "", strings.Fields(c.args)...)
			if got.code != exitUsage || !strings.Contains(got.err, c.want) {
				t.Errorf("exit code %d, %s\nwant code %d and %s", got.code, got.err, exitUsage, c.want)
			}
		})
	}
}

// The queue leases what has expired before now, in whole seconds.
func TestWhatMayRunNowIsDueAtOnce(t *testing.T) {
	m := seed(t)
	command(t, m, "", "tasks", "delay", "--id=1", "--until=now")
	if record, err := m.Get(t.Context(), 1); err != nil || *record.Expires >= noon {
		t.Errorf("task 1 is due at %d, %v; now is %d", *record.Expires, err, noon)
	}
	command(t, m, "", "tasks", "enqueue", "--class=A", "--data={}", "--delay=now")
	if record, err := m.Get(t.Context(), 11); err != nil || record.Expires != nil {
		t.Errorf("task 11 is due at %v, %v", record.Expires, err)
	}
}

func TestEnqueueRefusesWhatIsNoTask(t *testing.T) {
	got := command(t, newMemory(), "", "tasks", "enqueue", "--class=A", "--data={")
	if got.code != exitUsage || !strings.Contains(got.err, "data is not valid JSON") {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
}

func TestTimesAreReadAsPeopleWriteThem(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	for _, c := range []struct {
		text string
		want int64
	}{
		{"now", noon},
		{"6 hours", noon + 6*3600},
		{"1 day, 30 minutes", noon + 86400 + 1800},
		{"6h30m", noon + 6*3600 + 1800},
		{"90 Seconds", noon + 90},
		{"2w", noon + 14*86400},
		{"0s", noon},
		{"2027-01-16", noon + 11*3600},
		{"2027-01-15 14:00", noon + 3600},
		{"2027-01-15 13:00:05", noon + 5},
		{"2027-01-15T13:00:00Z", noon + 3600},
		{"1800014401", noon + 1},
	} {
		if got, err := parseWhen(c.text, noon, zone); err != nil || got != c.want {
			t.Errorf("%q is %d, %v; want %d", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"", "6", "six hours", "6 fortnights", "tomorrow", "99999 weeks", "9999999999999999999 hours", "99999999999", "1900-01-01", "-5"} {
		if got, err := parseWhen(text, noon, zone); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}
