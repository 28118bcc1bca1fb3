package phpenc

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestB45FeedStoriesArePostedAsHTTPBuildQueryWritesThem(t *testing.T) {
	story := DecodeJSON([]byte(`{"a":{"b":[1,"x/é",null,true]}}`))
	const want = "storyData%5Ba%5D%5Bb%5D%5B0%5D=1" +
		"&storyData%5Ba%5D%5Bb%5D%5B1%5D=x%2F%C3%A9" +
		"&storyData%5Ba%5D%5Bb%5D%5B3%5D=1"
	if got := HTTPBuildQuery(Array{{"storyData", story}}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFormsHoldWhatPHPDecodedAndNothingElse(t *testing.T) {
	deep := strings.Repeat("[", 511) + "1" + strings.Repeat("]", 511)
	for _, c := range []struct{ name, json, want string }{
		{"false is 0", `[false]`, "d%5B0%5D=0"},
		{"null and empty arrays are left out", `[null,[],{},[[]],""]`, "d%5B4%5D="},
		{"the tilde is encoded, and a space is a plus", `{"~ -_.":"~ -_."}`, "d%5B%7E+-_.%5D=%7E+-_."},
		{"an empty key and a zero byte are keys", `{"":1,"\u0000a":2}`, "d%5B%5D=1&d%5B%00a%5D=2"},
		{"the last of equal keys at the place of the first", `{"x":1,"y":2,"x":3}`, "d%5Bx%5D=3&d%5By%5D=2"},
		{"5 and 05 are two keys", `{"5":1,"05":2}`, "d%5B5%5D=1&d%5B05%5D=2"},
		{"floats that are whole", `[1.0,1e3,-0,-0.0,1e14]`, "d%5B0%5D=1&d%5B1%5D=1000&d%5B2%5D=0&d%5B3%5D=-0&d%5B4%5D=1.0E%2B14"},
		{"14 digits", `[0.30000000000000004,123456789012345.6,0.0001,0.00001]`,
			"d%5B0%5D=0.3&d%5B1%5D=1.2345678901235E%2B14&d%5B2%5D=0.0001&d%5B3%5D=1.0E-5"},
		{"beyond 64 bits is a float", `[9223372036854775807,9223372036854775808,-9223372036854775809]`,
			"d%5B0%5D=9223372036854775807&d%5B1%5D=9.2233720368548E%2B18&d%5B2%5D=-9.2233720368548E%2B18"},
		{"beyond a float is infinite", `[1e999,-1e999]`, "d%5B0%5D=INF&d%5B1%5D=-INF"},
		{"511 levels", deep, "d" + strings.Repeat("%5B0%5D", 511) + "=1"},
		{"513 levels are null", "[" + deep + "]", ""},
		{"a pair of surrogates", `["\ud83d\ude00"]`, "d%5B0%5D=%F0%9F%98%80"},
		{"half a pair is null", `["\ud83d"]`, ""},
		{"the other half is null", `["\udc00"]`, ""},
		{"bytes that are not UTF-8 are null", "[\"\xff\"]", ""},
		{"keywords are small", `[TRUE]`, ""},
		{"a comma too many", `[1,]`, ""},
		{"text behind the value", `[1] 2`, ""},
		{"nothing", ``, ""},
		{"a scalar", ` 7 `, "d=7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := HTTPBuildQuery(Array{{"d", DecodeJSON([]byte(c.json))}}); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// oracle reads base64 of JSON by lines and answers base64 of the form.
const oracle = `while (($line = fgets(STDIN)) !== false) {
  $data = json_decode(base64_decode($line), true);
  echo base64_encode(http_build_query(array("d" => $data), "", "&"))."\n";
}`

func TestFormsAreThoseOfRealPHP(t *testing.T) {
	program, err := exec.LookPath("php")
	if err != nil {
		t.Skip("NOT PROVEN against PHP: ", err)
	}
	php := exec.Command(program, "-d", "precision=14", "-r", oracle)
	in, err := php.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := php.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := php.Start(); err != nil {
		t.Fatal(err)
	}
	defer php.Wait()
	defer in.Close()
	answers := bufio.NewReader(out)
	rapid.Check(t, func(rt *rapid.T) {
		json := genJSON(4).Draw(rt, "json")
		if rapid.IntRange(0, 9).Draw(rt, "damage") == 0 {
			at := rapid.IntRange(0, len(json)).Draw(rt, "at")
			json = json[:at] + rapid.SampledFrom([]string{"", ",", "]", "\\", "\x00", "\xc3", "9", "-", "."}).Draw(rt, "insert") + json[at:]
		}
		if _, err := io.WriteString(in, base64.StdEncoding.EncodeToString([]byte(json))+"\n"); err != nil {
			rt.Fatal(err)
		}
		line, err := answers.ReadString('\n')
		if err != nil {
			rt.Fatal(err)
		}
		want, err := base64.StdEncoding.DecodeString(strings.TrimSpace(line))
		if err != nil {
			rt.Fatal(err)
		}
		if got := HTTPBuildQuery(Array{{"d", DecodeJSON([]byte(json))}}); got != string(want) {
			rt.Fatalf("of %s\ngot  %s\nwant %s", json, got, want)
		}
	})
}

// genJSON answers JSON as PHP, and as somebody else, may have written it.
func genJSON(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kind := rapid.IntRange(0, 7).Draw(t, "kind")
		if depth == 0 {
			kind %= 6
		}
		switch kind {
		case 0:
			return rapid.SampledFrom([]string{"null", "true", "false", "True"}).Draw(t, "word")
		case 1:
			return strconv.FormatInt(rapid.Int64().Draw(t, "int"), 10) +
				rapid.SampledFrom([]string{"", "", "0", "000000000000"}).Draw(t, "zeros")
		case 2:
			f := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
			if math.IsNaN(f) || math.IsInf(f, 0) {
				return "-0.0e1"
			}
			return strconv.FormatFloat(f, 'e', -1, 64)
		case 3:
			return fmt.Sprintf("%d.%d%s", rapid.IntRange(-999, 999).Draw(t, "whole"), rapid.IntRange(0, 99999).Draw(t, "fraction"),
				rapid.SampledFrom([]string{"", "e0", "E12", "e+14", "e-6", "e-5", "e400"}).Draw(t, "power"))
		case 4, 5:
			return genText().Draw(t, "text")
		case 6:
			return "[" + strings.Join(rapid.SliceOfN(genJSON(depth-1), 0, 4).Draw(t, "list"), " , ") + "]"
		}
		var members []string
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			members = append(members, genText().Draw(t, "key")+":"+genJSON(depth-1).Draw(t, "value"))
		}
		return "{" + strings.Join(members, ",") + "}"
	})
}

func genText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		pieces := rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom([]string{"0", "1", "05", "-0", "-5", "a", "[b]", "&", "=", "+", "%", "~", " ", "/", "\\/", "\\\"", "\\\\", "\\n", "\\b",
				"\\u0000", "\\u00e9", "\\uD83D\\uDE00", "\\ud83d", "\\udc00x", "é", "😀", "\x7f", "9223372036854775808"}),
			rapid.StringN(0, 2, -1).Filter(func(s string) bool { return !strings.ContainsAny(s, "\"\\") }),
		), 0, 3).Draw(t, "pieces")
		return `"` + strings.Join(pieces, "") + `"`
	})
}
