package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/tasks"
)

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       tasks.Outcome
	}{
		{
			"success with follow-ups",
			`{"kind":"succeeded","wait":0,"category":"","reason":"é\ud83d\ude00","durationUs":1500,"uncaught":false,"followUps":[
				{"taskClass":"A","data":"{\"n\":9007199254740993,\"f\":1.0,\"o\":{},\"s\":\"\\u00e9\\/\"}","priority":null,"objectPHID":null,"containerPHID":null,"delayUntil":null},
				{"taskClass":"B","data":"[]","priority":1000,"objectPHID":"PHID-1","containerPHID":"PHID-2","delayUntil":1700000000},
				{"taskClass":"C","data":"13","priority":"2000","delayUntil":1.9e9}]}`,
			tasks.Outcome{Kind: tasks.Succeeded, Reason: "é😀", Duration: 1500 * time.Microsecond, FollowUps: []tasks.NewTask{
				{Class: "A", Data: []byte(`{"n":9007199254740993,"f":1.0,"o":{},"s":"\u00e9\/"}`)},
				{Class: "B", Data: []byte("[]"), Priority: new(1000), ObjectPHID: new("PHID-1"), ContainerPHID: new("PHID-2"), DelayUntil: 1700000000},
				{Class: "C", Data: []byte("13"), Priority: new(2000), DelayUntil: 1900000000},
			}},
		},
		{
			"a yield", `{"kind":"yielded","wait":15,"category":"yield"}`,
			tasks.Outcome{Kind: tasks.Yielded, Wait: 15 * time.Second, Category: "yield"},
		},
		{
			"numbers in other forms", `{"kind":"retry","wait":"5","durationUs":7.0}`,
			tasks.Outcome{Kind: tasks.Retry, Wait: 5 * time.Second, Duration: 7 * time.Microsecond},
		},
		{
			"a failure that is due at once", `{"kind":"retry","wait":-2147483647,"category":"exception","reason":"Exception: no"}`,
			tasks.Outcome{Kind: tasks.Retry, Wait: -2147483647 * time.Second, Category: "exception", Reason: "Exception: no"},
		},
		{
			"times that are too long to say", `{"kind":"retry","wait":9223372036854775807,"durationUs":9223372036854775807}`,
			tasks.Outcome{Kind: tasks.Retry, Wait: 9223372036 * time.Second, Duration: 9223372036854775 * time.Microsecond},
		},
		{
			"less than no time", `{"kind":"retry","wait":-9223372036854775808,"durationUs":-5}`,
			tasks.Outcome{Kind: tasks.Retry, Wait: -9223372036 * time.Second},
		},
		{
			"a permanent failure drops follow-ups", `{"kind":"failed","category":"permanent","reason":"no","followUps":[{"taskClass":"A","data":"1"}]}`,
			tasks.Outcome{Kind: tasks.Failed, Category: "permanent", Reason: "no"},
		},
		{
			"what a later library adds", `{"kind":"failed","mood":"good"}`,
			tasks.Outcome{Kind: tasks.Failed},
		},
	} {
		got, uncaught, err := DecodeOutcome([]byte(c.text))
		if diff := cmp.Diff(c.want, got); err != nil || uncaught || diff != "" {
			t.Errorf("%s: %v, uncaught is %v\n%s", c.name, err, uncaught, diff)
		}
	}
}

func TestWhatComesOutOfAWorkerIsTold(t *testing.T) {
	if _, uncaught, err := DecodeOutcome([]byte(`{"kind":"retry","uncaught":true}`)); err != nil || !uncaught {
		t.Errorf("uncaught is %v, %v", uncaught, err)
	}
}

func TestB21AnEmptyListOfFollowUpsMayBeAnEmptyMap(t *testing.T) {
	for _, followUps := range []string{`[]`, `{}`, `{ }`, `null`} {
		got, _, err := DecodeOutcome([]byte(`{"kind":"succeeded","followUps":` + followUps + `}`))
		if diff := cmp.Diff(tasks.Outcome{Kind: tasks.Succeeded}, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", followUps, err, diff)
		}
	}
}

func TestAnOutcomeThatMakesNoSenseIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		``:                            `"", not an object`,
		`null`:                        `"null", not an object`,
		`"succeeded"`:                 `not an object`,
		`[1]`:                         `"[1]", not an object`,
		`{"kind":`:                    `"{\"kind\":": unexpected end`,
		`{}`:                          `its kind is ""`,
		`[]`:                          `its kind is ""`,
		`{"kind":"crashed"}`:          `its kind is "crashed", which is unknown: use the php library of this Gantry`,
		`{"kind":"Succeeded"}`:        `its kind is "Succeeded"`,
		`{"kind":5}`:                  `outcome.kind`,
		`{"kind":"retry","wait":1.5}`: `1.5 is no whole number`,
		`{"kind":"retry","wait":9223372036854775808}`:                 `9223372036854775808 is no whole number`,
		`{"kind":"retry","durationUs":"long"}`:                        `"long" is no whole number`,
		`{"kind":"retry","reason":["no"]}`:                            `outcome.reason`,
		`{"kind":"retry","uncaught":"yes"}`:                           `outcome.uncaught`,
		`{"kind":"succeeded","followUps":{"0":{}}}`:                   `cannot unmarshal object`,
		`{"kind":"succeeded","followUps":[{"data":{"a":1}}]}`:         `outcome.followUps.data`,
		`{"kind":"failed","followUps":[{"priority":"high"}]}`:         `"high" is no whole number`,
		"{\"kind\":\"succeeded\",\"reason\":\"a\xffb\"}":              `is not UTF-8`,
		"{\"kind\":\"succeeded\",\"reason\":\"\xed\xa0\xbd\"}":        `is not UTF-8`,
		"{\"kind\":\"retry\",\"x\":\"" + strings.Repeat("\xff", 5000): `is not UTF-8`,
	} {
		got, _, err := DecodeOutcome([]byte(text))
		switch {
		case err == nil:
			t.Errorf("%s became %+v", text, got)
		case !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v; want %s", text, err, want)
		case len(err.Error()) > 2000:
			t.Errorf("%.40s: an error of %d bytes", text, len(err.Error()))
		}
	}
}

func FuzzDecodeOutcome(f *testing.F) {
	f.Add([]byte(`{"kind":"succeeded","wait":0,"category":"","reason":"","durationUs":250,"followUps":[],"uncaught":false}`))
	f.Add([]byte(`{"kind":"succeeded","followUps":[{"priority":"2000","data":"{}","delayUntil":1e9}]}`))
	f.Add([]byte(`{"kind":"failed","followUps":{ } }`))
	f.Add([]byte(`{"kind":"retry","wait":-9223372036854775808,"uncaught":true}`))
	f.Add([]byte(` [ ] `))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, _, err := DecodeOutcome(text)
		if err != nil {
			if len(err.Error()) > 4000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if got.Duration < 0 || got.Wait.Truncate(time.Second) != got.Wait {
			t.Errorf("duration %v, wait %v", got.Duration, got.Wait)
		}
		switch got.Kind {
		case tasks.Succeeded:
		case tasks.Yielded, tasks.Retry, tasks.Failed:
			if len(got.FollowUps) > 0 {
				t.Errorf("%s has follow-ups", got.Kind)
			}
		default:
			t.Errorf("kind %q", got.Kind)
		}
	})
}
