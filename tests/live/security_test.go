package live

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/phorge-gantry/gantry/tests/harness"
)

const credential = "ERR-GANTRY-CREDENTIAL"

// TestCallsWithoutAValidCredentialAreRefusedAlike spoils one thing at a time.
// The answer to each is the same, byte for byte.
func TestCallsWithoutAValidCredentialAreRefusedAlike(t *testing.T) {
	g := newGround(t)
	task := g.lease(t, nil)
	other := g.lease(t, nil)
	param := func(name string, value any) func(*signedCall) {
		return func(c *signedCall) {
			c.params = func(all map[string]any) {
				if value == nil {
					delete(all, name)
				} else {
					all[name] = value
				}
			}
		}
	}
	spoiled := map[string]func(*signedCall){
		"no signature":                 param("signature", nil),
		"an empty signature":           param("signature", ""),
		"a signature that is a list":   param("signature", []string{strings.Repeat("0", 64)}),
		"another signature":            param("signature", strings.Repeat("0", 64)),
		"another secret":               func(c *signedCall) { c.key.Secret = strings.Repeat("x", 40) },
		"the secret of the other key":  func(c *signedCall) { c.key.Secret = g.keys[1].Secret },
		"an unknown key":               func(c *signedCall) { c.key.ID = "third" },
		"no key":                       param("keyID", nil),
		"a key that is a number":       param("keyID", 0),
		"another body":                 param("body", fmt.Sprintf(`{"mode":"run","tasks":[{"id":%d,"taskClass":"%s","leaseOwner":"%s"}]}`, other.ID, other.Class, other.Owner)),
		"a body that is a map":         param("body", map[string]any{"mode": "run"}),
		"a timestamp of two min ago":   func(c *signedCall) { c.timestamp -= 120 },
		"a timestamp in two min":       func(c *signedCall) { c.timestamp += 120 },
		"a timestamp that is a text":   param("timestamp", "now"),
		"a timestamp that was changed": param("timestamp", 1),
		"another nonce":                param("nonce", strings.Repeat("a", 32)),
		"no nonce":                     param("nonce", nil),
		"another namespace":            func(c *signedCall) { c.namespace = "other" },
		"the signature of another method": func(c *signedCall) {
			signed := *c
			signed.name = "worker.capabilities"
			mine := signed.form()
			c.params = func(all map[string]any) { all["signature"] = signatureOf(t, mine.Get("params")) }
		},
	}
	answers := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(spoiled)) {
		call := g.newCall(t, task)
		spoiled[name](&call)
		got, err := g.send(t.Context(), call)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Code != credential {
			t.Errorf("%s: answered %s", name, got.text)
		}
		answers[got.text] = append(answers[got.text], name)
	}
	if len(answers) != 1 {
		t.Errorf("the answers tell more than that the call was refused: %v", answers)
	}
	if g.ran(t, task.ID)+g.ran(t, other.ID) != 0 {
		t.Error("a refused call ran a task")
	}
	g.accepted(t, g.newCall(t, task))
}

// accepted makes sure that a call is served, which proves that the others were
// refused for the one thing that was wrong with them.
func (g *ground) accepted(t *testing.T, call signedCall) {
	t.Helper()
	got, err := g.send(t.Context(), call)
	if err != nil || got.Code != "" || len(got.Result.Tasks) == 0 || got.Result.Tasks[0].State != "done" {
		t.Errorf("an honest call was answered with %s, %v", got.text, err)
	}
}

func TestANonceIsGoodForOneCall(t *testing.T) {
	g := newGround(t)
	task := g.lease(t, nil)
	call := g.newCall(t, task)
	g.accepted(t, call)
	if again, err := g.send(t.Context(), call); err != nil || again.Code != credential {
		t.Errorf("a call that is replayed was answered with %s, %v", again.text, err)
	}
	if n := g.ran(t, task.ID); n != 1 {
		t.Errorf("the task ran %d times", n)
	}

	// At the same moment, from two connections: two calls with one nonce, each
	// for a task of its own.
	for range 5 {
		tasks := [2]leased{g.lease(t, nil), g.lease(t, nil)}
		calls := [2]signedCall{g.newCall(t, tasks[0]), g.newCall(t, tasks[1])}
		calls[1].nonce = calls[0].nonce
		var answers [2]answer
		var errs [2]error
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() { answers[i], errs[i] = g.send(t.Context(), calls[i]) })
		}
		wg.Wait()
		refused := 0
		for i := range answers {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			if answers[i].Code == credential {
				refused++
			}
		}
		if runs := g.ran(t, tasks[0].ID) + g.ran(t, tasks[1].ID); refused != 1 || runs != 1 {
			t.Errorf("two calls with one nonce: %d refused and %d tasks run, want 1 and 1", refused, runs)
		}
	}
}

