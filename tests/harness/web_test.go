package harness

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestPHPIsServedThroughNginxAndFPMUntilTheyAreStopped(t *testing.T) {
	root := t.TempDir()
	const script = `<?php error_log('seen'); echo $_GET['__path__'].' '.getmypid().' '.file_get_contents('php://input');`
	if err := os.WriteFile(filepath.Join(root, "index.php"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := StartWeb(root, 2)
	if err != nil {
		t.Fatal(err)
	}
	ask := func() string {
		response, err := http.Post(w.URL()+"/some/path", "text/plain", strings.NewReader("the body"))
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	answers := func() bool {
		got := ask()
		return strings.HasPrefix(got, "/some/path ") && strings.HasSuffix(got, " the body")
	}
	if !answers() {
		t.Errorf("it answers %q", ask())
	}
	before := w.Children()
	if len(before) != 2 {
		t.Fatalf("php-fpm has the children %v, want two", before)
	}
	if err := syscall.Kill(before[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "a killed child is replaced", func() bool {
		now := w.Children()
		return len(now) == 2 && now[0] != before[0] && now[1] != before[0]
	})
	for name, kill := range map[string][2]func() error{
		"php-fpm": {w.KillFPM, w.StartFPM},
		"nginx":   {w.KillNginx, w.StartNginx},
	} {
		for _, f := range kill {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}
		if !answers() {
			t.Errorf("after %s was killed and started it answers %q", name, ask())
		}
	}
	if logs, err := w.Logs(); err != nil || !strings.Contains(logs, "seen") || !strings.Contains(logs, "POST /some/path") {
		t.Errorf("the logs lack something: %v\n%s", err, logs)
	}
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	if left := w.Children(); len(left) != 0 {
		t.Errorf("children %v are left", left)
	}
	if _, err := os.Stat(w.dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", w.dir, err)
	}
}

func TestAPersonOfAWorldCallsConduit(t *testing.T) {
	p := Live(t)
	w, err := p.StartWeb(1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	}()
	world, err := p.MakeWorld(t.Context(), "http://127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	text, err := w.Conduit(t.Context(), world.Alice, "user.whoami", nil)
	var who struct{ PHID, UserName string }
	if err == nil {
		err = json.Unmarshal(text, &who)
	}
	if err != nil || who.PHID != world.Alice.PHID || who.UserName != "alice" {
		t.Errorf("answered %s, %v", text, err)
	}
	if _, err := w.Conduit(t.Context(), Person{Token: "api-none"}, "user.whoami", nil); err == nil {
		t.Error("a wrong token is nobody's, and was taken")
	}
}
