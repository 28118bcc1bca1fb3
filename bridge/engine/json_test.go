package engine

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestB21EmptyListsAndMapsAreAcceptedForEachOther(t *testing.T) {
	type object struct{ List List[int] }
	for text, want := range map[string]object{
		`{"list":[1,2]}`: {List[int]{1, 2}}, ` {"list":[]} `: {List[int]{}}, `{"list":{}}`: {}, "{\"list\":{\n}}": {},
		`{"list":null}`: {}, `{}`: {}, `[]`: {}, "\t[\n] ": {},
	} {
		var got object
		if err := Unmarshal([]byte(text), &got); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q became %v, %v", text, got, err)
		}
	}
	for _, text := range []string{``, ` `, `[`, `{`, `]`, `[1]`, `[[]]`, `null`, `5`, `"{}"`, `{"list":{"0":1}}`, `{"list":1}`, `{"list":""}`, `{}{}`} {
		var got object
		if err := Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%q became %v", text, got)
		}
	}
}

func TestB50WholeNumbersMayComeInEachForm(t *testing.T) {
	for text, want := range map[string]Integer{
		"13": 13, "13.0": 13, `"13"`: 13, `"13.0"`: 13, "1.3e1": 13, "null": 0, "-4": -4, "0": 0,
		"9223372036854775807": 9223372036854775807, "9007199254740992.0": 1 << 53,
	} {
		var got struct{ N Integer }
		if err := json.Unmarshal([]byte(`{"N":`+text+`}`), &got); err != nil || got.N != want {
			t.Errorf("%s became %d, %v", text, got.N, err)
		}
	}
	for _, text := range []string{"13.5", `"x"`, `""`, "true", "{}", "[]", "1e30", "9223372036854775808", `"NaN"`, `"Inf"`, "9007199254740994.0"} {
		var got struct{ N Integer }
		if err := json.Unmarshal([]byte(`{"N":`+text+`}`), &got); err == nil {
			t.Errorf("%s became %d", text, got.N)
		}
	}
}

func TestTimesAreCutInsteadOfOverflowing(t *testing.T) {
	for _, c := range []struct {
		n    Integer
		unit time.Duration
		want time.Duration
	}{
		{86400, time.Second, 24 * time.Hour},
		{-5, time.Microsecond, -5 * time.Microsecond},
		{math.MaxInt64, time.Second, 9223372036 * time.Second},
		{math.MinInt64, time.Second, -9223372036 * time.Second},
		{math.MinInt64, time.Nanosecond, -math.MaxInt64},
	} {
		if got := c.n.Times(c.unit); got != c.want {
			t.Errorf("%d times %v is %v, not %v", c.n, c.unit, got, c.want)
		}
	}
}
