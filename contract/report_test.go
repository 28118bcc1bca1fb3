package contract

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func someReport() Report {
	php := "{\n  \"a\": 1,\n  \"b\": 1,\n  \"c\": 1,\n  \"d\": 1,\n  \"e\": 1,\n  \"f\": [],\n  \"g\": 1\n}\n"
	ours := strings.TrimSuffix(strings.Replace(php, "[]", "{}", 1), "\n")
	return Report{Name: "cases/herald", Results: []Result{
		{Case: Case{Name: "sent", TaskClass: "HeraldWebhookWorker"}, Duration: 1500 * time.Millisecond},
		{
			Case: Case{Name: "payload", TaskClass: "HeraldWebhookWorker", About: "A payload without transactions."}, Duration: 250 * time.Millisecond,
			Differences: []Difference{
				{"outcome.kind", new("failed"), new("succeeded")},
				{"requests[1].headers[Expect]", nil, new("")},
				{"requests[1].body", &php, &ours},
				{"requests[1].target", new("/this/is/a/long/target/with/a/lot/in/it?and=a&query=1"), new("/this/is/a/long/target/with/a/lot/in/it?and=a&query=2")},
				{"requests[1].headers[A]", new(strings.Repeat("0123456789", 10) + "a"), new(strings.Repeat("0123456789", 10) + "b")},
				{"changes[a.b 1].raw.after", new("\xff\x00"), new("\x1b[31mé")},
				{"changes[a.b 1].lines.after", new("a \nb\r\n"), new("a\nb\n")},
				{"changes[a.b 2]", new("table: a.b\nkind: removed\nkey: \"2\"\n"), nil},
			},
			Reasons: []Reason{{"PHP", "Exception: no\x1b"}, {"Go", "panic: nil map\nmain.handle\n\t/x.go:7"}},
			Printed: []string{"looking", "\x1b[31mfound"},
			Shrunk: &Shrunk{
				Case{Name: "payload-small", TaskClass: "HeraldWebhookWorker", Data: `{"a":1}`},
				[]Difference{{"outcome.kind", new("failed"), new("succeeded")}},
			},
		},
		{Case: Case{Name: "declared", TaskClass: "A", Deviation: &Deviation{ID: "x", Reason: "x"}}, Differences: []Difference{{"outcome.wait", new("15"), new("0")}}},
		{Case: Case{Name: "old", TaskClass: "A"}, Err: fmt.Errorf("%w; record", ErrChanged)},
		{Case: Case{Name: "broken", TaskClass: "A", Declines: true}, Err: errors.New("the receiver\nis gone \x00")},
	}}
}

const someText = `payload (HeraldWebhookWorker)
  A payload without transactions.
  outcome.kind
    - PHP: "failed"
    + Go:  "succeeded"
  requests[1].headers[Expect]
    - PHP: nothing
    + Go:  ""
  requests[1].body
    --- PHP
    +++ Go
    @@ 3 equal lines @@
       "c": 1,
       "d": 1,
       "e": 1,
    -  "f": [],
    +  "f": {},
       "g": 1
     }
    +\ No newline at the end
  requests[1].target
    - PHP: "/this/is/a/long/target/with/a/lot/in/it?and=a&query=1"
    + Go:  "/this/is/a/long/target/with/a/lot/in/it?and=a&query=2"
                                                                ^
  requests[1].headers[A]
    - PHP: "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789a"
    + Go:  "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789b"
      equal up to …012345678901234567890123456789
  changes[a.b 1].raw.after
    - PHP: "\xff\x00"
    + Go:  "\x1b[31mé"
  changes[a.b 1].lines.after
    --- PHP
    +++ Go
    -"a \n"
    -"b\r\n"
    +"a\n"
    +"b\n"
  changes[a.b 2]
    - PHP:
    -   table: a.b
    -   kind: removed
    -   key: "2"
    + Go:  nothing
  Why, in their own words, which are not compared:
    PHP: Exception: no\x1b
    Go: panic: nil map
    main.handle
    \t/x.go:7
  The handler printed:
    looking
    \x1b[31mfound
  A smaller case differs in this way, too. It stands for itself, so put it into a folder without world.yaml:
    cases:
      - name: payload-small
        taskClass: HeraldWebhookWorker
        data: '{"a":1}'
  It differs in
    outcome.kind
      - PHP: "failed"
      + Go:  "succeeded"

declared (A)
  outcome.wait
    - Declared: "15"
    + Go:       "0"

old (A)
  the case was changed after it was recorded; record

broken (A)
  could not run: the receiver
    is gone \x00

cases/herald: 5 cases, 1 equal, 2 different, 1 could not run, 1 changed after the record
`