// TestTasksThatAreNotReallyLeasedAreRefused has a valid signature each time: a
// stolen key runs nothing but what is queued and leased.
func TestTasksThatAreNotReallyLeasedAreRefused(t *testing.T) {
	g := newGround(t)
	q := openQueue(t, g.Phorge)
	for _, c := range []struct {
		name, code string
		class      string
		spoil      func(*leased)
		sql        string
	}{
		{name: "a class that is not allowed", code: "class-not-allowed", class: "PhabricatorRepositoryPushMailWorker"},
		{name: "a class in another spelling", code: "class-not-allowed", spoil: func(l *leased) { l.Class = strings.ToLower(l.Class) }},
		{name: "a class with a backslash before it", code: "class-not-allowed", spoil: func(l *leased) { l.Class = `\` + l.Class }},
		{name: "a class that is allowed, of a row that has another", code: "not-leased", spoil: func(l *leased) { l.Class = "PhabricatorTestWorker" }},
		{name: "another owner", code: "not-leased", spoil: func(l *leased) { l.Owner += "x" }},
		{name: "an owner in another case", code: "not-leased", spoil: func(l *leased) { l.Owner = strings.ToUpper(l.Owner) }},
		{name: "an owner with a space after it", code: "not-leased", spoil: func(l *leased) { l.Owner += " " }},
		{name: "another id", code: "not-leased", spoil: func(l *leased) { l.ID += 1000 }},
		{name: "a lease that has expired", code: "not-leased", sql: "UPDATE worker_activetask SET leaseExpires = UNIX_TIMESTAMP() - 1 WHERE id = ?"},
		{name: "a row without a lease", code: "not-leased", sql: "UPDATE worker_activetask SET leaseOwner = NULL, leaseExpires = NULL WHERE id = ?"},
		{name: "a row that is gone", code: "not-leased", sql: "DELETE FROM worker_activetask WHERE id = ?"},
		{name: "a class that is no worker", code: "not-a-worker", class: "PhabricatorUser"},
	} {
		t.Run(c.name, func(t *testing.T) {
			class := c.class
			if class == "" {
				class = harness.LiveWorker
			}
			task, good := g.leaseOf(t, class, nil), g.lease(t, nil)
			id := task.ID
			if c.spoil != nil {
				c.spoil(&task)
			}
			if c.sql != "" {
				q.exec(t, c.sql, id)
			}
			got, err := g.send(t.Context(), g.newCall(t, task, good))
			if err != nil || len(got.Result.Tasks) != 2 {
				t.Fatalf("answered %s, %v", got.text, err)
			}
			if first := got.Result.Tasks[0]; first.State != "refused" || first.Code != c.code || first.Outcome != nil {
				t.Errorf("the task was answered with %+v, want it refused as %s", first, c.code)
			}
			if second := got.Result.Tasks[1]; second.State != "done" || g.ran(t, good.ID) != 1 {
				t.Errorf("the good task beside it was answered with %+v and ran %d times", second, g.ran(t, good.ID))
			}
			if n := g.ran(t, id); n != 0 {
				t.Errorf("the refused task ran %d times", n)
			}
		})
	}
	t.Run("a row that bin/worker has cancelled", func(t *testing.T) {
		task := g.lease(t, nil)
		if _, err := g.Bin(t.Context(), "worker", "cancel", "--id", itoa(task.ID)); err != nil {
			t.Fatal(err)
		}
		got, err := g.send(t.Context(), g.newCall(t, task))
		if err != nil || len(got.Result.Tasks) != 1 || got.Result.Tasks[0].Code != "not-leased" || g.ran(t, task.ID) != 0 {
			t.Errorf("answered %s, %v; it ran %d times", got.text, err, g.ran(t, task.ID))
		}
	})
}

func TestCallsThatAreWrongAsAWholeAreRefused(t *testing.T) {
	g := newGround(t)
	task := g.lease(t, nil)
	many := slices.Repeat([]leased{task}, 65)
	for name, c := range map[string]struct {
		call signedCall
		code string
	}{
		"GET":               {with(g.newCall(t, task), func(c *signedCall) { c.method = "GET" }), "ERR-GANTRY-METHOD"},
		"a body too large":  {with(g.newCall(t, task), func(c *signedCall) { c.body += strings.Repeat(" ", 1<<16) }), "ERR-GANTRY-TOO-LARGE"},
		"9 MB":              {with(g.newCall(t, task), func(c *signedCall) { c.body += strings.Repeat(" ", 9<<20) }), "ERR-GANTRY-TOO-LARGE"},
		"65 tasks":          {g.newCall(t, many...), "ERR-GANTRY-REQUEST"},
		"no tasks":          {g.newCall(t), "ERR-GANTRY-REQUEST"},
		"an unknown mode":   {with(g.newCall(t, task), func(c *signedCall) { c.body = strings.Replace(c.body, "run", "walk", 1) }), "ERR-GANTRY-REQUEST"},
		"a body of no JSON": {with(g.newCall(t, task), func(c *signedCall) { c.body = "{" }), "ERR-GANTRY-REQUEST"},
	} {
		if got, err := g.send(t.Context(), c.call); err != nil || got.Code != c.code {
			t.Errorf("%s: answered %.300s, %v; want %s", name, got.text, err, c.code)
		}
	}
	for name, c := range map[string]struct {
		options map[string]any
		code    string
	}{
		"an address that is not allowed": {map[string]any{"gantry.allowed-addresses": []string{"10.1.2.0/24"}}, "ERR-GANTRY-ADDRESS"},
		"a Phorge that is read-only":     {map[string]any{"cluster.read-only": true}, "ERR-GANTRY-READ-ONLY"},
		"a key file that is not there":   {map[string]any{"gantry.key-file": "/none"}, "ERR-GANTRY-SETUP"},
		"a list of classes that is empty": {map[string]any{"gantry.task-classes": []string{}},
			""},
	} {
		g.configured(t, c.options, func() {
			got, err := g.send(t.Context(), g.newCall(t, task))
			refused := got.Code
			if c.code == "" && len(got.Result.Tasks) == 1 && got.Result.Tasks[0].Code != "class-not-allowed" {
				refused = got.Result.Tasks[0].Code + " of the task"
			}
			if err != nil || refused != c.code {
				t.Errorf("%s: answered %.300s, %v; want %s", name, got.text, err, c.code)
			}
		})
	}
	if n := g.ran(t, task.ID); n != 0 {
		t.Errorf("refused calls ran the task %d times", n)
	}
	g.accepted(t, g.newCall(t, task))
}

func with(c signedCall, change func(*signedCall)) signedCall {
	change(&c)
	return c
}

// TestStrangersAreSlowedDownAndTheOwnerOfAKeyIsNot goes on until refusals are
// refused.
func TestStrangersAreSlowedDownAndTheOwnerOfAKeyIsNot(t *testing.T) {
	g := newGround(t)
	before := g.snapshot(t)
	defer g.restore(t, before)
	task := g.lease(t, nil)
	for n := 0; ; n++ {
		call := g.newCall(t, task)
		call.key.Secret = strings.Repeat("x", 40)
		got, err := g.send(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		if got.Code == "ERR-GANTRY-RATE" {
			break
		}
		if got.Code != credential || n > 500 {
			t.Fatalf("refusal %d is %s", n, got.text)
		}
	}
	g.accepted(t, g.newCall(t, task))
}

func TestBothKeysAreLiveWhileOneReplacesTheOther(t *testing.T) {
	g := newGround(t)
	for _, key := range g.keys {
		call := g.newCall(t, g.lease(t, nil))
		call.key = key
		g.accepted(t, call)
	}
}

// TestARunWhoseAnswerWasLostIsFoundAndNotRepeated asks twice for the same lease.
func TestARunWhoseAnswerWasLostIsFoundAndNotRepeated(t *testing.T) {
	g := newGround(t)
	for _, data := range []map[string]any{nil, {"doWork": "fail-temporary"}, {"doWork": "fail-permanent"}} {
		task := g.lease(t, data)
		first, err := g.send(t.Context(), g.newCall(t, task))
		if err != nil {
			t.Fatal(err)
		}
		lookup := g.newCall(t, task)
		lookup.body = strings.Replace(lookup.body, `"run"`, `"lookup"`, 1)
		for name, call := range map[string]signedCall{"run": g.newCall(t, task), "lookup": lookup} {
			again, err := g.send(t.Context(), call)
			if err != nil || again.text != first.text || first.Code != "" {
				t.Errorf("%s was answered with %s, %v; the first run with %s", name, again.text, err, first.text)
			}
		}
		if n := g.ran(t, task.ID); n != 1 {
			t.Errorf("the task ran %d times", n)
		}
	}
}
