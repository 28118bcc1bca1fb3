package phpenc

import (
	"errors"
	"strings"
	"testing"
)

// What is wanted here was printed by PHP 8.2.
func TestEncodeJSONWritesTheBytesOfPHP(t *testing.T) {
	for in, want := range map[string]string{
		`[]`:                        `[]`,
		`{}`:                        `[]`,
		`[1,[2],{"a":{}}]`:          `[1,[2],{"a":[]}]`,
		`{"0":"a","1":"b"}`:         `["a","b"]`,
		`{"1":"a","0":"b"}`:         `{"1":"a","0":"b"}`,
		`{"a":1,"b":2,"a":3}`:       `{"a":3,"b":2}`,
		`"a/b\"\\"`:                 `"a\/b\"\\"`,
		"\"\x7f\u2028\U0001F600é\"": "\"\x7f\\u2028\\ud83d\\ude00\\u00e9\"",
		`"\u0000\b\f\n\r\t\u001f"`:  `"\u0000\b\f\n\r\t\u001f"`,
		`1.0`:                       `1`,
		`-0.0`:                      `-0`,
		`9223372036854775807`:       `9223372036854775807`,
		`9223372036854775808`:       `9.223372036854776e+18`,
		`0.30000000000000004`:       `0.30000000000000004`,
		`[1e16,1e17,1.5e17,0.0001,1.5e-5,1e100,-1e-7,1e15]`: `[10000000000000000,1.0e+17,1.5e+17,0.0001,1.5e-5,1.0e+100,-1.0e-7,1000000000000000]`,
	} {
		got, err := EncodeJSON(DecodeJSON([]byte(in)))
		if err != nil || got != want {
			t.Errorf("%s became %s, %v; PHP writes %s", in, got, err, want)
		}
	}
	if _, err := EncodeJSON(DecodeJSON([]byte(`{"a":1e999}`))); !errors.Is(err, ErrNotFinite) {
		t.Errorf("an infinite number: %v", err)
	}
}

func TestB45EncodeFormattedWritesTheBytesOfPHP(t *testing.T) {
	in := `{"b":[],"o":{},"n":null,"t":true,"f":1.0,"x":"a/b é","d":{"k":[1,{"z":[[]]}]},"5":[{"phid":"P"}],"i":1e999}`
	want := `{
  "b": [],
  "o": [],
  "n": null,
  "t": true,
  "f": 1,
  "x": "a/b \u00e9",
  "d": {
    "k": [
      1,
      {
        "z": [
          []
        ]
      }
    ]
  },
  "5": [
    {
      "phid": "P"
    }
  ],
  "i": 
}
`
	if got := EncodeFormatted(DecodeJSON([]byte(in)).(Array)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := EncodeFormatted(nil); got != "{}\n" {
		t.Errorf("an empty object is %q", got)
	}
}

func TestJSONIsReadAsDeepAsPHPReadsIt(t *testing.T) {
	for depth, read := range map[int]bool{511: true, 512: false} {
		for _, data := range []string{
			strings.Repeat("[", depth) + strings.Repeat("]", depth),
			strings.Repeat("[", depth) + "1" + strings.Repeat("]", depth),
			strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
		} {
			if value := DecodeJSON([]byte(data)); (value != nil) != read {
				t.Errorf("%d levels: %.20s is read: %v", depth, data, value != nil)
			}
		}
	}
}
