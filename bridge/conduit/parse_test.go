package conduit

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestB21AnEmptyListOfTasksMayBeAnEmptyMap(t *testing.T) {
	for _, text := range []string{`{"protocol":1,"tasks":{}}`, `{"protocol":1,"tasks":[]}`} {
		if found, err := parseReceipts([]byte(text), nil); err != nil || len(found) > 0 {
			t.Errorf("%s: %v %v", text, found, err)
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
	})
}
