package pluginpb

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/phorge-gantry/gantry/tasks"
)

const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTasksTravelUnchanged(t *testing.T) {
	for _, c := range []struct {
		name string
		task tasks.Task
	}{
		{"with everything", tasks.Task{ID: 1 << 31, Class: "A", Data: []byte("{\"n\":1.0}\n"), Priority: 4000, FailureCount: 3,
			ObjectPHID: new("PHID-TASK-1"), ContainerPHID: new(""), Traceparent: trace}},
		{"without data", tasks.Task{ID: 1, Class: "A"}},
		{"with empty data, which is not the same", tasks.Task{ID: 1, Class: "A", Data: []byte{}}},
		{"with bytes that are not UTF-8", tasks.Task{ID: 1, Class: "A", Data: []byte("\x83\x65"), ObjectPHID: new("\xff")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.task, wire(t, FromTask(9, c.task), &Task{}).Vocabulary()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOutcomesTravelUnchanged(t *testing.T) {
	for _, outcome := range []tasks.Outcome{
		{Kind: tasks.Succeeded, Duration: 1234 * time.Microsecond, FollowUps: []tasks.NewTask{
			{Class: "A", Data: []byte(`9007199254740993`), Traceparent: trace},
			{Class: "B", Data: []byte(`{}`), Priority: new(1000), ObjectPHID: new("PHID-X"), ContainerPHID: new(""), DelayUntil: 1 << 31},
		}},
		{Kind: tasks.Yielded, Wait: time.Minute, Reason: "busy"},
		{Kind: tasks.Retry, Wait: -time.Minute, Reason: "no"},
		{Kind: tasks.Failed, Reason: "never"},
		{Kind: tasks.Declined, Reason: "not mine"},
	} {
		t.Run(string(outcome.Kind), func(t *testing.T) {
			got, err := wire(t, FromOutcome(9, outcome), &Outcome{}).Vocabulary()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(outcome, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnOutcomeOfUnknownKindIsAnError(t *testing.T) {
	if got, err := (&Outcome{Kind: 99}).Vocabulary(); err == nil {
		t.Errorf("it was read as %+v", got)
	}
}

func TestAReasonOfAnyBytesCanBeSent(t *testing.T) {
	got := wire(t, FromOutcome(9, tasks.Outcome{Kind: tasks.Retry, Reason: "caf\xe9"}), &Outcome{})
	if got.GetReason() != "caf\uFFFD" {
		t.Errorf("the reason became %q", got.GetReason())
	}
}

// wire sends a message as the stream does.
func wire[M proto.Message](t *testing.T, sent, received M) M {
	t.Helper()
	encoded, err := proto.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(encoded, received); err != nil {
		t.Fatal(err)
	}
	return received
}
