package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestANewKeyIsWrittenForItsOwnerAloneAndNeverShown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	got := command(t, nil, "", "keys", "new", "--conduit-key-file="+file, "--phorge=/srv/phorge")
	keys := readKeys(t, file)
	if got.code != exitOK || len(keys) != 1 {
		t.Fatalf("exit code %d, %d keys, %s", got.code, len(keys), got.err)
	}
	for id, secret := range keys {
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\d-[a-z0-9]{6}$`).MatchString(id) || len(secret) != 64 {
			t.Errorf("the key is %q with %d characters", id, len(secret))
		}
		for _, want := range []string{"Key " + id + " was written to " + file, "/srv/phorge/bin/config set gantry.key-file " + file + "\n",
			"bin/config set --stdin gantry.keys < " + file + "\n"} {
			if !strings.Contains(got.out, want) {
				t.Errorf("it says\n%s\nand not %s", got.out, want)
			}
		}
		if strings.Contains(got.out+got.err, secret) {
			t.Error("the secret is shown")
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
}

func readKeys(t *testing.T, file string) (keys map[string]string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(content, &keys)
	}
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestTheNewestTwoKeysStayAndTheLastSigns(t *testing.T) {
	const secret = "an-old-secret-of-many-characters"
	file := writeFile(t, "keys.json", `{"zz":"`+secret+`","aa":"`+secret+`"}`, 0o640)
	got := command(t, nil, "", "keys", "new", "--conduit-key-file="+file, "--output=json")
	var report struct {
		File, New, Command string
		KeyIDs             []string
	}
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != exitOK {
		t.Fatalf("exit code %d, %v, %s", got.code, err, got.err)
	}
	if len(report.KeyIDs) != 2 || report.KeyIDs[0] != "aa" || report.KeyIDs[1] != report.New || report.Command != "bin/config set gantry.key-file "+file {
		t.Errorf("it reports %+v", report)
	}
	if keys := readKeys(t, file); len(keys) != 2 || keys["aa"] != secret || keys[report.New] == "" {
		t.Errorf("the file holds %d keys, %v", len(keys), keys["aa"] == secret)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o640 {
		t.Errorf("the file became %v, %v", info.Mode(), err)
	}
	expect(t, command(t, nil, "", "keys", "list", "--conduit-key-file="+file), exitOK, "aa is accepted\n"+report.New+" is accepted, and signs\n", "")
	expect(t, command(t, nil, "", "keys", "list", "--output=json", "--conduit-key-file="+file), exitOK,
		`{"file":"`+file+`","keyIDs":["aa","`+report.New+`"]}`+"\n", "")
}

func TestReplacingAKeyTellsWhatIsLeftToDo(t *testing.T) {
	file := writeFile(t, "keys.json", `{"old":"an-old-secret-of-many-characters"}`, 0o600)
	got := command(t, nil, "", "keys", "new", "--conduit-key-file="+file)
	for _, want := range []string{"Copy the file to the host of the Phorge", "Then restart Gantry. Key old is accepted beside the new one"} {
		if got.code != exitOK || !strings.Contains(got.out, want) || strings.Contains(got.out, "config set") {
			t.Errorf("exit code %d, %s%s\nwant %s", got.code, got.out, got.err, want)
		}
	}
}

func TestAFileOfKeysThatIsWrongIsRefusedAndNotQuoted(t *testing.T) {
	const secret = "hunter2-hunter2-hunter2-hunter2-hunter2"
	for _, c := range []struct{ name, content string }{
		{"no JSON", secret},
		{"a list", `["` + secret + `"]`},
		{"no key", `{}`},
		{"three keys", `{"a":"` + secret + `","b":"` + secret + `","c":"` + secret + `"}`},
		{"a short secret", `{"a":"hunter2"}`},
		{"a secret that is no text", `{"a":["` + secret + `"]}`},
		{"an id that is empty", `{"":"` + secret + `"}`},
		{"more behind it", `{"a":"` + secret + `"} {}`},
		{"a cut file", `{"a":"` + secret + `"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := writeFile(t, "keys.json", c.content, 0o600)
			for _, verb := range []string{"new", "list"} {
				got := command(t, nil, "", "keys", verb, "--conduit-key-file="+file)
				if got.code != exitUsage || !strings.Contains(got.err, "must hold one or two keys") || !strings.Contains(got.err, "move it away, then make a new one") || strings.Contains(got.err, "hunter") {
					t.Errorf("%s: exit code %d, %s", verb, got.code, got.err)
				}
			}
			if content, err := os.ReadFile(file); err != nil || string(content) != c.content {
				t.Errorf("the file became %q, %v", content, err)
			}
		})
	}
	got := command(t, nil, "", "keys", "new")
	if got.code != exitUsage || !strings.Contains(got.err, "name the file of keys with --conduit-key-file") {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
	got = command(t, nil, "", "keys", "new", "--conduit-key-file=/nonexistent/keys.json")
	if got.code != exitFailed || !strings.Contains(got.err, "write the file of keys") {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
}
