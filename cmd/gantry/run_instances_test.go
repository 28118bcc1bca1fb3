package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tests/harness"
)

// TestInstancesTogether runs the built program on several queues.
func TestInstancesTogether(t *testing.T) {
	dir := t.TempDir()
	build(t, dir)
	for _, c := range []struct {
		name string
		test func(s *site)
	}{
		{"the same ids in two instances are two tasks", sameIDsAreTwoTasks},
		{"a flood leaves the other instance its turns", floodLeavesTurns},
		{"tasks that never end leave the other instance a turn", hungTasksLeaveTurn},
		{"one signal drains all, and a second stops all", signalsReachAll},
		{"run --until-empty ends when all are empty", untilAllAreEmpty},
		{"a store that goes away takes no other instance along", storeGoesAway},
		{"readiness names the instance", readinessNamesInstance},
		{"the API beside them keeps them apart", apiKeepsInstancesApart},
		{"two Phorges on one server", twoPhorges},
		{"an instance whose tasks others run is served", othersRunTasks},
		{"each Phorge has its own PHP and is told that its queue is drained", phorgesHaveTheirPHP},
		{"what cannot be run is explained", badInstances},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // they mostly wait
			c.test(newPlace(t, dir))
		})
	}
}

// together configures two instances, alpha and beta, that share four slots, and
// answers the socket of a run.
func (s *site) together(beta string, more ...string) (socket string) {
	s.t.Helper()
	socket = filepath.Join(s.t.TempDir(), "s")
	plugins := manifestOf(s.t, filepath.Join(s.dir, "handler-testworker"), "PhabricatorTestWorker", "{}")
	s.configure(fmt.Sprintf("slots: 4\ndrain_timeout: 1h\nlog_level: debug\nsocket: %s\nplugins: %s\n%s\ninstances: {alpha: {sqlite: alpha.db}, beta: {%s}}\n",
		socket, plugins, strings.Join(more, "\n"), beta))
	return socket
}

const sqliteBeta = "sqlite: beta.db"

// startTogether starts a run and waits until it answers, for its queues to be there.
func (s *site) startTogether(socket string) *running {
	s.t.Helper()
	run := s.start("run")
	harness.Eventually(s.t, "it answers", func() bool {
		select {
		case <-run.done:
			s.t.Fatal("it has ended")
		default:
		}
		code, _, _ := ask(s.t.Context(), socket, "/readyz")
		return code == http.StatusOK
	})
	return run
}

// flood queues tasks of so many seconds each in an instance.
func (s *site) flood(instance string, count int, seconds string) {
	s.t.Helper()
	got := s.gantry("tasks", "flood", "--instance="+instance, fmt.Sprint("--count=", count), "--duration="+seconds)
	if got.code != exitOK {
		s.t.Fatalf("flood: exit code %d, %s", got.code, got.err)
	}
}

// becomes waits until what a run tells of its instances is so.
func (s *site) becomes(socket, what string, is func(all, alpha, beta statusReport[json.RawMessage]) bool) {
	s.t.Helper()
	harness.Eventually(s.t, what, func() bool {
		var report statusReport[json.RawMessage]
		err := askStatus(s.t.Context(), socket, &report)
		return err == nil && is(report, report.Instances["alpha"], report.Instances["beta"])
	})
}

// stopAtOnce sends the two signals that stop a run.
func (r *running) stopAtOnce() {
	r.t.Helper()
	r.signal()
	harness.Eventually(r.t, "it drains", func() bool { return strings.Contains(r.err.String(), "stopping; a second signal") })
	r.signal()
}

func didAll(ofAlpha, ofBeta int) func(all, alpha, beta statusReport[json.RawMessage]) bool {
	return func(all, alpha, beta statusReport[json.RawMessage]) bool {
		return alpha.Counts.Succeeded == ofAlpha && beta.Counts.Succeeded == ofBeta && all.Counts.Succeeded == ofAlpha+ofBeta
	}
}

func runs(ofAlpha, ofBeta int) func(all, alpha, beta statusReport[json.RawMessage]) bool {
	return func(all, alpha, beta statusReport[json.RawMessage]) bool {
		return alpha.Running == ofAlpha && beta.Running == ofBeta && all.Running == ofAlpha+ofBeta
	}
}

