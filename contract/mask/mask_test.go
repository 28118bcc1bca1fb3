package mask

import (
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"regexp"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
	"pgregory.net/rapid"
)

const now = 1800000000

// failer is a test, one of rapid's too.
type failer interface {
	Helper()
	Fatal(args ...any)
}

func masker(t failer, keeps ...string) *Masker {
	t.Helper()
	m, err := New(now, keeps)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// masked is the data of a task, masked.
func masked(t failer, data string, keeps ...string) string {
	t.Helper()
	c, err := masker(t, keeps...).Case(context.Background(), "a", tasks.Record{Task: tasks.Task{Class: "AWorker", Data: []byte(data)}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Data
}

func TestWhatAMaskedDocumentLooksLike(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"PHIDs keep their kind, and are the same where they were",
			`{"objectPHID":"PHID-TASK-abcdefghijklmnopqrst","xactionPHIDs":["PHID-XACT-TASK-zyxwvutsrqponml","PHID-TASK-abcdefghijklmnopqrst"],"PHID-USER-qqqqqqqqqqqqqqqqqqqq":1}`,
			`{"objectPHID":"PHID-TASK-00000000000000000001","xactionPHIDs":["PHID-XACT-TASK-000000000000001","PHID-TASK-00000000000000000001"],"PHID-USER-00000000000000000001":1}`},
		{"white space, order and escapes stay", "{ \"uri\" :\t\"http:\\/\\/acme.example.net\\/\",\n\"key\":null , \"key\": [ ] }",
			"{ \"uri\" :\t\"http:\\/\\/host1.example\\/\",\n\"key\":null , \"key\": [ ] }"},
		{"words of Phorge, flags and short numbers stay", `{"status":"queued","retry":"never","silent":true,"count":12,"code":"404","class":"PhabricatorSearchWorker","type":"core:comment","f":1.5}`,
			`{"status":"queued","retry":"never","silent":true,"count":12,"code":"404","class":"PhabricatorSearchWorker","type":"core:comment","f":1.5}`},
		{"ids are counted, the same ones alike", `{"commitID":4711,"taskIDs":[815,4711],"id":0}`, `{"commitID":1,"taskIDs":[2,1],"id":0}`},
		{"epochs are told from now, the coarser the longer ago", `{"epoch":1799999990,"until":"1800000000","dateCreated":1799990001,"n":1790000000,"epochOfOld":1000000000}`,
			`{"epoch":{{now-10}},"until":"{{now}}","dateCreated":{{now-7200}},"n":{{now-7372800}},"epochOfOld":{{now-471859200}}}`},
		{"addresses in a URL", `{"uri":"https://alice:hunter2secret@intranet.acme.com:8443/~alice/12345?token=abcdef0123456789abcdef&alice=PHID-USER-abcdefghijklmnopqrst#alice"}`,
			`{"uri":"https://` + `%:%@host1.example:8443/%/%?token=%&%=PHID-USER-00000000000000000001#%"}`},
		{"networks of addresses", `["10.1.2.3","192.168.7.7","8.8.8.8","127.0.0.1","::1","fe80::1234","2a00:1450::1","fd12:3456::1","8.8.4.4","8.8.8.8"]`,
			`["10.0.0.1","192.168.0.1","198.18.0.1","127.0.0.1","::1","fe80::1","2001:db8::1","fd00::1","198.18.0.2","198.18.0.1"]`},
		{"a URL of an IPv6 address", `"http://[2a00:1450::1]:80/"`, `"http://[2001:db8::1]:80/"`},
		{"a host without a domain", `["http://db1/","http://DB1/","http://localhost:80/"]`, `["http://host1/","http://host1/","http://localhost:80/"]`},
		{"an e-mail address within text", `"mail alice@acme.com, PHID-USER-abcdefghijklmnopqrst"`, `"%person1@host1.example, PHID-USER-00000000000000000001"`},
		{"JSON within JSON", `{"x":"{\"uri\":\"http:\\/\\/acme.com\\/\",\"count\":1}"}`, `{"x":"{\"uri\":\"http:\\/\\/host1.example\\/\",\"count\":1}"}`},
		{"an application's PHID is the same everywhere", `"PHID-APPS-PhabricatorHeraldApplication"`, `"PHID-APPS-PhabricatorHeraldApplication"`},
		{"a lock's name", `"webhook(PHID-HWBH-abcdefghijklmnopqrst)()"`, `"%(PHID-HWBH-00000000000000000001)()"`},
		{"tokens and policies are the same everywhere", `["PHID-TOKN-like-1","obj.maniphest.author"]`, `["PHID-TOKN-like-1","obj.maniphest.author"]`},
		{"digits stay digits", `["00123456789"]`, `["%"]`},
		{"no JSON", "alice\xff", "%"},
		{"an empty text", ``, ``},
		{"a number alone", `4711`, `%`},
		{"nothing", `null`, `null`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := masked(t, c.data)
			pattern := `\A` + strings.ReplaceAll(regexp.QuoteMeta(c.want), "%", `[^"]+?`) + `\z`
			if !regexp.MustCompile(pattern).MatchString(got) {
				t.Errorf("%s\nbecame %s\nnot    %s", c.data, got, c.want)
			}
		})
	}
}

