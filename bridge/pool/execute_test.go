package pool

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestTasksRunOneAfterTheOtherInOneProcess(t *testing.T) {
	p, log := startReady(t, Config{})
	first := pids(p, Idle)
	for range 3 {
		want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
	}
	s := p.State()
	if len(s.Processes) != 1 || s.Processes[0].PID != first[0] || s.Processes[0].Tasks != 3 || s.Processes[0].Memory != 4096 {
		t.Errorf("state %+v", s)
	}
	if s.PHP != "8.2" || s.Phorge != "fake" || s.Namespace != "phorge" || !s.Ready || s.Problem != "" {
		t.Errorf("state %+v", s)
	}
	if strings.Contains(log.String(), "will be replaced") {
		t.Errorf("the log says\n%s", log)
	}
	if got := p.Publishers(); !cmp.Equal(got, []string{"Publish"}) {
		t.Errorf("the publishers are %q", got)
	}
	if got := p.Classes(); !cmp.Equal(got, []string{"Do", "Echo"}) {
		t.Errorf("classes %q", got)
	}
}

func TestB18DataReachesPHPByteForByte(t *testing.T) {
	p, _ := startReady(t, Config{})
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"no data row", nil},
		{"an empty data row", []byte{}},
		{"not UTF-8", []byte("{\"p\":\"\x83\x65\"}")},
		{"cut JSON", []byte(`{"a":`)},
		{"half a surrogate pair", []byte(`"\ud800"`)},
		{"emoji", []byte(`"🦎"`)},
		{"NUL", []byte("\x00\x00\x00\x08")},
		{"a large integer and an empty map", []byte(`{"n":9007199254740993,"f":1.0,"opts":{}}`)},
		{"as much as is written with its header", bytesOf(smallBody)},
		{"one byte more", bytesOf(smallBody + 1)},
		{"more than a pipe holds", bytesOf(300_000)},
	} {
		got := p.Execute(t.Context(), tasks.Task{ID: 7, Class: "Echo", Data: c.data}, nil)
		hasData := fmt.Sprintf(`"hasData":%t}`, c.data != nil)
		want(t, got, tasks.Failed, hasData+hex.EncodeToString(c.data))
		if !strings.HasSuffix(got.Reason, hasData+hex.EncodeToString(c.data)) {
			t.Errorf("%s: PHP got more than the data", c.name)
		}
	}
}