// ends waits for the end of a run and checks what it says it did.
func (r *running) ends(code int, alpha, beta string) {
	r.t.Helper()
	got := r.wait()
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	if got.code != code || len(lines) != 2 || !strings.HasPrefix(lines[0], "alpha: "+alpha) || !strings.HasPrefix(lines[1], "beta: "+beta) {
		r.t.Errorf("exit code %d, it says it did\n%s\nwant %d, %s and %s", got.code, got.out, code, alpha, beta)
	}
}

func sameIDsAreTwoTasks(s *site) {
	socket := s.together(sqliteBeta)
	run := s.startTogether(socket)
	s.flood("alpha", 300, "0")
	s.flood("beta", 200, "0")
	s.becomes(socket, "all are done", didAll(300, 200))
	for _, instance := range []string{"alpha", "beta"} {
		if got := s.gantry("tasks", "show", "--archived", "--id=7", "--instance="+instance); got.code != exitOK || !strings.Contains(got.out, "succeeded") {
			s.t.Errorf("task 7 of %s: exit code %d, %s%s", instance, got.code, got.out, got.err)
		}
	}
	run.signal()
	run.ends(exitOK, "300 tasks leased: 300 succeeded", "200 tasks leased: 200 succeeded")
}

// settledIn answers the instances of the settled tasks, in the order of the log.
func (r *running) settledIn() (order []string) {
	for line := range strings.Lines(r.err.String()) {
		var event struct{ Instance, Message string }
		if json.Unmarshal([]byte(line), &event) == nil && event.Message == "task settled" {
			order = append(order, event.Instance)
		}
	}
	return order
}

// Without turns the flood would have all slots, for as long as it lasts.
func floodLeavesTurns(s *site) {
	socket := s.together(sqliteBeta)
	run := s.startTogether(socket)
	s.flood("alpha", 10_000, "0.05")
	s.becomes(socket, "the flood has its slots", runs(3, 0))
	s.flood("beta", 20, "0.05")
	s.becomes(socket, "the others are done, and the flood is not", func(_, alpha, beta statusReport[json.RawMessage]) bool {
		return beta.Counts.Succeeded == 20 && alpha.Counts.Succeeded < 10_000
	})
	run.stopAtOnce()
	run.ends(exitOK, "", "20 tasks leased: 20 succeeded")
	order := run.settledIn()
	last := len(order) - 1
	for order[last] != "beta" {
		last--
	}
	// Two turns each: about as many of the one as of the other.
	if during := last + 1 - slices.Index(order, "beta") - 20; during > 100 {
		s.t.Errorf("%d tasks of the flood were settled among 20 others", during)
	}
}

func hungTasksLeaveTurn(s *site) {
	socket := s.together(sqliteBeta)
	run := s.startTogether(socket)
	s.flood("alpha", 10, "3600")
	s.becomes(socket, "they have all slots but one", runs(3, 0))
	s.flood("beta", 10, "0.01")
	s.becomes(socket, "the others are done", didAll(0, 10))
	run.stopAtOnce()
	run.ends(exitOK, "", "10 tasks leased: 10 succeeded")
}

func signalsReachAll(s *site) {
	socket := s.together(sqliteBeta)
	run := s.startTogether(socket)
	s.flood("alpha", 2, "3600")
	s.flood("beta", 2, "3600")
	s.becomes(socket, "all run", runs(2, 2))
	run.signal()
	harness.Eventually(s.t, "both drain", func() bool {
		_, body, err := ask(s.t.Context(), socket, "/readyz")
		return err == nil && string(body) == "instance alpha: stopping, 2 tasks still run\ninstance beta: stopping, 2 tasks still run\n"
	})
	run.signal()
	run.ends(exitOK, "2 tasks leased: 0 succeeded, 0 yielded, 0 to be tried again, 0 failed, 0 crashed, 2 given back",
		"2 tasks leased: 0 succeeded, 0 yielded, 0 to be tried again, 0 failed, 0 crashed, 2 given back")
}

func untilAllAreEmpty(s *site) {
	socket := s.together(sqliteBeta)
	run := s.startTogether(socket) // makes the files
	run.signal()
	run.ends(exitOK, "0 tasks", "0 tasks")
	s.flood("alpha", 30, "0")
	s.flood("beta", 20, "0.01")
	s.start("run", "--until-empty").ends(exitOK, "30 tasks leased: 30 succeeded", "20 tasks leased: 20 succeeded")
	expect(s.t, s.gantry("run", "--until-empty", "--output=json", "--log-level=error"), exitOK, `
{"instance":"alpha","leased":0,"succeeded":0,"yielded":0,"retried":0,"failed":0,"crashed":0,"released":0,"lost":0}
{"instance":"beta","leased":0,"succeeded":0,"yielded":0,"retried":0,"failed":0,"crashed":0,"released":0,"lost":0}
`[1:], "")
}

