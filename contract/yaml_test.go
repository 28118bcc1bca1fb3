package contract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/tasks"
)

// anyText draws texts as databases and sockets hold them: bytes of all kinds,
// and what YAML likes to change.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 30), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{
			"\n", "\r", "\t", " ", "  ", "a", "é", "---", "...", "# no comment", ": ", "- ", "{", "\"", "'", "\\", "\x00",
			"\u2028", "\ufeff", "\u00a0", "yes", "null", "~", "0123", "1e3", "2026-01-01", "<<", "!!binary", "%YAML", "|", ">", "\x85",
		}), 0, 8), func(parts []string) string { return strings.Join(parts, "") }),
	)
}

func anyObservation(text *rapid.Generator[string]) *rapid.Generator[Observation] {
	optional := rapid.Ptr(text, true)
	return rapid.Custom(func(t *rapid.T) Observation {
		o := Observation{Outcome: Outcome{
			Kind:     rapid.SampledFrom([]tasks.Kind{tasks.Succeeded, tasks.Yielded, tasks.Retry, tasks.Failed}).Draw(t, "kind"),
			Wait:     rapid.Int64().Draw(t, "wait"),
			Category: text.Draw(t, "category"),
			Reason:   text.Draw(t, "reason"),
			FollowUps: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) FollowUp {
				return FollowUp{
					TaskClass: text.Draw(t, "class"), Data: text.Draw(t, "data"), DelayUntil: text.Draw(t, "delay"),
					Priority: rapid.Ptr(rapid.Int(), true).Draw(t, "priority"), ObjectPHID: optional.Draw(t, "object"), ContainerPHID: optional.Draw(t, "container"),
				}
			}), 0, 2).Draw(t, "followUps"),
		}}
		o.Requests = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Request {
			return Request{
				Receiver: text.Draw(t, "receiver"), Method: text.Draw(t, "method"), Target: text.Draw(t, "target"), Body: text.Draw(t, "body"),
				Version: text.Draw(t, "version"), Order: text.Draw(t, "order"), Headers: rapid.MapOfN(text, text, 0, 3).Draw(t, "headers"),
			}
		}), 0, 2).Draw(t, "requests")
		o.Changes = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Change {
			return Change{
				Table: "herald.t" + text.Draw(t, "table"), Key: text.Draw(t, "key"),
				Kind: rapid.SampledFrom([]ChangeKind{Added, Removed, Changed}).Draw(t, "kind"),
				Columns: rapid.MapOfN(text, rapid.Custom(func(t *rapid.T) Values {
					return Values{optional.Draw(t, "before"), optional.Draw(t, "after")}
				}), 0, 3).Draw(t, "columns"),
			}
		}), 0, 3).Draw(t, "changes")
		return o
	})
}

func TestAGoldenComesBackToTheByte(t *testing.T) {
	observations := anyObservation(anyText())
	rapid.Check(t, func(t *rapid.T) {
		o := observations.Draw(t, "observation")
		content, err := encode(o)
		if err != nil {
			t.Fatal(err)
		}
		var back Observation
		if _, err := decode("golden.yaml", content, &back); err != nil {
			t.Fatalf("%v\n%s", err, content)
		}
		if diff := cmp.Diff(o, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s\n%s", diff, content)
		}
		again, err := encode(back)
		if err != nil || string(again) != string(content) {
			t.Fatalf("it is written in two ways: %v\n%s\n%s", err, content, again)
		}
	})
}

func TestGoldensAreForPeople(t *testing.T) {
	text := "{\n  \"object\": {\n    \"type\": \"TASK\"\n  }\n}\n"
	before, after := "queued", "sent"
	content, err := encode(Observation{
		Outcome:  Outcome{Kind: tasks.Succeeded},
		Requests: []Request{{Receiver: "hook", Method: "POST", Target: "/?a=1", Headers: map[string]string{"X-B": "2", "Content-Length": "12"}, Body: text}},
		Changes: []Change{{Table: "herald.herald_webhookrequest", Kind: Changed, Key: "1", Columns: map[string]Values{
			"status":     {&before, &after},
			"properties": {nil, &text},
			"raw":        {After: new("\xff\x00")},
			"control":    {After: new("a\x1bb\r\n")},
			"empty":      {new(""), new(" ")},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `outcome:
  kind: succeeded
requests:
  - receiver: hook
    method: POST
    target: /?a=1
    headers:
      Content-Length: "12"
      X-B: "2"
    body: |
      {
        "object": {
          "type": "TASK"
        }
      }
changes:
  - table: herald.herald_webhookrequest
    kind: changed
    key: "1"
    columns:
      control:
        after: "a\eb\r\n"
      empty:
        before: ""
        after: " "
      properties:
        after: |
          {
            "object": {
              "type": "TASK"
            }
          }
      raw:
        after: !!binary /wA=
      status:
        before: queued
        after: sent
`
	if diff := cmp.Diff(want, string(content)); diff != "" {
		t.Error(diff)
	}
}
