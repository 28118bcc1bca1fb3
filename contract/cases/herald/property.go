// Package herald generates cases of HeraldWebhookWorker. The cases that were
// recorded are in the files beside it.
package herald

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/draw"
)

const (
	request = "PHID-HWBR-one00000000000000000"
	hook    = "PHID-HWBH-one00000000000000000"
	other   = "PHID-HWBH-two00000000000000000"
	task    = "PHID-TASK-one00000000000000000"
	paste   = "PHID-PSTE-one00000000000000000"
)

// transactions are PHIDs of transactions that there can be.
var transactions = []string{"PHID-XACT-TASK-one000000000000", "PHID-XACT-TASK-two000000000000", "PHID-XACT-TASK-three0000000000"}

// Generate answers a case: a request of a webhook, mostly one that is sent, and
// a receiver. It stays away from what DEVIATIONS.md declares.
func Generate(t *rapid.T) contract.Case {
	c := contract.Case{Name: "property", TaskClass: "HeraldWebhookWorker", Data: data(t)}
	c.Task = draw.Task(t)
	c.World.Options = options(t)
	// A receiver that speaks TLS is not called without: how it hangs up then is
	// a race of its own.
	receiver, schemes := contract.Receiver{Answers: answers(t)}, append(slices.Repeat([]string{"http://"}, 15), "https://")
	if draw.Chance(t, "TLS", 5) {
		receiver.TLS, schemes = true, []string{"https://"}
	}
	c.World.Receivers = map[string]contract.Receiver{"hook": receiver}
	c.World.Rows = rows(t, schemes)
	if draw.Chance(t, "locked", 5) {
		c.World.Locks = []string{"webhook(" + draw.Pick(t, "lock", hook, hook, other) + ")"}
	}
	return c
}

func data(t *rapid.T) string {
	if draw.Chance(t, "odd data", 4) {
		return draw.Pick(t, "data", ``, `0`, `{`, `[`+quoted(request)+`]`, `{"webhookRequestPHID":[]}`, `{"webhookRequestPHID":7}`, json(t, 2))
	}
	return `{"webhookRequestPHID":` + quoted(request) + `}`
}

// options are few sets, because PHP is started anew for each.
func options(t *rapid.T) map[string]any {
	set := map[string]any{"security.outbound-blacklist": []any{}}
	if draw.Chance(t, "other options", 4) {
		switch draw.Pick(t, "options", "silent", "refused", "broken") {
		case "silent":
			set["phabricator.silent"] = true
		case "refused":
			set["security.outbound-blacklist"] = []any{"10.0.0.0/8", "127.0.0.0/8"}
		case "broken":
			set["security.outbound-blacklist"] = []any{"127.0.0.0/08"}
		}
	}
	return set
}

// answers are what a receiver says: redirects lead to itself or to nobody, since
// elsewhere PHP and Go differ.
func answers(t *rapid.T) []contract.Answer {
	list := make([]contract.Answer, rapid.IntRange(1, 4).Draw(t, "answers"))
	for i := range list {
		list[i] = answer(t)
	}
	return list
}

func answer(t *rapid.T) contract.Answer {
	a := contract.Answer{Status: draw.Pick(t, "status", 200, 200, 200, 200, 201, 204, 204, 299, 300, 301, 302, 303, 304, 307, 308, 400, 404, 500, 503, 599)}
	if draw.Chance(t, "redirect", 1) && a.Status >= 300 {
		a.Headers = map[string]string{"Location": location(t)}
	}
	switch rapid.IntRange(0, 15).Draw(t, "answer") {
	case 0:
		return contract.Answer{Reset: true}
	case 1:
		return contract.Answer{Close: true}
	case 2:
		a.Delay = 10 * time.Millisecond
	case 3:
		a.Body = "a body\r\n\r\nHTTP/1.1 500 no"
	case 4:
		a.Headers = map[string]string{"Content-Encoding": draw.Pick(t, "encoding", "gzip", "GZIP", "deflate", "identity")}
	case 5:
		a.Headers = map[string]string{"Connection": "close"}
	}
	return a
}