func storeGoesAway(s *site) {
	server := harness.StartRedis(s.t)
	socket := s.together("redis_file: " + writeFile(s.t, "redis", "unix://"+server.Socket()+"\n", 0o600))
	run := s.startTogether(socket)
	s.flood("beta", 1, "3600")
	s.becomes(socket, "its task runs", runs(0, 1))
	if err := server.Kill(); err != nil {
		s.t.Fatal(err)
	}
	s.flood("alpha", 300, "0.001")
	s.becomes(socket, "the other goes on", didAll(300, 0))
	harness.Eventually(s.t, "readiness says which one", func() bool {
		code, body, err := ask(s.t.Context(), socket, "/readyz")
		return err == nil && code == http.StatusServiceUnavailable && strings.Contains(string(body), "instance beta: runtime: cannot ") &&
			!strings.Contains(string(body), "instance alpha")
	})
	s.becomes(socket, "so does the status", func(all, alpha, beta statusReport[json.RawMessage]) bool {
		return !all.Ready && alpha.Ready && !beta.Ready
	})
	run.stopAtOnce()
	if got := run.wait(); got.code == exitOK || !strings.Contains(got.err, "instance beta: runtime: the outcomes of 1 tasks could not be settled") ||
		!strings.Contains(got.out, "alpha: 300 tasks leased: 300 succeeded") {
		s.t.Errorf("exit code %d, %s", got.code, got.out)
	}
}

func readinessNamesInstance(s *site) {
	unpinned := writeFile(s.t, "plugins.yaml", "plugins:\n  - path: "+filepath.Join(s.dir, "handler-testworker")+"\n    classes: {PhabricatorTestWorker: {}}\n", 0o600)
	socket := s.together(sqliteBeta + ", plugins: " + unpinned)
	run := s.start("run")
	var body []byte
	harness.Eventually(s.t, "one is not ready", func() bool {
		code, text, err := ask(s.t.Context(), socket, "/readyz")
		body = text
		return err == nil && code == http.StatusServiceUnavailable && !strings.Contains(string(text), "it is not running")
	})
	if !strings.Contains(string(body), "instance beta: ") || !strings.Contains(string(body), "class PhabricatorTestWorker cannot run") || strings.Contains(string(body), "instance alpha") {
		s.t.Errorf("readiness says %s", body)
	}
	s.flood("alpha", 10, "0")
	s.flood("beta", 10, "0")
	s.becomes(socket, "the other works", didAll(10, 0))
	got := s.gantry("pool", "status")
	if got.code != exitFailed || !strings.HasPrefix(got.out, "Instance alpha:\nNothing runs PHP here: ") || !strings.Contains(got.out, "\n\nInstance beta:\n") || !strings.Contains(got.err, "instance beta") {
		s.t.Errorf("pool status: exit code %d, %s%s", got.code, got.out, got.err)
	}
	if got := s.gantry("top", "--once"); got.code != exitOK || !strings.Contains(got.out, "alpha/acme") {
		s.t.Errorf("top: exit code %d, %s%s", got.code, got.out, got.err)
	}
	run.signal()
	run.ends(exitOK, "10 tasks", "0 tasks")
}

func apiKeepsInstancesApart(s *site) {
	socket := s.together(sqliteBeta, "api: 127.0.0.1:0", "tokens: tokens.yaml", "idle_poll: 1h")
	a := s.newToken("a", "--instance=alpha", "--rights=enqueue,work,read")
	b := s.newToken("b", "--instance=beta", "--rights=enqueue,work,read")
	run := s.startTogether(socket)
	alpha, beta := run.client(a), run.client(b)
	const work = `{"taskClass":"PhabricatorTestWorker","data":"{}"}`
	alpha.want(`"id":1,`, "/api/queue/enqueue", work)
	beta.want(`"id":1,`, "/api/queue/enqueue", `{"taskClass":"Greet","data":"{}"}`)
	s.becomes(socket, "its runtime was woken", didAll(1, 0))
	alpha.want(`"taskClass":"PhabricatorTestWorker"`, "/api/queue/tasks/1", "")
	beta.want(`"taskClass":"Greet"`, "/api/queue/tasks/1", "")
	alpha.want(`[]`, "/api/queue/lease", `{"limit":9}`)
	beta.want(`"taskClass":"Greet"`, "/api/queue/lease", `{"limit":9}`)
	alpha.refused(http.StatusConflict, "ERR_LEASE_CONFLICT", "/api/queue/complete", `{"taskID":1}`)
	run.signal()
	run.ends(exitOK, "1 task leased: 1 succeeded", "0 tasks")
}