// nasty is data in which everything that is secret says so: it holds acme,
// alice, smith or 4915.
var nasty = []string{
	`{"name":"Alice Smith","note":"call alice at +49 151 49154915 or 4915111222333"}`,
	`{"x":{"alice":{"smith":"alice"}},"emailAddresses":{"alice@acme.com":1,"Alice.Smith+x@mail.acme.co.uk":2}}`,
	`{"parameters":{"alice.smith":{"acme-token":"acme0123456789acme0123456789"}}}`,
	`["alice@acme","\"alice smith\"@acme.com","alice%40acme.com","mailto:alice@acme.com","Alice <alice@acme.com>","aLiCe@aCmE.com"]`,
	`["git@acme.com:alice/smith.git","ssh://alice@acme.com:2222/alice","//acme.com/alice","acme.com/alice","https:\/\/acme.com","HTTP://ACME.COM/ALICE","http://acme.com:bad/","javascript:alice()","acme://alice/"]`,
	`["http://acme.com/%61lice/%zz","http://alice:%zz@acme.com/","http://acme.com/?alice&alice=&=alice","http://acme.com/#alice","(see http://acme.com/alice).","http://xn--acme.com./","http://äcme-acme.com/"]`,
	`{"blob":"{\"alice\":\"{\\\"smith\\\":\\\"acme\\\"}\"}","broken":"{\"alice\":"}`,
	`{"base64":"YWxpY2U6YWNtZQ==acme","jwt":"eyJhbGciOiJIUzI1NiJ9.alice.acme","hex":"4915abcdef4915abcdef"}`,
	`{"\u0061lice":"\u0061cme","x":"\ud800alice","y":"alice😀","z":"smith\u0000\n\t\\\/"}`,
	`{"phone":4915111222333,"phones":[-4915111222333,4915.4915,4.9154915e10,49154915491549154915]}`,
	`{"PHID-USER-alicealicealicealice":"PHID-TASK-smithsmithsmithsmith","x":"phid-user-alice","y":"PHID-user-alice","z":"xPHID-USER-alice-smith"}`,
	`{"text":"line of alice\nline of smith {{now}} {{alice}} {{","braces":"{{","words":"queued alice"}`,
	`"alice smith"`,
	`alice smith, not JSON`,
	"{\"name\":\"J\xfcrgen alice\"}",
	"\xff\xfe alice \x00",
	`{"key":"alice","key":"smith"}`,
	`{"uri":"http://10.4915.1.1/","ip":"4915:4915::4915","when":"4915-10-10T10:10:10"}`,
	`{"class":"AcmeAliceWorker","story":"FeedAlice","c":"HeraldSmith","d":"PhabricatorAcmeThing"}`,
	`{"a":"` + strings.Repeat("alice ", 50000) + `"}`,
	`["a?!#$%&*?!#$%&*","hunter!@#$%^&*!@#$%^&*smith","?!#$%&*?!#$%&*"," ?!#$%&*?!#$%&* ","*!?#$%&*alice"]`,
	`{"class":["FeedAliceStory","HeraldAcmePolicyRule","ProjectSmithWorker","PhabricatorAliceEditor"],"type":["core:alice","core.smith","obj.alice.smith"]}`,
	`["PHID-APPS-PhabricatorAcmeApplication","PHID-TOKN-alice-1","PHID-TOKN-acme-1","PHID-4915-4915-4915","PHID-XACT-4915-alice"]`,
	`{"x":{"aliceKey":{"smithAcmePHIDs":1},"aliceStatus":"http://a/?smithKey=1"}}`,
	`["http://acme:4915/","http://a:49151112223334915/",1e4915,1.5E+49154915,0.00049154915,-4915.00]`,
	`[{"alice":1},[{"smith":1}]]`,
	`{"x":"{\"alice\":1}"}`,
	`"{\"alice\":1}"`,
	strings.Repeat(`["alice",`, 400) + `0` + strings.Repeat(`]`, 400),
}