// bytesOf answers n bytes of all values.
func bytesOf(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func TestTheColumnsOfATaskReachPHP(t *testing.T) {
	p, _ := startReady(t, Config{})
	object, failed := "PHID-TASK-é", int64(1700000003)
	prior := "(retry):1:1"
	got := p.Execute(t.Context(), tasks.Task{
		ID: 9007199254740993, Class: "Echo", Priority: 4000, ObjectPHID: &object,
		FailureCount: 3, FailureTime: &failed, DateCreated: 1700000001, DateModified: 1700000002,
		Place: tasks.Place{Owner: &prior},
		Lease: &tasks.Lease{Owner: "gantry:1:1:n:h", Expires: 1700000060},
	}, nil)
	want(t, got, tasks.Failed, `{"id":9007199254740993,"taskClass":"Echo","leaseOwner":"gantry:1:1:n:h","leaseExpires":1700000060,`+
		`"failureCount":3,"failureTime":1700000003,"priority":4000,"objectPHID":"PHID-TASK-é","containerPHID":null,`+
		`"dateCreated":1700000001,"dateModified":1700000002,"hasData":false}`)
}

func TestAnOutcomeTravelsWhole(t *testing.T) {
	p, _ := startReady(t, Config{})
	got := run(t.Context(), p, map[string]any{"do": "outcome", "text": `{"kind":"succeeded","wait":0,"category":"","reason":"é","durationUs":1500,"uncaught":false,"followUps":[
		{"taskClass":"B","data":"[]","priority":1000,"objectPHID":"PHID-1","containerPHID":"PHID-2","delayUntil":1700000000}]}`})
	want := tasks.Outcome{Kind: tasks.Succeeded, Reason: "é", Duration: 1500 * time.Microsecond, FollowUps: []tasks.NewTask{
		{Class: "B", Data: []byte("[]"), Priority: new(1000), ObjectPHID: new("PHID-1"), ContainerPHID: new("PHID-2"), DelayUntil: 1700000000},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnOutcomeThatMakesNoSenseIsAFailedAttemptAndItsProcessIsReplaced(t *testing.T) {
	p, _ := startReady(t, Config{})
	for _, text := range []string{`null`, `{"kind":"declined"}`, `{"kind":""}`, `{"kind":"retry","wait":1.5}`} {
		before := pids(p, Idle)[0]
		got := run(t.Context(), p, map[string]any{"do": "outcome", "text": text})
		want(t, got, tasks.Retry, "it answered an outcome that cannot be read: ")
		if got.Category != tasks.CategoryOutcome || got.Wait != tasks.DefaultWait {
			t.Errorf("%s became %+v", text, got)
		}
		eventually(t, "another process is ready", func() bool { now := pids(p, Idle); return len(now) == 1 && now[0] != before })
	}
}

func TestATaskThatRequiresALeaseBeginsWhenItHasIt(t *testing.T) {
	p, _ := startReady(t, Config{})
	var required time.Duration
	got := p.Execute(t.Context(), taskOf(map[string]any{"do": "lease", "times": 86400}), func(lease time.Duration) { required = lease })
	want(t, got, tasks.Succeeded, `{"type":"leased","request":"`)
	if required != 24*time.Hour {
		t.Errorf("required %v", required)
	}
}

func TestATaskWhoseLeaseDoesNotComeNeverBegins(t *testing.T) {
	p, _ := startReady(t, Config{})
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		got := p.Execute(ctx, taskOf(map[string]any{"do": "lease", "times": 86400}), func(time.Duration) { cancel() })
		want(t, got, tasks.Released, "task 7 was cancelled, so it was killed")
	}
}

func TestAnEndedContextKillsTheProcessGroupAtOnce(t *testing.T) {
	p, _ := startReady(t, Config{})
	file := filepath.Join(t.TempDir(), "program")
	ctx, cancel := context.WithCancel(t.Context())
	outcome, pid := background(t, ctx, p, map[string]any{"do": "start a program", "file": file})
	program := readPID(t, file)
	if got := pids(p, Busy); !cmp.Equal(got, []int{pid}) || p.State().Processes[0].Task != 7 {
		t.Errorf("process %d is at work, the state says %+v", pid, p.State())
	}

	cancel()
	want(t, <-outcome, tasks.Released, "task 7 was cancelled, so it was killed")
	if alive(pid) {
		t.Error("Execute returned while the process was alive")
	}
	eventually(t, "the program that the task started is gone", func() bool { return !alive(program) })
	want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
	if s := p.State(); s.Problem != "" {
		t.Errorf("a cancelled task became a problem: %s", s.Problem)
	}
}

func TestAnEndedContextStopsAWriteThatNobodyReads(t *testing.T) {
	p, _ := newFake(t, "deaf").start(Config{})
	ctx, cancel := context.WithCancel(t.Context())
	outcome := make(chan tasks.Outcome, 1)
	go func() { outcome <- p.Execute(ctx, tasks.Task{ID: 7, Class: "Do", Data: bytesOf(1 << 20)}, nil) }()
	eventually(t, "the task is at a process", func() bool { return len(pids(p, Busy)) == 1 })
	cancel()
	want(t, <-outcome, tasks.Released, "")
}

func TestAContextThatEndedBeforeHarmsNobody(t *testing.T) {
	p, _ := startReady(t, Config{})
	before := pids(p, Idle)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, run(ctx, p, map[string]any{}), tasks.Released, "cancelled before it started")
	if now := pids(p, Idle); !cmp.Equal(now, before) {
		t.Errorf("process %d became %d", before, now)
	}
}

func TestWhatComesTooLateForATaskHarmsNotTheNext(t *testing.T) {
	p, _ := newFake(t, "deaf").start(Config{LeaveTimeout: time.Millisecond})
	outcome := make(chan tasks.Outcome, 1)
	go func() { outcome <- run(t.Context(), p, map[string]any{}) }()
	r := p.processes[0]
	eventually(t, "the next task is in the pipe", func() bool { return waiting(r.requests) > 0 })
	before := newCall(tasks.Task{ID: 6})
	r.interrupt(before)
	r.insist(before)
	if end := r.ending(); end != itself {
		t.Errorf("the process was killed: %d", end)
	}
	p.Close()
	want(t, <-outcome, tasks.Released, "cut short: ")
}

func TestATaskThatWaitsForAProcessCanBeCancelled(t *testing.T) {
	p, _ := startReady(t, Config{})
	file := filepath.Join(t.TempDir(), "end")
	first, _ := background(t, t.Context(), p, map[string]any{"do": "wait for file", "file": file})
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan tasks.Outcome, 1)
	go func() { second <- run(ctx, p, map[string]any{}) }()
	eventually(t, "the second task waits", func() bool { return p.State().Waiting == 1 })
	cancel()
	want(t, <-second, tasks.Released, "cancelled before it started")
	writePID(file, 1)
	want(t, <-first, tasks.Succeeded, "")
	want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
}

func TestAProcessThatComesForATaskThatWasCancelledIsFreeAgain(t *testing.T) {
	p, _ := startReady(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 { // whichever of the two is seen first
		if r, _ := p.acquire(ctx, 7); r != nil {
			p.mu.Lock()
			p.free(r)
			p.mu.Unlock()
		}
		if len(pids(p, Idle)) != 1 {
			t.Fatalf("state %+v", p.State())
		}
	}
}

func TestDataThatNoFrameHoldsIsRefused(t *testing.T) {
	p, _ := startReady(t, Config{})
	got := p.Execute(t.Context(), tasks.Task{ID: 7, Class: "Do", Data: make([]byte, maxBody+1)}, nil)
	want(t, got, tasks.Retry, "task 7 has 268435457 bytes of data; a PHP process takes 268435456")
	want(t, run(t.Context(), p, map[string]any{}), tasks.Succeeded, "")
}

func TestFollowUpDataIsExactBytes(t *testing.T) {
	data := `"` + strings.Repeat(`\ud83e\udd8e\/`, 1000) + `é 🦎` + `"`
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := startReady(t, Config{})
	got := run(t.Context(), p, map[string]any{"do": "outcome", "text": `{"kind":"succeeded","followUps":[{"taskClass":"A","data":` + string(text) + `}]}`})
	if len(got.FollowUps) != 1 || string(got.FollowUps[0].Data) != data {
		t.Errorf("got %+v", got)
	}
}
