package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/token"
)

func TestATokenIsShownOnceAndItsDigestKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	got := command(t, nil, "", "tokens", "new", "build-server", "--rights=enqueue,read", "--sqlite=q.db", "--tokens="+file)
	secret, rest, _ := strings.Cut(got.out, "\n")
	if got.code != exitOK || len(secret) < 26 || !strings.Contains(rest, "This is the token of build-server") || !strings.Contains(rest, "enqueue, read on the instance default") {
		t.Fatalf("exit code %d, %s%s", got.code, got.out, got.err)
	}
	content, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(content), secret) || !strings.Contains(string(content), token.Digest(secret)) {
		t.Errorf("the file holds\n%s%v", content, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	expect(t, command(t, nil, "", "tokens", "list", "--tokens="+file), exitOK, `
NAME          INSTANCE  RIGHTS         METHODS
build-server  default   enqueue, read  -
`[1:], "")
	expect(t, command(t, nil, "", "tokens", "list", "--output=json", "--tokens="+file), exitOK,
		`{"file":"`+file+`","tokens":[{"name":"build-server","instance":"default","rights":["enqueue","read"]}]}`+"\n", "")
}

func TestANewTokenLeavesTheOthersAndTheComments(t *testing.T) {
	for _, before := range []string{
		"# who calls\n", "tokens:\n", "tokens: []\n",
		"# who calls\ntokens:\n- name: a # the first\n  instance: default\n  rights: [work]\n  digest: " + strings.Repeat("0", 64) + "\n  rate: 2.5\n",
	} {
		file := writeFile(t, "tokens.yaml", before, 0o640)
		got := command(t, nil, "", "tokens", "new", "b", "--rights=operate", "--sqlite=q.db", "--tokens="+file)
		if got.code != exitOK {
			t.Errorf("%q: exit code %d, %s", before, got.code, got.err)
			continue
		}
		entries, content, err := readTokens(file)
		last := len(entries) - 1
		if err != nil || last < 0 || entries[last].Name != "b" || last != strings.Count(before, "name: a") || last == 1 && (entries[0].Rate != 2.5 || !strings.Contains(string(content), "# the first")) {
			t.Errorf("%q became\n%s%v", before, content, err)
		}
		if strings.Contains(before, "# who calls") && !strings.Contains(string(content), "# who calls") {
			t.Errorf("a comment is lost:\n%s", content)
		}
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o640 {
			t.Errorf("the file has the mode %v, %v", info.Mode(), err)
		}
	}
}

func TestATokenThatCannotBeMadeIsExplained(t *testing.T) {
	file := writeFile(t, "tokens.yaml", "tokens:\n  - {name: a, instance: default, rights: [read], digest: "+strings.Repeat("0", 64)+"}\n", 0o600)
	two := writeFile(t, "gantry.yaml", "instances: {alpha: {sqlite: a.db}, beta: {sqlite: b.db}}", 0o600)
	for _, c := range []struct{ line, want string }{
		{"new", "name the program that is to have the token"},
		{"new a b", "name the program that is to have the token"},
		{"new a/b --rights=read", "name the program that is to have the token, with at most 64 letters"},
		{"new b", "say what the token may be used for with --rights: enqueue, work, operate, read"},
		{"new b --rights=write", `there is no right "write"; they are enqueue, work, operate, read`},
		{"new b --rights=read --sqlite=q.db", "name the file of tokens with --tokens"},
		{"new a --rights=read --sqlite=q.db --tokens=" + file, "has a token of that name, a"},
		{"new b --rights=read --tokens=" + file, "there is no store"},
		{"new b --rights=read --tokens=" + file + " --config=" + two, "say which one with --instance; they are alpha, beta"},
		{"new b --rights=read --tokens=" + file + " --instance=gamma --config=" + two, "there is no instance gamma; there are alpha, beta"},
		{"list --tokens=" + writeFile(t, "t.yaml", "tokens: [{name: a, token: hunter2}]", 0o600), "field token not found"},
		{"list --tokens=" + writeFile(t, "t.yaml", "hunter2", 0o600), "it must hold `tokens:` with a list of entries"},
		{"list --tokens=" + writeFile(t, "t.yaml", "tokens: [hunter2]", 0o600), "it must hold `tokens:` with a list of entries"},
	} {
		got := command(t, nil, "", append([]string{"tokens"}, strings.Fields(c.line)...)...)
		if got.code != exitUsage || !strings.Contains(got.err, c.want) || strings.Contains(got.err, "hunter") {
			t.Errorf("gantry tokens %s: exit code %d, %s\nwant %s", c.line, got.code, got.err, c.want)
		}
	}
	if content, err := os.ReadFile(file); err != nil || strings.Count(string(content), "name:") != 1 {
		t.Errorf("the file became\n%s%v", content, err)
	}
}

func TestCheckLooksAtTokensAndAtTheAddress(t *testing.T) {
	digest := strings.Repeat("0", 64)
	good := writeFile(t, "good.yaml", "tokens: [{name: a, instance: default, rights: [read], digest: "+digest+"}]", 0o644)
	other := writeFile(t, "other.yaml", "tokens: [{name: a, instance: acme, rights: [read], digest: "+digest+"}]", 0o600)
	for _, c := range []struct{ line, want string }{
		{"--api=127.0.0.1:0", "warning  tokens: there are none, so everybody on this machine may use the queue"},
		{"--api=127.0.0.1:0", "ok       api: this user can listen on 127.0.0.1:0"},
		{"--api=0.0.0.0:0", "problem  api: without a token it listens on this machine only"},
		{"--api=192.0.2.1:0 --tokens=" + good, "problem  api: nobody can listen on 192.0.2.1:0 here: bind: cannot assign requested address"},
		{"--tokens=" + good, "ok       tokens: 1 token for default\nwarning  tokens: " + good + " is where who may use the queue is and everybody on this machine may read it"},
		{"--tokens=" + other, `problem  tokens: token "a": there is no instance "acme"; the instances are default`},
		{"--tokens=/nonexistent", "problem  tokens: read the file of tokens: open /nonexistent"},
	} {
		got := command(t, newMemory(), "", append([]string{"config", "check", "--sqlite=q.db"}, strings.Fields(c.line)...)...)
		if !strings.Contains(got.out, c.want) {
			t.Errorf("gantry config check %s:\n%s%s\nwant %s", c.line, got.out, got.err, c.want)
		}
	}
}

func TestCheckLooksAtEachInstance(t *testing.T) {
	file := writeFile(t, "gantry.yaml", "instances: {alpha: {dsn: u@/a_worker}, beta: {sqlite: beta.db}}", 0o600)
	got := command(t, queued(t, 1, "AcmeWorker"), "", "config", "check", "--config="+file)
	for _, want := range []string{
		"ok       alpha: store: it opens; tasks of 1 class are queued",
		"problem  alpha: plugins: there is no manifest",
		"warning  beta: store: " + filepath.Join(filepath.Dir(file), "beta.db") + " is not there; gantry serve and gantry run make it",
		"warning  beta: plugins: there is no manifest and nothing runs PHP: `gantry serve` works",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("it says\n%s%s\nand not %s", got.out, got.err, want)
		}
	}
}