func TestAReportIsForPeople(t *testing.T) {
	var b bytes.Buffer
	if err := someReport().Text(&b, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(someText, b.String()); diff != "" {
		t.Error(diff)
	}
	b.Reset()
	if err := someReport().Text(&b, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{bold + "payload (HeraldWebhookWorker)" + reset, red + `- PHP: "failed"` + reset, green + `+ Go:  "succeeded"` + reset} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	if plain := strings.NewReplacer(bold, "", red, "", green, "", reset, "").Replace(b.String()); plain != someText {
		t.Error("with colours the text is another")
	}
	b.Reset()
	equal := Report{Name: "x", Results: someReport().Results[:1]}
	if err := equal.Text(&b, false); err != nil || b.String() != "x: 1 case, 1 equal\n" || !equal.OK() || someReport().OK() {
		t.Errorf("%v %q", err, b.String())
	}
}

func TestAReportIsForPrograms(t *testing.T) {
	var b bytes.Buffer
	if err := someReport().JSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		OK                                 bool
		Equal, Different, Failed, Outdated int
		Cases                              []struct {
			Case, TaskClass, Status, Wanted, Error, Shrunk string
			Seconds                                        float64
			Differences                                    []struct {
				Field     string
				Want, Got any
			}
			Reasons []Reason
			Printed []string
		}
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.OK || got.Equal != 1 || got.Different != 2 || got.Failed != 1 || got.Outdated != 1 || len(got.Cases) != 5 {
		t.Errorf("%s", b.Bytes())
	}
	payload := got.Cases[1]
	if d := payload.Differences[1]; payload.Wanted != "PHP" || payload.Status != "different" || payload.Seconds != 0.25 || d.Want != nil || d.Got != "" {
		t.Errorf("%+v", payload)
	}
	if payload.Reasons[1].Text != "panic: nil map\nmain.handle\n\t/x.go:7" || len(payload.Printed) != 2 {
		t.Errorf("why Go did so is not told: %+v", payload)
	}
	if diff := cmp.Diff(map[string]any{"base64": "/wA="}, payload.Differences[5].Want); diff != "" || payload.Differences[5].Got != "\x1b[31mé" {
		t.Error("bytes are not kept:", diff)
	}
	if got.Cases[2].Wanted != "Declared" || got.Cases[4].Wanted != "Wanted" || got.Cases[4].Error != "the receiver\nis gone \x00" || !strings.Contains(payload.Shrunk, `data: '{"a":1}'`) {
		t.Errorf("%+v", got.Cases[2:])
	}
}

func TestAReportIsForCI(t *testing.T) {
	var b bytes.Buffer
	if err := someReport().JUnit(&b); err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Tests    string `xml:"tests,attr"`
		Failures string `xml:"failures,attr"`
		Errors   string `xml:"errors,attr"`
		Time     string `xml:"time,attr"`
		Cases    []struct {
			Class   string `xml:"classname,attr"`
			Name    string `xml:"name,attr"`
			Time    string `xml:"time,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
				Text    string `xml:",chardata"`
			} `xml:"failure"`
			Error *struct {
				Message string `xml:"message,attr"`
			} `xml:"error"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal(b.Bytes(), &suite); err != nil {
		t.Fatal(err)
	}
	if suite.Tests != "5" || suite.Failures != "2" || suite.Errors != "2" || suite.Time != "1.750" || len(suite.Cases) != 5 {
		t.Errorf("%s", b.Bytes())
	}
	payload := suite.Cases[1]
	if payload.Failure == nil || !strings.HasPrefix(payload.Failure.Message, "outcome.kind, requests[1]") || payload.Class != "cases/herald.HeraldWebhookWorker" || payload.Name != "payload" {
		t.Errorf("%s", b.Bytes())
	}
	if !strings.HasPrefix(someText, payload.Failure.Text) {
		t.Errorf("the failure does not say what a person reads: %s", payload.Failure.Text)
	}
	if suite.Cases[0].Failure != nil || suite.Cases[0].Error != nil || suite.Cases[4].Error == nil || suite.Cases[4].Error.Message != "the receiver\nis gone \\x00" {
		t.Errorf("%s", b.Bytes())
	}
	if bytes.ContainsAny(b.Bytes(), "\x00\x1b") || bytes.Contains(b.Bytes(), []byte("\uFFFD")) {
		t.Error("characters stand in it that XML does not have, or were lost")
	}
}

func TestALongReasonIsCutInTheMiddle(t *testing.T) {
	lines := make([]string, 1000)
	for i := range lines {
		lines[i] = fmt.Sprint("line ", i)
	}
	lines[0] += strings.Repeat("é", 1000)
	text := Reason{"Go", strings.Join(lines, "\n")}.bounded()
	if !strings.HasPrefix(text, "line 0é") || !strings.HasSuffix(text, "\nline 999") || !strings.Contains(text, "… 960 more lines …") || len(text) > maxLines*maxBytes {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}