func location(t *rapid.T) string {
	return draw.Pick(t, "location", "", "http://{{receiver hook}}", "//{{receiver hook}}", "/", "http:/{{receiver hook}}", "HTTP://{{receiver hook}}") +
		draw.Pick(t, "path", "", "/a/b", "/a b", "x/../y", "?q=a b&c", "/é?é", "/%zz#f", "./..", "/a\tb") +
		draw.Pick(t, "end", "", "", " ", "/")
}

// rows are the request, its webhook, what it is about, and other requests.
func rows(t *rapid.T, schemes []string) map[string][]contract.Row {
	world := map[string][]contract.Row{
		"herald.herald_webhook": {webhook(t, schemes)},
		"herald.herald_webhookrequest": append([]contract.Row{{
			"phid": request, "webhookPHID": draw.Pick(t, "webhookPHID", append(slices.Repeat([]string{hook}, 15), other)...),
			"objectPHID": draw.Pick(t, "objectPHID", task, task, task, task, task, task, paste, "PHID-DASH-one00000000000000000"),
			"status":     draw.Pick(t, "request status", append(slices.Repeat([]string{"queued"}, 13), "sent", "failed", "Queued")...),
			"properties": properties(t), "lastRequestResult": draw.Pick(t, "result", "none", "fail", ""),
			"dateCreated": draw.Pick(t, "dateCreated", 0, 1, 1000000),
		}}, failures(t)...),
		"maniphest.maniphest_transaction": {},
		"paste.paste":                     {{"phid": paste, "title": "One", "status": "active"}},
		"paste.paste_transaction":         {},
		"maniphest.maniphest_task":        {},
	}
	if !draw.Chance(t, "no task", 4) {
		world["maniphest.maniphest_task"] = []contract.Row{{"phid": task, "title": "One", "status": "open", "properties": "[]"}}
	}
	for i, phid := range rapid.Permutation(transactions).Draw(t, "transactions") {
		if draw.Chance(t, "no transaction", 2) {
			continue
		}
		world["maniphest.maniphest_transaction"] = append(world["maniphest.maniphest_transaction"], contract.Row{
			"id": i + 1, "phid": phid, "objectPHID": draw.Pick(t, "of", task, task, task, "PHID-TASK-two00000000000000000"),
			"authorPHID": "PHID-USER-nobody00000000000000", "transactionType": "title", "oldValue": "null", "newValue": `"One"`,
			"contentSource": `{"source":"web","params":[]}`, "metadata": "[]",
		})
	}
	return world
}