func TestALookAtAFileThatIsNotThereMakesNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "q.db")
	for _, line := range []string{"tasks list", "tasks enqueue --class=A --data={}", "tasks cancel --id=1"} {
		got := command(t, newMemory(), "", append(strings.Fields(line), "--sqlite="+file)...)
		if got.code != exitUnavailable || !strings.Contains(got.err, "there is no queue at "+file) {
			t.Errorf("gantry %s: exit code %d, %s", line, got.code, got.err)
		}
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file: %v", err)
	}
}

func TestWhatIsQueuedThroughTheAPIWakesTheRuntime(t *testing.T) {
	woken := 0
	m := newMemory()
	w := waking{m, func() { woken++ }}
	ctx := t.Context()
	news := []tasks.NewTask{{Class: "A", Data: []byte("{}")}}
	leased := func() tasks.Task {
		t.Helper()
		found, err := w.LeaseFor(ctx, "printer", tasks.LeaseRequest{Limit: 1, Classes: map[string]tasks.ClassRequest{"A": {Limit: 1, LeaseTime: time.Minute}}})
		if err != nil || len(found) != 1 {
			t.Fatalf("leased %v, %v", found, err)
		}
		return found[0]
	}
	settle := func(o tasks.Outcome) error {
		task := leased()
		_, err := w.SettleLive(ctx, []tasks.Settlement{{ID: task.ID, Lease: *task.Lease, Outcome: o}})
		return err
	}
	for _, c := range []struct {
		name string
		do   func(context.Context) error
		want int
	}{
		{"enqueue", func(ctx context.Context) error { _, err := w.Enqueue(ctx, news); return err }, 1},
		{"enqueue once", func(ctx context.Context) error {
			_, _, err := w.EnqueueOnce(ctx, tasks.Once{Key: "k", Keep: time.Hour}, news)
			return err
		}, 1},
		{"settle", func(context.Context) error { return settle(tasks.Outcome{Kind: tasks.Succeeded}) }, 0},
		{"settle with a follow-up", func(context.Context) error {
			return settle(tasks.Outcome{Kind: tasks.Succeeded, FollowUps: news})
		}, 1},
		{"awaken", func(ctx context.Context) error { _, err := w.Awaken(ctx, []int64{1}); return err }, 1},
	} {
		woken = 0
		if err := c.do(ctx); err != nil || woken != c.want {
			t.Errorf("%s woke it %d times, %v; want %d", c.name, woken, err, c.want)
		}
	}
}
