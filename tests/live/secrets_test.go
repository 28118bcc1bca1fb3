package live

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/bridge/pool"
)

// TestTheKeyIsNowhereToBeSeen looks wherever something is shown or kept, after
// calls of every kind and while everything runs: with the key in its file, and
// in the hidden option.
func TestTheKeyIsNowhereToBeSeen(t *testing.T) {
	g := newGround(t)
	inOption := map[string]any{
		"gantry.key-file": nil,
		"gantry.keys":     map[string]string{g.keys[0].ID: g.keys[0].Secret, g.keys[1].ID: g.keys[1].Secret},
	}
	for name, options := range map[string]map[string]any{"in a file": {}, "in the option": inOption} {
		t.Run(name, func(t *testing.T) {
			g.configured(t, options, func() { g.lookForKeys(t) })
		})
	}
}

func (g *ground) lookForKeys(t *testing.T) {
	processes, err := pool.New(pool.Config{Command: g.PoolCommand(), Log: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer processes.Close()
	if err := processes.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	task := g.lease(t, map[string]any{"doWork": "fail-temporary"})
	g.showAnswers(t, task, shown)
	g.showPages(t, task, shown)
	if shown["logs"], err = g.web.Logs(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(shown["logs"], "Refused a call") {
		t.Error("a refusal is not in the log")
	}
	for _, kind := range []string{"cmdline", "environ"} {
		files, err := filepath.Glob("/proc/[0-9]*/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil {
				shown[file] = string(text)
			}
		}
	}
	for where, text := range shown {
		for _, key := range g.keys {
			// A stack trace shows the beginning of a text.
			if strings.Contains(text, key.Secret[:16]) {
				t.Errorf("the key %q is shown in %s", key.ID, where)
			}
		}
	}
}

// showAnswers makes calls of every kind.
func (g *ground) showAnswers(t *testing.T, task leased, shown map[string]string) {
	for name, call := range map[string]signedCall{
		"an honest call": g.newCall(t, task),
		"a refused call": with(g.newCall(t, task), func(c *signedCall) { c.namespace = "other" }),
		"a broken call":  with(g.newCall(t, task), func(c *signedCall) { c.body = "{" }),
	} {
		got, err := g.send(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		shown[name] = got.text
	}
	g.configured(t, map[string]any{"gantry.keys": map[string]string{"a key": g.keys[0].Secret}}, func() {
		got, err := g.send(t.Context(), g.newCall(t, task))
		if err != nil || got.Code != "ERR-GANTRY-SETUP" {
			t.Errorf("keys that are unusable were answered with %s, %v", got.text, err)
		}
		shown["a call where the keys are unusable"] = got.text
	})
}

// showPages reads what an administrator sees.
func (g *ground) showPages(t *testing.T, task leased, shown map[string]string) {
	session, err := g.PHP(t.Context(), "session.php", g.world.Alice.PHID)
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	for _, path := range []string{
		"/config/", "/config/edit/gantry.keys/", "/config/edit/gantry.key-file/", "/config/settings/", "/config/settings/advanced/",
		"/config/issue/", "/daemon/", "/daemon/task/" + itoa(task.ID) + "/", "/conduit/method/worker.execute/", "/conduit/log/",
	} {
		status, text := g.page(t, path, session)
		if status == http.StatusOK {
			pages++
		}
		shown[path] = text
	}
	if option := shown["/config/edit/gantry.keys/"]; pages < 7 || !strings.Contains(option, "gantry.keys") {
		t.Errorf("%d pages were shown, and of the option for the keys:\n%.2000s", pages, option)
	}
}

// page answers a page as a person who is logged in sees it.
func (g *ground) page(t *testing.T, path, session string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.web.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.AddCookie(&http.Cookie{Name: "phusr", Value: "alice"})
	request.AddCookie(&http.Cookie{Name: "phsid", Value: session})
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}
