package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/tasks"
)

// TestAsPHP holds what PhabricatorTestWorker was observed to come to on PHP
// 8.2, going through the steps of PhabricatorWorkerActiveTask::executeTask.
func TestAsPHP(t *testing.T) {
	const (
		ok        = tasks.Succeeded
		temporary = tasks.Retry
		permanent = tasks.Failed
	)
	def := plugins.DefaultWait
	for _, c := range []struct {
		name     string
		failures int
		data     string
		kind     tasks.Kind
		wait     time.Duration // of a temporary failure
	}{
		{"no duration", 0, `{"duration":0}`, ok, 0},
		{"a duration as a string", 0, `{"duration":"0.01"}`, ok, 0},
		{"a duration of \"0.0\", which is true and no time", 0, `{"duration":"0.0"}`, ok, 0},
		{"a duration in white space", 0, `{"duration":" 0.01 "}`, ok, 0},
		{"an empty duration", 0, `{"duration":""}`, ok, 0},
		{"a null duration", 0, `{"duration":null}`, ok, 0},
		{"a false duration", 0, `{"duration":false}`, ok, 0},
		{"an empty list for a duration", 0, `{"duration":[]}`, ok, 0},
		{"a duration that is no number", 0, `{"duration":"abc"}`, temporary, def},
		{"a duration that begins with a number", 0, `{"duration":"0.2s"}`, temporary, def},
		{"a list for a duration", 0, `{"duration":[1]}`, temporary, def},
		{"a map for a duration", 0, `{"duration":{"a":1}}`, temporary, def},
		{"a negative duration", 0, `{"duration":-1}`, temporary, def},
		{"an endless duration", 0, `{"duration":1e30}`, temporary, def},

		{"a temporary failure", 0, `{"doWork":"fail-temporary"}`, temporary, def},
		{"a permanent failure", 0, `{"doWork":"fail-permanent"}`, permanent, 0},
		{"some other work", 0, `{"doWork":"other"}`, ok, 0},
		{"work in another spelling", 0, `{"doWork":"Fail-Temporary"}`, ok, 0},
		{"work 0", 0, `{"doWork":0}`, ok, 0},
		{"work true, which equals any text", 0, `{"doWork":true}`, temporary, def},
		{"a list for work", 0, `{"doWork":["fail-temporary"]}`, ok, 0},
		{"null for work", 0, `{"doWork":null}`, ok, 0},

		{"an empty map", 0, `{}`, ok, 0},
		{"an empty list, as PHP writes an empty map", 0, `[]`, ok, 0},
		{"a list", 0, `[1,2]`, ok, 0},
		{"null", 0, `null`, temporary, def},
		{"a number", 0, `5`, temporary, def},
		{"a string", 0, `"x"`, temporary, def},
		{"true", 0, `true`, temporary, def},
		{"cut JSON", 0, `{"a":`, temporary, def},
		{"no data", 0, ``, temporary, def},

		{"a retry count that is reached", 3, `{"getMaximumRetryCount":3,"doWork":"fail-temporary"}`, temporary, def},
		{"a retry count that is passed", 4, `{"getMaximumRetryCount":3,"doWork":"fail-temporary"}`, permanent, 0},
		{"a retry count as a string, reached", 3, `{"getMaximumRetryCount":"3"}`, ok, 0},
		{"a retry count as a string, passed", 4, `{"getMaximumRetryCount":"3"}`, permanent, 0},
		{"a retry count in white space", 4, `{"getMaximumRetryCount":" 3 "}`, permanent, 0},
		{"a retry count with an exponent", 4, `{"getMaximumRetryCount":"3e0"}`, permanent, 0},
		{"a retry count compared as text, smaller", 4, `{"getMaximumRetryCount":"3x"}`, permanent, 0},
		{"a retry count compared as text, greater", 4, `{"getMaximumRetryCount":"abc"}`, ok, 0},
		{"an empty retry count", 0, `{"getMaximumRetryCount":""}`, permanent, 0},
		{"a retry count of true", 4, `{"getMaximumRetryCount":true}`, ok, 0},
		{"a retry count of false, reached", 0, `{"getMaximumRetryCount":false}`, ok, 0},
		{"a retry count of false, passed", 1, `{"getMaximumRetryCount":false}`, permanent, 0},
		{"a null retry count", 4, `{"getMaximumRetryCount":null}`, ok, 0},
		{"a fractional retry count, reached", 1, `{"getMaximumRetryCount":1.5}`, ok, 0},
		{"a fractional retry count, passed", 2, `{"getMaximumRetryCount":1.5}`, permanent, 0},
		{"an empty list for a retry count", 4, `{"getMaximumRetryCount":[]}`, ok, 0},
		{"a map for a retry count", 4, `{"getMaximumRetryCount":{"a":1}}`, ok, 0},
		{"a negative retry count", 0, `{"getMaximumRetryCount":-1}`, permanent, 0},
		{"no retries, first attempt", 0, `{"getMaximumRetryCount":0}`, ok, 0},
		{"no retries, second attempt", 1, `{"getMaximumRetryCount":0}`, permanent, 0},

		{"a lease that is no number", 0, `{"getRequiredLeaseTime":"abc"}`, temporary, def},
		{"a lease that begins with a number", 0, `{"getRequiredLeaseTime":"60s"}`, temporary, def},
		{"a list for a lease", 0, `{"getRequiredLeaseTime":[]}`, temporary, def},
		{"an empty lease", 0, `{"getRequiredLeaseTime":""}`, temporary, def},
		{"a null lease", 0, `{"getRequiredLeaseTime":null}`, ok, 0},

		{"a wait", 0, `{"doWork":"fail-temporary","getWaitBeforeRetry":7}`, temporary, 7 * time.Second},
		{"a wait as a string", 0, `{"doWork":"fail-temporary","getWaitBeforeRetry":"7"}`, temporary, 7 * time.Second},
		{"a fractional wait", 0, `{"doWork":"fail-temporary","getWaitBeforeRetry":7.5}`, temporary, 7500 * time.Millisecond},
		{"no wait", 0, `{"doWork":"fail-temporary","getWaitBeforeRetry":0}`, temporary, 0},
		{"a negative wait", 0, `{"doWork":"fail-temporary","getWaitBeforeRetry":-60}`, temporary, -time.Minute},
		{"a null wait", 0, `{"doWork":"fail-temporary","getWaitBeforeRetry":null}`, temporary, def},
		{"a false wait", 0, `{"doWork":"fail-temporary","getWaitBeforeRetry":false}`, temporary, 0},
		{"a true wait", 0, `{"doWork":"fail-temporary","getWaitBeforeRetry":true}`, temporary, time.Second},
		{"a wait that is not needed", 0, `{"getWaitBeforeRetry":"abc"}`, ok, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			task := tasks.Task{ID: 7, Class: "PhabricatorTestWorker", Data: []byte(c.data), FailureCount: c.failures}
			got := handler().Execute(context.Background(), task, nil)
			if got.Kind != c.kind || got.Wait != c.wait {
				t.Errorf("%s after %d failures: %s, wait %v (%s); PHP comes to %s, wait %v",
					c.data, c.failures, got.Kind, got.Wait, got.Reason, c.kind, c.wait)
			}
		})
	}
}