func TestNothingSecretIsLeftOfNastyData(t *testing.T) {
	secret := regexp.MustCompile(`(?i:alice|smith|acme|4915|j.rgen)|YWxp|#\$%`)
	for _, data := range nasty {
		m := masker(t)
		record := tasks.Record{Task: tasks.Task{Class: "AWorker", Data: []byte(data), ObjectPHID: new("PHID-ACME-x alice"), ContainerPHID: new("alice")}}
		c, err := m.Case(t.Context(), "a", record, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{c.Data, c.About, *c.Task.ObjectPHID, *c.Task.ContainerPHID} {
			if left := secret.FindString(text); left != "" {
				t.Errorf("%.200s\nstill says %q:\n%.200s", data, left, text)
			}
		}
		if strings.Contains(strings.ReplaceAll(c.Data, "{{now", ""), "{{") {
			t.Errorf("%.200s has a placeholder:\n%.200s", data, c.Data)
		}
	}
}

// placeholders are numbers when a case runs.
var placeholders = regexp.MustCompile(`\{\{now[^}]*\}\}`)

func TestStandInsAreOfTheShapeOfWhatTheyStandFor(t *testing.T) {
	for _, c := range []struct{ text, pattern string }{
		{"Alice Smith", `^[A-Za-z ]{8}$`},
		{"alice", `^[a-z]{4}$`},
		{"ALICE", `^[A-Z]{4}$`},
		{"00123456789", `^[0-9]{8}$`},
		{"0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", `^[0-9a-f]{40}$`},
		{"DEADBEEF01", `^[0-9A-F]{10}$`},
		{"abcdefghijklmnopqrstuvwxyz012345", `^[a-z0-9]{32}$`},
		{"AbC_dEf-0123456789", `^[A-Za-z0-9_-]{18}$`},
		{"Zoë", `^[A-Zà-ö]{2}$`},
		{"Zoë Müller", `^[A-Za-zà-ö ]{8}$`},
		{"漢字の名前", `^[一-鿿]{4}$`},
		{"so 😀 then", `^[a-z 😀-😏]{8}$`},
		{`C:\dir\file.txt`, `^[A-Za-z\\-]{15}$|^[A-Za-z\\-]{8}$`},
		{"two\nlines of it", `^[a-z \n]{8}$`},
	} {
		if got := shaped(c.text, 1, 0); !regexp.MustCompile(c.pattern).MatchString(got) || got == c.text {
			t.Errorf("%q became %q", c.text, got)
		}
	}
}

func TestMaskedJSONIsJSONOfTheSameStructure(t *testing.T) {
	for _, data := range nasty {
		got := masked(t, data)
		if json.Valid([]byte(data)) != json.Valid([]byte(placeholders.ReplaceAllString(got, "1"))) {
			t.Errorf("%.200s\nbecame %.200s", data, got)
		}
		before, after := structure(data), structure(placeholders.ReplaceAllString(got, "1"))
		if json.Valid([]byte(data)) && before != after {
			t.Errorf("the structure of %.200s\nwas %.200s\nand is %.200s", data, before, after)
		}
	}
}

// structure is what is left of JSON without its texts and numbers.
func structure(data string) string {
	var out strings.Builder
	d := json.NewDecoder(strings.NewReader(data))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return out.String()
		}
		switch v := token.(type) {
		case json.Delim:
			fmt.Fprint(&out, v)
		case bool, nil:
			fmt.Fprint(&out, v, ",")
		default:
			fmt.Fprintf(&out, "%T,", v)
		}
	}
}

