package contract

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/tasks"
)

func large() Case {
	return Case{
		Name: "large", TaskClass: "A", Data: `{"key":[1,{"uri":"http://{{receiver hook}}/","x":{"y":[]}}],"more":"text"}`,
		Task: TaskColumns{FailureCount: 3, Priority: new(5), ObjectPHID: new("PHID-TASK-1"), ContainerPHID: new("PHID-PROJ-1")},
		World: World{
			Options: map[string]any{"a": "x", "b": []any{"http://{{receiver hook}}/", "y"}},
			Rows: map[string][]Row{
				"a.b": {{"id": 1, "name": "some é name", "properties": `{"a": 1, "b": [true, null]}`}, {"id": 2, "at": "{{now-300}}"}},
				"c.d": {{"id": 3}},
			},
			Receivers: map[string]Receiver{
				"hook":  {TLS: true, Answers: []Answer{{Status: 500, Headers: map[string]string{"A": "1", "B": "2"}, Body: "no", Delay: time.Second}, {}}},
				"other": {},
			},
			Locks: []string{"one", "two"},
		},
	}
}

func TestShrinkingKeepsWhatMakesTheDifferenceAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		name    string
		differs func(Case) bool
		want    Case
	}{
		{"anything", func(Case) bool { return true }, Case{Name: "large", TaskClass: "A", Data: "{}"}},
		{
			"a column", func(c Case) bool {
				return slices.ContainsFunc(c.World.Rows["a.b"], func(row Row) bool { return strings.Contains(fmtText(row["name"]), "é") })
			},
			Case{Name: "large", TaskClass: "A", Data: "{}", World: World{Rows: map[string][]Row{"a.b": {{"name": "é"}}}}},
		},
		{
			"a header of an answer, and a member of the data", func(c Case) bool {
				for _, a := range c.World.Receivers["hook"].Answers {
					if a.Headers["B"] != "" && strings.Contains(c.Data, `"y"`) {
						return true
					}
				}
				return false
			},
			Case{Name: "large", TaskClass: "A", Data: `{"key":[{"x":{"y":[]}}]}`, World: World{
				Receivers: map[string]Receiver{"hook": {Answers: []Answer{{Headers: map[string]string{"B": "2"}}}}},
			}},
		},
		{
			"a placeholder that needs its receiver", func(c Case) bool { return strings.Contains(c.Data, "hook") },
			Case{Name: "large", TaskClass: "A", Data: `{"key":[{"uri":"http://{{receiver hook}}/"}]}`, World: World{Receivers: map[string]Receiver{"hook": {}}}},
		},
		{
			"an item of an option", func(c Case) bool { list, _ := c.World.Options["b"].([]any); return slices.Contains(list, any("y")) },
			Case{Name: "large", TaskClass: "A", Data: "{}", World: World{Options: map[string]any{"b": []any{"y"}}}},
		},
		{"everything", func(Case) bool { return false }, large()},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			got := Shrink(large(), func(smaller Case) bool { calls++; return c.differs(smaller) })
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if !c.differs(got) && c.name != "everything" {
				t.Error("it does not differ any more")
			}
			t.Logf("%d runs", calls)
		})
	}
}

func fmtText(value any) string { text, _ := value.(string); return text }

func TestWhatIsShortenedIsShorterAndStaysWhatItWas(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.Map(anyJSON(3), func(v any) string {
		content, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			panic(err)
		}
		return string(content)
	}))
	rapid.Check(t, func(t *rapid.T) {
		long := text.Draw(t, "text")
		for _, short := range shorten(long) {
			if len(short) >= len(long) {
				t.Errorf("%q is not shorter than %q", short, long)
			}
			if utf8.ValidString(long) && !utf8.ValidString(short) {
				t.Errorf("%q, of %q, is not UTF-8", short, long)
			}
			if strings.HasPrefix(long, "{") || strings.HasPrefix(long, "[") {
				if json.Valid([]byte(long)) && !json.Valid([]byte(short)) {
					t.Errorf("%q, of %q, is not JSON", short, long)
				}
			}
		}
	})
}

func anyJSON(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](json.Number("1.0")),
		rapid.Map(rapid.SampledFrom([]string{"", ",", "}", "é,\"", "{}"}), func(s string) any { return s }),
	)
	if depth == 0 {
		return scalar
	}
	deeper := anyJSON(depth - 1)
	return rapid.OneOf(scalar,
		rapid.Map(rapid.SliceOfN(deeper, 0, 3), func(list []any) any { return list }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", ",", "b:", "\""}), deeper, 0, 3), func(m map[string]any) any { return m }),
	)
}

func TestMembersLeaveOneByOne(t *testing.T) {
	got, ok := withoutMembers(` {"a" : 1.0 , "b":[ {"c":null},2],"d":"," } `)
	if ok {
		t.Errorf("a text that begins with a space is taken apart: %q", got)
	}
	got, _ = withoutMembers(`{"a" : 1.0 , "b":[ {"c":null},2],"d":"," }`)
	want := []string{
		`{ "b":[ {"c":null},2],"d":"," }`, `{"a" : 1.0,"d":"," }`, `{"a" : 1.0 , "b":[ {"c":null},2] }`,
		`{"a" : 1.0 , "b":[2],"d":"," }`, `{"a" : 1.0 , "b":[ {"c":null}],"d":"," }`, `{"a" : 1.0 , "b":[ {},2],"d":"," }`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyWhatDiffersInTheSameWayIsKin(t *testing.T) {
	pair := func(php, ours tasks.Kind, fields ...string) Pair {
		p := Pair{Want: Observation{Outcome: Outcome{Kind: php}}, Got: Observation{Outcome: Outcome{Kind: ours}}}
		for _, field := range fields {
			p.Differences = append(p.Differences, Difference{Field: field})
		}
		return p
	}
	first := pair(tasks.Succeeded, tasks.Succeeded, "requests[2].headers[Expect]", "changes[a.b 1].name.after")
	for _, c := range []struct {
		other Pair
		kin   bool
	}{
		{pair(tasks.Succeeded, tasks.Succeeded, "changes[a.b 2 x].name.after", "other"), true},
		{pair(tasks.Succeeded, tasks.Succeeded, "requests[1].headers[Expect]"), true},
		{pair(tasks.Succeeded, tasks.Succeeded, "requests[2].headers[Host]"), false},
		{pair(tasks.Succeeded, tasks.Succeeded, "changes[a.c 1].name.after"), false},
		{pair(tasks.Succeeded, tasks.Declined, "changes[a.b 1].name.after"), false},
		{pair(tasks.Failed, tasks.Succeeded, "changes[a.b 1].name.after"), false},
		{pair(tasks.Succeeded, tasks.Succeeded), false},
	} {
		if got := first.Kin(c.other); got != c.kin {
			t.Errorf("%+v: %v", c.other, got)
		}
	}
}

func TestTheNameOfASmallerCaseIsOneOfACase(t *testing.T) {
	for _, name := range []string{"a", strings.Repeat("a", 93) + "-bcdefg", strings.Repeat("a", 100)} {
		smaller := SmallerOf(Case{Name: name}, Case{Name: name})
		if !caseName.MatchString(smaller.Name) || len(smaller.Name) > maxName || !strings.Contains(smaller.About, name) {
			t.Errorf("of %s: %+v", name, smaller)
		}
	}
}