// Where PHP throws out of getWaitBeforeRetry it writes nothing, and the task
// stays leased for two hours. We wait the default.
func TestAWaitThatIsNoNumberIsTheDefault(t *testing.T) {
	for _, wait := range []string{`"abc"`, `[]`, `""`, `"7s"`, `1e30`} {
		task := tasks.Task{Data: []byte(`{"doWork":"fail-temporary","getWaitBeforeRetry":` + wait + `}`)}
		if got := handler().Execute(context.Background(), task, nil); got.Kind != tasks.Retry || got.Wait != plugins.DefaultWait {
			t.Errorf("wait %s: %s, %v", wait, got.Kind, got.Wait)
		}
	}
}

func TestRequiredLeaseTime(t *testing.T) {
	for data, want := range map[string]time.Duration{
		`{"getRequiredLeaseTime":60}`:   time.Minute,
		`{"getRequiredLeaseTime":"60"}`: time.Minute,
		`{"getRequiredLeaseTime":true}`: time.Second,
		`{"getRequiredLeaseTime":0}`:    0,
		`{"getRequiredLeaseTime":-5}`:   0, // PHP would expire its own lease
		`{"getRequiredLeaseTime":null}`: 0,
		`{"duration":0}`:                0,
		`null`:                          0,
	} {
		var got time.Duration
		handler().Execute(context.Background(), tasks.Task{Data: []byte(data)}, func(lease time.Duration) { got = lease })
		if got != want {
			t.Errorf("%s requires %v, want %v", data, got, want)
		}
	}
}

func TestSleepEndsWhenTheTaskIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := doWork(ctx, &plugins.Task{Data: []byte(`{"duration":3600}`)})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled task answered %v", err)
	}
}