func webhook(t *rapid.T, schemes []string) contract.Row {
	return contract.Row{
		"phid": hook, "webhookURI": uri(t, schemes),
		"status":  draw.Pick(t, "hook status", append(slices.Repeat([]string{"enabled", "firehose"}, 7), "disabled", "Disabled")...),
		"hmacKey": draw.Pick(t, "hmacKey", append(slices.Repeat([]string{"0123456789abcdef0123456789abcdef", "k", `é"\`}, 5), "")...),
	}
}

// uri is mostly one of the receiver.
func uri(t *rapid.T, schemes []string) string {
	if draw.Chance(t, "odd URI", 4) {
		return draw.Pick(t, "uri", "", "x", "http://{{closed}}/", "ftp://{{receiver hook}}/", "http:///x", "http://nosuch.invalid/",
			"http://[::1]/", "http://0/", "http://127.0.0.1:65536/", "http://127.0.0.1:0/", "https://{{receiver hook}}?x:y", "http://1.2.3.4.5/")
	}
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{"/", "a", "..", ".", "?", "&x=1", "é", "%2f", "#f", "'", "|", "~", ";", "\\", "+"}), 0, 6).Draw(t, "path")
	return draw.Pick(t, "scheme", schemes...) +
		draw.Pick(t, "login", "", "", "", "", "u@", "u:p@", "u:@", "@", "%41:%zz@") + "{{receiver hook}}" +
		draw.Pick(t, "begin", "/", "/", "/", "", "?", "#") + strings.Join(parts, "")
}

// failures are other requests, around as many as make a webhook rest.
func failures(t *rapid.T) []contract.Row {
	if !draw.Chance(t, "failures", 2) {
		return nil
	}
	list := make([]contract.Row, rapid.IntRange(7, 12).Draw(t, "failures"))
	for i := range list {
		list[i] = contract.Row{
			"phid": fmt.Sprintf("PHID-HWBR-failed%014d", i), "webhookPHID": draw.Pick(t, "of", hook, hook, hook, hook, hook, hook, hook, other),
			"status": "failed", "lastRequestResult": draw.Pick(t, "result", "fail", "fail", "fail", "fail", "fail", "fail", "fail", "okay"),
			"lastRequestEpoch": draw.Pick(t, "epoch", "{{now-1}}", "{{now-100}}", "{{now-280}}", "{{now}}", "{{now+50}}", "{{now-330}}"),
		}
	}
	return list
}

// properties are what Phorge writes, or nearly.
func properties(t *rapid.T) string {
	if draw.Chance(t, "odd properties", 5) {
		return json(t, 2)
	}
	members := []string{`"retry":` + draw.Pick(t, "retry", `"never"`, `"never"`, `"forever"`, `"forever"`, `"Forever"`, `null`, `1`)}
	add := func(key string, usual func() string) {
		switch {
		case draw.Chance(t, "no "+key, 3):
		case draw.Chance(t, "odd "+key, 3):
			members = append(members, quoted(key)+":"+json(t, 2))
		default:
			members = append(members, quoted(key)+":"+usual())
		}
	}
	add("triggerPHIDs", func() string {
		return draw.Pick(t, "triggers", `[]`, `["PHID-HRUL-one00000000000000000"]`, `["a","b"]`)
	})
	add("transactionPHIDs", func() string {
		return `["` + strings.Join(rapid.SliceOfN(rapid.SampledFrom(append(transactions, "PHID-XACT-TASK-gone00000000000")), 1, 4).Draw(t, "wanted"), `","`) + `"]`
	})
	for _, flag := range []string{"silent", "test", "secure"} {
		add(flag, func() string { return draw.Pick(t, flag, "true", "false") })
	}
	if draw.Chance(t, "more", 2) {
		members = append(members, strings.TrimSuffix(strings.TrimPrefix(object(t, 2), "{"), "}"))
	}
	members = slices.DeleteFunc(members, func(m string) bool { return m == "" })
	return "{" + strings.Join(rapid.Permutation(members).Draw(t, "members"), draw.Pick(t, "comma", ",", ",", " , ")) + "}"
}

// json is any JSON, or nearly.
func json(t *rapid.T, depth int) string {
	if depth > 0 && draw.Chance(t, "deeper", 1) {
		if draw.Chance(t, "object", 1) {
			return object(t, depth)
		}
		items := make([]string, rapid.IntRange(0, 3).Draw(t, "items"))
		for i := range items {
			items[i] = json(t, depth-1)
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	return draw.Pick(t, "value", `null`, `true`, `false`, `0`, `1`, `-0`, `1.0`, `1.5`, `1e25`, `-1e-7`, `0.1`, `12345678901234567890`, `9007199254740993`,
		`1E3`, `1e999`, `""`, `"0"`, `"a/b"`, `"é\u00e9\ud83d\ude00"`, `"\"\\\b\f\n\r\t\u0000\u2028"`, `"x y"`, `"PHID-TASK-one00000000000000000"`, `01`, `'x'`, `"\ud800"`)
}

func object(t *rapid.T, depth int) string {
	members := make([]string, rapid.IntRange(0, 3).Draw(t, "members"))
	for i := range members {
		members[i] = draw.Pick(t, "key", `"a"`, `"0"`, `"1"`, `"05"`, `"-1"`, `""`, `"x/é"`, `"errorType"`, `"errorCode"`, `"retry"`) + ":" + json(t, depth-1)
	}
	return "{" + strings.Join(members, ",") + "}"
}

func quoted(text string) string { return `"` + text + `"` }