// twoPhorges has two namespaces of one server drained by one Gantry, over the
// API and from the tables, while a taskmaster's lease is in one of them.
func twoPhorges(s *site) {
	db := map[string]*sql.DB{}
	var instances []string
	for _, name := range []string{"alpha", "beta"} {
		dsn := harness.Namespace(s.t)
		db[name] = harness.Open(s.t, dsn)
		instances = append(instances, name+": {dsn_file: "+writeFile(s.t, "dsn", dsn, 0o600)+"}")
	}
	plugins := manifestOf(s.t, filepath.Join(s.dir, "handler-testworker"), "PhabricatorTestWorker", "{}")
	socket := filepath.Join(s.t.TempDir(), "s")
	s.configure(fmt.Sprintf("slots: 4\nsocket: %s\nplugins: %s\napi: 127.0.0.1:0\ntokens: tokens.yaml\ninstances: {%s}\n",
		socket, plugins, strings.Join(instances, ", ")))
	tokens := map[string]string{}
	for _, name := range []string{"alpha", "beta"} {
		if got := s.gantry("storage", "upgrade", "--instance="+name); got.code != exitOK {
			s.t.Fatalf("storage upgrade: exit code %d, %s", got.code, got.err)
		}
		tokens[name] = s.newToken(name, "--instance="+name, "--rights=enqueue,work,read")
	}
	s.flood("alpha", 500, "0")
	s.flood("beta", 300, "0")
	stock := "UPDATE worker_activetask SET leaseOwner = '4711:1700000000:host:1', leaseExpires = UNIX_TIMESTAMP() + 7200 WHERE id = 7"
	if _, err := db["alpha"].ExecContext(s.t.Context(), stock); err != nil {
		s.t.Fatal(err)
	}
	run := s.startTogether(socket)
	s.becomes(socket, "all are done but the one of the taskmaster", didAll(499, 300))
	alpha, beta := run.client(tokens["alpha"]), run.client(tokens["beta"])
	alpha.want(`"activeCount":1`, "/api/queue/stats", "")
	beta.want(`"activeCount":0`, "/api/queue/stats", "")
	alpha.want(`"leaseOwner":"4711:1700000000:host:1"`, "/api/queue/tasks/7", "")
	beta.want(`"result":0`, "/api/queue/tasks/7", "")
	beta.want(`"id":`, "/api/queue/enqueue", `{"taskClass":"Greet","data":"{}"}`)
	alpha.want(`[]`, "/api/queue/lease", `{"taskClasses":["Greet"]}`)
	beta.want(`"taskClass":"Greet"`, "/api/queue/lease", `{"taskClasses":["Greet"]}`)
	run.signal()
	run.ends(exitOK, "499 tasks leased: 499 succeeded", "300 tasks leased: 300 succeeded")
	for name, want := range map[string]string{"alpha": "1 active, 499 archived, 499 of them once", "beta": "1 active, 300 archived, 300 of them once"} {
		var got string
		err := db[name].QueryRowContext(s.t.Context(), `SELECT CONCAT((SELECT COUNT(*) FROM worker_activetask), ' active, ',
			COUNT(*), ' archived, ', COUNT(DISTINCT id), ' of them once') FROM worker_archivetask WHERE result = 0`).Scan(&got)
		if err != nil || got != want {
			s.t.Errorf("%s has %s, %v; want %s", name, got, err, want)
		}
	}
}