func TestTheSameRowsBecomeTheSameCases(t *testing.T) {
	for _, data := range nasty {
		if one, two := masked(t, data), masked(t, data); one != two {
			t.Errorf("%.200s\nbecame %.200s\nand    %.200s", data, one, two)
		}
	}
}

// turned replaces every letter and digit by another of its class.
func turned(text string) string {
	const from = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ123456789éèêóòô漢字仮名😀😁😂"
	const into = "bcdefahijklmnopqrstuvwxyzgBCDEFAHIJKLMNOPQRSTUVWXYZG234567891èêéòôó字仮名漢😁😂😀"
	to := []rune(into)
	at := map[rune]rune{}
	for i, r := range []rune(from) {
		at[r] = to[i]
	}
	return strings.Map(func(r rune) rune {
		if other, ok := at[r]; ok {
			return other
		}
		return r
	}, text)
}

// What the stand-ins are made of is the shape and the order alone: two documents
// with other names, but of one shape, become the same, so nobody can tell from
// the masked one which it was.
func TestMaskedDataDoesNotDependOnWhatWasMasked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.StringMatching(`q[a-zA-Z0-9 éèêóòô漢字仮名😀😁😂"<&-]{1,30}[a-zA-Z]`)
		form := rapid.SampledFrom([]string{"%s", "%s ", "https://%s.acme.net/%s?%s=1", "%s@%s.org", "see PHID-USER-%s", `{"type":"%s"}`, "%s\n%s",
			"Feed%sStory", "PhabricatorHerald%sWorker", "core:%s", "obj.%s.%s", "PHID-APPS-Phabricator%sApplication", "PHID-TOKN-%s-1",
			`{"%sKey":{"x%sPHIDs":0}}`, "http://a.example/?%sStatus=1"})
		one, two := []any{}, []any{}
		for range rapid.IntRange(1, 8).Draw(t, "values") {
			f := form.Draw(t, "form")
			var was, is []any
			for range strings.Count(f, "%s") {
				p := piece.Draw(t, "piece")
				if f != "%s" && f != "%s " && f != "%s\n%s" { // where it must be a word
					p = strings.Map(func(r rune) rune {
						if 'a' <= r && r <= 'z' {
							return r
						}
						return -1
					}, p)
				}
				was, is = append(was, p), append(is, turned(p))
			}
			one, two = append(one, fmt.Sprintf(f, was...)), append(two, fmt.Sprintf(f, is...))
		}
		before, _ := json.Marshal(one)
		other, _ := json.Marshal(two)
		if a, b := masked(t, string(before)), masked(t, string(other)); a != b {
			t.Fatalf("%s\nbecame %s\n%s\nbecame %s", before, a, other, b)
		}
	})
}

// Two numbers that are as long, or as far from now, become the same: what stands
// for one tells nothing else, whatever the name of its place makes of it.
func TestAMaskedNumberDoesNotDependOnWhatWasMasked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"n", "epoch", "dateOfPhone", "time_of_call", "candidate", "updatedBy", "sentiment", "untilID", "x.timezone"}).Draw(t, "name")
		one := rapid.Int64Range(100_000, 9_999_999_999).Draw(t, "number")
		other := one + rapid.Int64Range(1, one/10_000).Draw(t, "more")
		away := func(n int64) int { return bits.Len64(uint64(max(n-now, now-n) / hour)) }
		near := max(one, other) > now-2*years && min(one, other) < now+2*years
		switch {
		case digits(one) != digits(other), (one < now) != (other < now), away(one) != away(other), near && away(one) == 0:
			t.Skip("not of one class")
		case (one < now-years) != (other < now-years), (one < now+years) != (other < now+years):
			t.Skip("one of them can be a time for its size")
		case (one < 1_000_000_000) != (other < 1_000_000_000), (one < 1<<32) != (other < 1<<32):
			t.Skip("one of them can be a time for its name")
		}
		format := `{"` + name + `":%d,"x":{"` + name + `":"%d"}}`
		if a, b := masked(t, fmt.Sprintf(format, one, one)), masked(t, fmt.Sprintf(format, other, other)); a != b {
			t.Fatalf("%d of %s became %s\n%d became %s", one, name, a, other, b)
		}
	})
}

