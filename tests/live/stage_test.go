package live

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/contract"
	contractstage "github.com/phorge-gantry/gantry/contract/stage"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// webhookCase calls the webhook at a URI about a task.
func webhookCase(uri string, answers ...contract.Answer) contract.Case {
	const (
		hook    = "PHID-HWBH-aaaaaaaaaaaaaaaaaaaa"
		request = "PHID-HWBR-aaaaaaaaaaaaaaaaaaaa"
		object  = "PHID-TASK-aaaaaaaaaaaaaaaaaaaa"
	)
	return contract.Case{
		Name: "webhook", TaskClass: harness.WebhookWorker, Data: `{"webhookRequestPHID":"` + request + `"}`,
		World: contract.World{
			Options:   map[string]any{"security.outbound-blacklist": []any{}},
			Receivers: map[string]contract.Receiver{"hook": {Answers: answers}, "tls": {TLS: true}},
			Rows: map[string][]contract.Row{
				"herald.herald_webhook": {{
					"phid": hook, "name": "Hook", "webhookURI": uri, "status": "firehose", "hmacKey": "key",
					"viewPolicy": "users", "editPolicy": "admin",
				}},
				"herald.herald_webhookrequest": {{
					"phid": request, "webhookPHID": hook, "objectPHID": object, "status": "queued", "lastRequestResult": "none",
					"properties":  `{"retry":"never","triggerPHIDs":[],"transactionPHIDs":[],"silent":false,"test":false,"secure":false}`,
					"dateCreated": 1000000,
				}},
				"maniphest.maniphest_task": {{
					"phid": object, "authorPHID": "PHID-USER-aaaaaaaaaaaaaaaaaaaa", "title": "Something", "status": "open",
					"viewPolicy": "public", "editPolicy": "public", "properties": "[]",
				}},
			},
		},
	}
}

// saved answers the columns that PHP left in the request.
func saved(o contract.Observation) map[string]string {
	columns := map[string]string{}
	for _, c := range o.Changes {
		if c.Table == "herald.herald_webhookrequest" {
			for name, values := range c.Columns {
				columns[name] = *values.After
			}
		}
	}
	return columns
}

// failedWith reports whether the request failed with an error of that type and
// code.
func failedWith(o contract.Observation, failure string) bool {
	return saved(o)["status"] == "failed" && strings.HasSuffix(saved(o)["properties"], `,"errorType":`+failure+`}`)
}

func TestPHPIsObservedOnAStageAndLeavesNothing(t *testing.T) {
	p := harness.Live(t)
	before, err := p.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := contractstage.Open(t.Context(), contractstage.Config{DSN: p.Server().DSN(""), Namespace: p.Namespace()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	php := contractstage.NewPHP(p.Phorge, zerolog.Nop())
	defer php.Close()
	run := func(c contract.Case) contract.Observation {
		t.Helper()
		o, err := s.Run(t.Context(), c, php)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}

	o := run(webhookCase("http://{{receiver hook}}/x?y=%20"))
	if o.Outcome.Kind != tasks.Succeeded || len(o.Requests) != 1 || saved(o)["status"] != "sent" {
		t.Fatalf("a webhook came to %+v", o)
	}
	got := o.Requests[0]
	body := got.Body
	got.Body = ""
	maps.DeleteFunc(got.Headers, func(name, _ string) bool {
		return name == "User-Agent" || name == "Content-Length" || name == "X-Phabricator-Webhook-Signature"
	})
	want := contract.Request{Receiver: "hook", Method: "POST", Target: "/x?y=%20",
		Order: "Host, User-Agent, Accept, Content-Type, X-Phabricator-Webhook-Signature, Accept-Encoding, Content-Length", Headers: map[string]string{
			"Host": "{{receiver hook}}", "Accept": "*/*", "Accept-Encoding": "gzip", "Content-Type": "application/json",
		}}
	if diff := cmp.Diff(want, got); diff != "" || body == "" {
		t.Errorf("%s\nwith the body %q", diff, body)
	}

	locked := webhookCase("http://{{receiver hook}}/")
	locked.World.Locks = []string{"webhook(PHID-HWBH-aaaaaaaaaaaaaaaaaaaa)"}
	if o := run(locked); o.Outcome.Kind != tasks.Yielded || o.Outcome.Wait != 15 || len(o.Requests) != 0 {
		t.Errorf("somebody else holds the lock: %+v", o)
	}

	silent := webhookCase("http://{{receiver hook}}/")
	silent.World.Options["phabricator.silent"] = true
	if o := run(silent); !failedWith(o, `"hook","errorCode":"silent"`) || len(o.Requests) != 0 {
		t.Errorf("in silent mode: %+v", o)
	}

	for _, c := range []struct {
		name, failure string
		c             contract.Case
	}{
		{"a status", `"http","errorCode":404`, webhookCase("http://{{receiver hook}}/", contract.Answer{Status: 404})},
		{"a reset", `"http","errorCode":56`, webhookCase("http://{{receiver hook}}/", contract.Answer{Reset: true})},
		{"an end", `"http","errorCode":52`, webhookCase("http://{{receiver hook}}/", contract.Answer{Close: true})},
		{"nobody there", `"http","errorCode":7`, webhookCase("http://{{closed}}/")},
		{"a certificate that nobody trusts", `"http","errorCode":60`, webhookCase("https://{{receiver tls}}/")},
		{"an answer too late", `"timeout","errorCode":28`, webhookCase("http://{{receiver hook}}/", contract.Answer{Delay: time.Hour})},
	} {
		o := run(c.c)
		if o.Outcome.Kind != tasks.Failed || !failedWith(o, c.failure) {
			t.Errorf("%s: %+v with %+v", c.name, o.Outcome, saved(o))
		}
	}

	if o := run(webhookCase("http://{{receiver hook}}/")); saved(o)["status"] != "sent" {
		t.Errorf("after all that: %+v", o)
	}
	if err := php.Close(); err != nil {
		t.Error(err)
	}
	after, err := p.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left := after.Changes(before).Rows; len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
