package conduit

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestAnOutcomeIsReadWhole(t *testing.T) {
	got, err := parseOutcome([]byte(`{"kind":"succeeded","wait":0,"category":"","reason":"é\ud83d\ude00","durationUs":1500,"uncaught":false,"followUps":[
		{"taskClass":"A","data":"{\"opts\":{},\"n\":9007199254740993,\"f\":1.0}","priority":3500,"objectPHID":"PHID-TASK-x","containerPHID":null,"delayUntil":1900000000},
		{"taskClass":"B","data":"13","priority":null,"objectPHID":null,"containerPHID":"PHID-PROJ-y","delayUntil":null}]}`))
	if err != nil {
		t.Fatal(err)
	}
	priority, object, container := 3500, "PHID-TASK-x", "PHID-PROJ-y"
	want := tasks.Outcome{
		Kind: tasks.Succeeded, Reason: "é😀", Duration: 1500 * time.Microsecond,
		FollowUps: []tasks.NewTask{
			{Class: "A", Data: []byte(`{"opts":{},"n":9007199254740993,"f":1.0}`), Priority: &priority, ObjectPHID: &object, DelayUntil: 1900000000},
			{Class: "B", Data: []byte("13"), ContainerPHID: &container},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOutcomesOfEachKind(t *testing.T) {
	for _, c := range []struct {
		text string
		want tasks.Outcome
	}{
		{`{"kind":"yielded","wait":15,"category":"yield"}`, tasks.Outcome{Kind: tasks.Yielded, Wait: 15 * time.Second, Category: "yield"}},
		{`{"kind":"retry","wait":-60,"category":"exception","reason":"no"}`, tasks.Outcome{Kind: tasks.Retry, Wait: -time.Minute, Category: "exception", Reason: "no"}},
		{`{"kind":"failed","category":"permanent","durationUs":-5}`, tasks.Outcome{Kind: tasks.Failed, Category: "permanent"}},
		{`{"kind":"retry","wait":9223372036854775807}`, tasks.Outcome{Kind: tasks.Retry, Wait: 9223372036 * time.Second}},
	} {
		got, err := parseOutcome([]byte(c.text))
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", c.text, err, diff)
		}
	}
	for _, text := range []string{`{}`, `[]`, `null`, `"succeeded"`, `[1]`, ``, `{"kind":"crashed"}`, `{"kind":"Succeeded"}`,
		`{"kind":"retry","wait":1.5}`, `{"kind":"succeeded","followUps":{"0":{}}}`} {
		if got, err := parseOutcome([]byte(text)); err == nil {
			t.Errorf("%s became %+v", text, got)
		}
	}
}

func TestB21EmptyListsAndMapsAreAcceptedForEachOther(t *testing.T) {
	asked := []taskRef{{ID: 5, LeaseOwner: "o"}}
	for _, text := range []string{
		`{"protocol":1,"tasks":[{"id":5,"leaseOwner":"o","state":"done","outcome":{"kind":"succeeded","followUps":{}}}]}`,
		`{"protocol":1,"tasks":[{"id":5,"leaseOwner":"o","state":"done","outcome":{"kind":"succeeded","followUps":[]}}]}`,
		`{"protocol":1,"tasks":[{"id":5,"leaseOwner":"o","state":"done","outcome":{"kind":"succeeded","followUps":{ }}}]}`,
		`{"protocol":1,"tasks":[{"id":5,"leaseOwner":"o","state":"done","outcome":{"kind":"succeeded","followUps":null}}]}`,
	} {
		found, err := parseReceipts([]byte(text), asked)
		if err != nil {
			t.Fatal(err)
		}
		if outcome, err := parseOutcome(found[asked[0]].Outcome); err != nil || outcome.Kind != tasks.Succeeded || len(outcome.FollowUps) > 0 {
			t.Errorf("%s: %+v %v", text, outcome, err)
		}
	}
	for _, text := range []string{`{"protocol":1,"tasks":{}}`, `{"protocol":1,"tasks":[]}`} {
		if found, err := parseReceipts([]byte(text), nil); err != nil || len(found) > 0 {
			t.Errorf("%s: %v %v", text, found, err)
		}
	}
}

func TestB50WholeNumbersMayComeInEachForm(t *testing.T) {
	for text, want := range map[string]integer{
		"13": 13, "13.0": 13, `"13"`: 13, `"13.0"`: 13, "1.3e1": 13, "null": 0, "-4": -4, "0": 0,
		"9223372036854775807": 9223372036854775807, "9007199254740992.0": 1 << 53,
	} {
		var got struct{ N integer }
		if err := json.Unmarshal([]byte(`{"N":`+text+`}`), &got); err != nil || got.N != want {
			t.Errorf("%s became %d, %v", text, got.N, err)
		}
	}
	for _, text := range []string{"13.5", `"x"`, `""`, "true", "{}", "[]", "1e30", "9223372036854775808", `"NaN"`, `"Inf"`, "9007199254740994.0"} {
		var got struct{ N integer }
		if err := json.Unmarshal([]byte(`{"N":`+text+`}`), &got); err == nil {
			t.Errorf("%s became %d", text, got.N)
		}
	}
}

func TestOneReceiptThatCannotBeReadSpoilsNoOther(t *testing.T) {
	asked := []taskRef{{ID: 1, LeaseOwner: "a"}, {ID: 2, LeaseOwner: "b"}, {ID: 3, LeaseOwner: "c"}}
	found, err := parseReceipts([]byte(`{"protocol":1,"tasks":[
		{"id":"1","leaseOwner":"a","state":"running","outcome":[]},
		{"id":2,"leaseOwner":"B","state":"running"},
		{"id":3.0,"leaseOwner":"c","state":"dead","outcome":null}]}`), asked)
	if err == nil || !strings.Contains(err.Error(), "task 2") {
		t.Errorf("error %v", err)
	}
	if len(found) != 2 || found[asked[0]].State != stateRunning || found[asked[2]].State != stateDead {
		t.Errorf("found %v", found)
	}
}

func FuzzEnvelope(f *testing.F) {
	f.Add(200, "application/json; charset=UTF-8", `{"result":{"a":[]},"error_code":null,"error_info":null}`)
	f.Add(200, "application/json", `{"result":null,"error_code":"ERR-CONDUIT-CORE","error_info":{}}`)
	f.Add(200, "application/json", `for (;;);{"result":null,"error_code":null}`)
	f.Add(502, "text/html", `<title>Bad`)
	f.Add(200, "text/html", "<TITLE lang=x>\n Login </TITLE>")
	f.Fuzz(func(t *testing.T, status int, contentType, content string) {
		e, err := parseEnvelope(status, http.Header{"Content-Type": {contentType}}, []byte(content))
		if err != nil {
			if len(err.Error()) > 2000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		var whole struct {
			Result json.RawMessage `json:"result"`
			Code   *string         `json:"error_code"`
		}
		switch err := json.Unmarshal([]byte(content), &whole); {
		case err != nil || status != 200 || !strings.Contains(strings.ToLower(contentType), "application/json"):
			t.Errorf("%d %q %q was taken for an envelope: %v", status, contentType, content, err)
		case e.code == "" && !json.Valid(e.result):
			t.Errorf("the result %q is no JSON", e.result)
		}
	})
}

func FuzzReceipts(f *testing.F) {
	f.Add(`{"protocol":1,"tasks":[{"id":5,"leaseOwner":"o","state":"done","outcome":` + succeeded + `,"code":"","reason":""}]}`)
	f.Add(`{"protocol":"1.0","tasks":[{"id":5,"leaseOwner":"o","state":"refused","code":"not-leased","reason":"x"}]}`)
	f.Add(`{"protocol":1,"tasks":[{"id":5,"leaseOwner":"o","state":"done","outcome":{"kind":"succeeded","followUps":[{"priority":"2000","data":"{}","delayUntil":1e9}]}}]}`)
	f.Add(`[]`)
	f.Add(`{"protocol":1,"tasks":{}}`)
	asked := []taskRef{{ID: 5, LeaseOwner: "o"}}
	f.Fuzz(func(t *testing.T, text string) {
		found, err := parseReceipts([]byte(text), asked)
		r := found[asked[0]]
		if (r == nil) != (err != nil) {
			t.Fatalf("receipt %v, error %v", r, err)
		}
		if r == nil {
			return
		}
		if r.ID != 5 || r.LeaseOwner != "o" || !json.Valid([]byte(text)) {
			t.Errorf("%q was taken for a receipt", text)
		}
		outcome, err := parseOutcome(r.Outcome)
		if err != nil {
			return
		}
		if outcome.Duration < 0 || outcome.Wait.Truncate(time.Second) != outcome.Wait {
			t.Errorf("duration %v, wait %v", outcome.Duration, outcome.Wait)
		}
		switch outcome.Kind {
		case tasks.Succeeded, tasks.Yielded, tasks.Retry, tasks.Failed:
		default:
			t.Errorf("kind %q", outcome.Kind)
		}
	})
}