func digits(n int64) int { return len(fmt.Sprint(n)) }

func TestATimeIsToldByAWordOfItsName(t *testing.T) {
	for name, isTime := range map[string]bool{
		"epoch": true, "dateCreated": true, "leaseExpires": true, "lastRequestEpoch": true, "start_time": true, "until": true, "sinceEpoch": true, "DATE": true,
		"candidate": false, "updatedBy": false, "sentimental": false, "timezone": false, "dateline": false, "sometimes": false, "expiresome": false,
	} {
		got := masked(t, `{"`+name+`":1000000000}`)
		if strings.Contains(got, "{{now-") != isTime {
			t.Errorf("%s became %s", name, got)
		}
	}
}

func TestWhatIsKeptOnRequest(t *testing.T) {
	for _, c := range []struct {
		name  string
		keeps []string
		data  string
		want  string
	}{
		{"a key", []string{"branch"}, `{"branch":"alice","x":{"branch":"smith"}}`, `{"branch":"alice","x":{"branch":"smith"}}`},
		{"a key in one place", []string{"x.branch"}, `{"x":{"branch":"smith"},"branch":"queued"}`, `{"x":{"branch":"smith"},"branch":"queued"}`},
		{"all that is in an object", []string{"x"}, `{"x":{"alice":["smith",12345678,{"a b":1}]}}`, `{"x":{"alice":["smith",12345678,{"a b":1}]}}`},
		{"a pattern, of texts and keys", []string{`/build-\d+/`}, `["build-7",{"build-8":1}]`, `["build-7",{"build-8":1}]`},
		{"not the PHIDs in it", []string{"x"}, `{"x":"see PHID-USER-abcdefghijklmnopqrst"}`, `{"x":"see PHID-USER-00000000000000000001"}`},
		{"a kind of PHIDs that the site made", []string{"/PHID-ACME/"}, `"PHID-ACME-abcdefghijklmnopqrst"`, `"PHID-ACME-00000000000000000001"`},
		{"a long number", []string{"n"}, `{"n":123456789}`, `{"n":123456789}`},
	} {
		if got := masked(t, c.data, c.keeps...); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	for _, c := range []struct{ name, keep, data string }{
		{"a pattern that matches a part", `/alice/`, `"alice smith"`},
		{"the data as a whole", "data", `{"x":"alice"}`},
		{"the end of a key with a dot", "name", `{"alice.name":"alice"}`},
		{"what would be a placeholder", "x", `{"x":"{{alice}}"}`},
		{"a key that would be a placeholder", "x", `{"x":{"{{alice}}":1}}`},
		{"another case of the letters", "Branch", `{"branch":"alice"}`},
	} {
		if got := masked(t, c.data, c.keep); strings.Contains(got, "alice") {
			t.Errorf("%s is kept: %s", c.name, got)
		}
	}
	for _, wrong := range []string{"", " ", ".", "/(/", "//x("} {
		if _, err := New(now, []string{wrong}); err == nil && wrong != "//x(" {
			t.Errorf("--keep %q is taken", wrong)
		}
	}
}

func TestAboutSaysWhatWasMasked(t *testing.T) {
	data := `{"a":"PHID-TASK-abcdefghijklmnopqrst","b":"PHID-TASK-abcdefghijklmnopqrst","c":"PHID-USER-abcdefghijklmnopqrst","uri":"http://acme.com/","e":"alice@acme.com","n":4711,"t":"Alice","x":{"smith":1},"k":"abcdef0123456789abcdef","when":1799999990,"retry":"alice"}`
	m := masker(t, "retry", "/unused/")
	c, err := m.Case(t.Context(), "a", tasks.Record{Task: tasks.Task{Class: "AWorker", Data: []byte(data)}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "Made of a real task; masked: 2 PHIDs, 1 number, 1 epoch, 1 e-mail address, 1 host, 1 token, 2 texts, 1 data key; kept on request: retry."
	if c.About != want {
		t.Errorf("about is %s", c.About)
	}
}