func phorgesHaveTheirPHP(s *site) {
	var namespaces, configs []string
	for _, name := range []string{"alpha", "beta"} {
		dsn := harness.Namespace(s.t)
		s.db = harness.Open(s.t, dsn)
		namespace := namespaceIn(dsn)
		s.daemonLog(namespace)
		namespaces = append(namespaces, namespace)
		configs = append(configs, fmt.Sprintf("%s: {phorge: %s, php_binary: %s, php_processes: 1}",
			name, phorgeWith(s.t, namespace), fakePHP(s.t, namespace, "PhabricatorSearchWorker")))
	}
	socket := filepath.Join(s.t.TempDir(), "s")
	s.configure("socket: " + socket + "\ninstances: {" + strings.Join(configs, ", ") + "}\n")
	run := s.startTogether(socket)
	got := s.gantry("pool", "status")
	_, beta, both := strings.Cut(got.out, "Instance beta:")
	if got.code != exitOK || !both || !strings.Contains(beta, "namespace "+namespaces[1]+".") || strings.Count(got.out, "namespace "+namespaces[0]+".") != 1 {
		s.t.Errorf("pool status: exit code %d, %s%s", got.code, got.out, got.err)
	}
	for _, namespace := range namespaces {
		harness.Eventually(s.t, "Phorge is told that its queue is drained", func() bool { return s.count(beats("run", namespace)) == 1 })
	}
	run.signal()
	run.ends(exitOK, "0 tasks", "0 tasks")
	for _, namespace := range namespaces {
		if n := s.count(beats("exit", namespace)); n != 1 {
			s.t.Errorf("%s is told of %d clean ends", namespace, n)
		}
	}
}

// othersRunTasks has an instance beside a working one that nothing here runs.
func othersRunTasks(s *site) {
	plugins := manifestOf(s.t, filepath.Join(s.dir, "handler-testworker"), "PhabricatorTestWorker", "{}")
	s.configure("api: 127.0.0.1:0\ntokens: tokens.yaml\nslots: 2\ninstances: {alpha: {sqlite: alpha.db, plugins: " + plugins + "}, beta: {sqlite: beta.db}}\n")
	a := s.newToken("a", "--instance=alpha", "--rights=enqueue,read")
	b := s.newToken("b", "--instance=beta", "--rights=enqueue,work,read")
	run := s.start("run")
	alpha, beta := run.client(a), run.client(b)
	const work = `{"taskClass":"PhabricatorTestWorker","data":"{}"}`
	alpha.want(`"id":1,`, "/api/queue/enqueue", work)
	beta.want(`"id":1,`, "/api/queue/enqueue", work)
	harness.Eventually(s.t, "the one is run here", func() bool {
		_, data := alpha.call("/api/queue/tasks?state=archived", "")
		return strings.Contains(data, `"result":0`)
	})
	beta.want(`"id":1,`, "/api/queue/lease", `{}`)
	run.signal()
	if got := run.wait(); got.code != exitOK || got.out != "alpha: 1 task leased: 1 succeeded, 0 yielded, 0 to be tried again, 0 failed, 0 crashed, 0 given back, 0 lost\n" {
		s.t.Errorf("exit code %d, %s", got.code, got.out)
	}
}

func badInstances(s *site) {
	for _, c := range []struct {
		name, config string
		code         int
		want         string
	}{
		{"a store that cannot be opened", "plugins: PLUGINS\ninstances: {alpha: {sqlite: alpha.db}, beta: {sqlite: /nonexistent/beta.db}}",
			exitUnavailable, "gantry: instance beta: "},
		{"fewer slots than instances", "plugins: PLUGINS\nslots: 1\ninstances: {alpha: {sqlite: alpha.db}, beta: {sqlite: beta.db}}",
			exitUsage, "slots is 1, and 2 instances share them: each needs one, so raise it"},
		{"nothing to run in one", "instances: {alpha: {sqlite: alpha.db, plugins: PLUGINS}, beta: {sqlite: beta.db}}",
			exitUsage, "instance beta: there is nothing to run"},
		{"nothing to run in any", "api: 127.0.0.1:0\ninstances: {alpha: {sqlite: alpha.db}, beta: {sqlite: beta.db}}",
			exitUsage, "none of the instances has anything to run"},
	} {
		s.t.Run(c.name, func(t *testing.T) {
			s := newPlace(t, s.dir)
			plugins := manifestOf(t, filepath.Join(s.dir, "handler-testworker"), "PhabricatorTestWorker", "{}")
			s.configure(strings.ReplaceAll(c.config, "PLUGINS", plugins))
			got := s.gantry("run")
			if got.code != c.code || !strings.Contains(got.err, c.want) || strings.Contains(got.err, `"serving"`) || strings.Contains(got.err, "instance alpha") {
				t.Errorf("exit code %d, %s", got.code, got.err)
			}
			if !strings.Contains(c.config, "slots") {
				return
			}
			if got := s.gantry("config", "check"); got.code != exitFailed || !strings.Contains(got.out, "slots: "+c.want) {
				t.Errorf("config check: exit code %d, %s%s", got.code, got.out, got.err)
			}
		})
	}
}
