package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/phorge-gantry/gantry/tasks/embedded"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// TestServed runs the built program as the queue of other programs.
func TestServed(t *testing.T) {
	dir := t.TempDir()
	build(t, dir)
	for _, c := range []struct {
		name string
		test func(s *site)
	}{
		{"a queue in one file outlives its server", fileOutlivesServer},
		{"the README shows calls that work", readmeWorks},
		{"the token says which instance and what for", tokenSaysInstance},
		{"a Redis holds the queues of several instances", redisHoldsInstances},
		{"the token of Gorge has all rights", gorgeTokenHasAllRights},
		{"run serves the queue beside the runtime", runServes},
		{"the first signal lets calls end", firstSignalLetsCallsEnd},
		{"the second signal ends the server at once", secondSignalEndsServer},
		{"what cannot be served is explained", badServes},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(newPlace(t, dir)) })
	}
	t.Run("the queue of a Phorge is served under its namespace", func(t *testing.T) { phorgeIsServed(newSite(t, dir)) })
	t.Run("one queue under two names is refused", func(t *testing.T) { oneQueueTwiceIsRefused(newPlace(t, dir), newSite(t, dir).dsn) })
}

// newPlace is an installed Gantry without a Phorge.
func newPlace(t *testing.T, dir string) *site {
	t.Helper()
	config := writeFile(t, "gantry.yaml", "sqlite: queue.db\n", 0o600)
	return &site{t: t, dir: dir, env: []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "GANTRY_CONFIG=" + config}}
}

// configure gives the place another configuration.
func (s *site) configure(content string) {
	s.t.Helper()
	s.env = append(s.env, "GANTRY_CONFIG="+writeFile(s.t, "gantry.yaml", content, 0o600))
}

var servedAt = regexp.MustCompile(`"address":"([^"]+)".*"message":"serving the queue over HTTP"`)

// client calls a server that was started.
type client struct {
	t     *testing.T
	url   string
	token string
}

func (r *running) client(token string) client {
	r.t.Helper()
	var found []string
	harness.Eventually(r.t, "it serves", func() bool {
		found = servedAt.FindStringSubmatch(r.err.String())
		return found != nil
	})
	return client{r.t, "http://" + found[1], token}
}

// call makes a call and answers the status, and the data of the envelope or the
// code of its error.
func (c client) call(path, body string) (int, string) {
	c.t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Lease-Owner", "printer")
	if c.token != "" {
		request.Header.Set("X-Service-Token", c.token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	var envelope struct {
		Data  json.RawMessage
		Error struct{ Code string }
	}
	if err := json.Unmarshal(content, &envelope); err != nil {
		c.t.Fatalf("%s answers %d: %s", path, answer.StatusCode, content)
	}
	if envelope.Error.Code != "" {
		return answer.StatusCode, envelope.Error.Code
	}
	return answer.StatusCode, string(envelope.Data)
}

// want makes a call that must answer data with a part.
func (c client) want(part, path, body string) string {
	c.t.Helper()
	status, data := c.call(path, body)
	if status != http.StatusOK || !strings.Contains(data, part) {
		c.t.Fatalf("%s answers %d, %s; want %s", path, status, data, part)
	}
	return data
}

// refused makes a call that must be refused.
func (c client) refused(status int, code, path, body string) {
	c.t.Helper()
	if s, said := c.call(path, body); s != status || said != code {
		c.t.Errorf("%s answers %d, %s; want %d, %s", path, s, said, status, code)
	}
}

const greet = `{"taskClass":"Greet","data":"{}"}`

func fileOutlivesServer(s *site) {
	serve := s.start("serve", "--api=127.0.0.1:0")
	c := serve.client("")
	c.want(`"id":1,`, "/api/queue/enqueue", greet)
	c.want(`"id":2,`, "/api/queue/enqueue", greet)
	var leased []struct{ ID, Fence int64 }
	if err := json.Unmarshal([]byte(c.want(`"leaseOwner":"printer"`, "/api/queue/lease", `{"limit":1}`)), &leased); err != nil || len(leased) != 1 {
		s.t.Fatalf("leased %v, %v", leased, err)
	}
	serve.send(syscall.SIGKILL)
	serve.wait()

	serve = s.start("serve", "--api=127.0.0.1:0")
	c = serve.client("")
	body, err := json.Marshal(map[string]int64{"taskID": leased[0].ID, "fence": leased[0].Fence})
	if err != nil {
		s.t.Fatal(err)
	}
	c.want(`"result":0`, "/api/queue/complete", string(body))
	c.want(`"activeCount":1`, "/api/queue/stats", "")
	if got := s.gantry("tasks", "list"); got.code != exitOK || !strings.Contains(got.out, "Greet       1       0        0        0  unknown") {
		s.t.Errorf("beside it, tasks list says %d, %s%s", got.code, got.out, got.err)
	}
	serve.signal()
	if got := serve.wait(); got.code != exitOK || got.out != "" || !strings.Contains(got.err, "no token is configured, so it listens on this machine only") ||
		strings.Count(got.err, `"message":"queue API"`) != 2 {
		s.t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
}

var (
	shownCall  = regexp.MustCompile(`(?m)^    curl -s localhost:8090(/\S+) --json '([^']*)'$`)
	shownFence = regexp.MustCompile(`"fence":\d+`)
)

// readmeWorks makes the calls of the README, one after the other.
func readmeWorks(s *site) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		s.t.Fatal(err)
	}
	calls := shownCall.FindAllStringSubmatch(string(readme), -1)
	if len(calls) != 3 {
		s.t.Fatalf("the README shows %d calls", len(calls))
	}
	c := s.start("serve", "--api=127.0.0.1:0").client("")
	fence := ""
	for _, call := range calls {
		data := c.want(`"id":1,`, call[1], shownFence.ReplaceAllString(call[2], fence))
		fence = shownFence.FindString(data)
	}
	c.want(`"succeededCount":1`, "/api/queue/stats", "")
}

// newToken makes a token with the command.
func (s *site) newToken(args ...string) string {
	s.t.Helper()
	got := s.gantry(append([]string{"tokens", "new", "--output=json"}, args...)...)
	var made tokenReport
	if err := json.Unmarshal([]byte(got.out), &made); err != nil || got.code != exitOK || made.Token == "" {
		s.t.Fatalf("tokens new: exit code %d, %s%s", got.code, got.out, got.err)
	}
	return made.Token
}

func tokenSaysInstance(s *site) {
	s.configure("tokens: tokens.yaml\ninstances: {alpha: {sqlite: alpha.db}, beta: {sqlite: beta.db}}\n")
	a := s.newToken("a", "--instance=alpha", "--rights=enqueue,work,read")
	b := s.newToken("b", "--instance=beta", "--rights=enqueue,read")
	serve := s.start("serve", "--api=127.0.0.1:0")
	alpha, beta := serve.client(a), serve.client(b)
	alpha.want(`"id":1,"taskClass":"Greet"`, "/api/queue/enqueue", greet)
	beta.want(`"id":1,"taskClass":"Other"`, "/api/queue/enqueue", `{"taskClass":"Other","data":"{}"}`)
	alpha.want(`"instance":"alpha"`, "/api/queue/meta", "")
	beta.want(`"instance":"beta"`, "/api/queue/meta", "")
	alpha.want(`"taskClass":"Greet"`, "/api/queue/lease", `{"limit":9}`)
	beta.refused(http.StatusForbidden, "ERR_UNAUTHORIZED", "/api/queue/lease", `{"limit":9}`)
	client{s.t, alpha.url, ""}.refused(http.StatusUnauthorized, "ERR_UNAUTHORIZED", "/api/queue/stats", "")
	client{s.t, alpha.url, "guessed"}.refused(http.StatusUnauthorized, "ERR_UNAUTHORIZED", "/api/queue/stats?token="+a, "")
	serve.signal()
	got := serve.wait()
	if got.code != exitOK || strings.Contains(got.err, a) || strings.Contains(got.err, b) || strings.Contains(got.err, "guessed") ||
		!strings.Contains(got.err, `"token":"a","instance":"alpha"`) {
		s.t.Errorf("exit code %d, %s", got.code, got.err)
	}
}

func redisHoldsInstances(s *site) {
	server := harness.StartRedis(s.t)
	file := writeFile(s.t, "redis", "unix://u:hunter2@"+server.Socket()+"\n", 0o600)
	if err := server.Client(s.t).Do(s.t.Context(), "ACL", "SETUSER", "u", "on", ">hunter2", "~*", "&*", "+@all").Err(); err != nil {
		s.t.Fatal(err)
	}
	s.configure("redis_file: " + file + "\ntokens: tokens.yaml\ninstances: {alpha: , beta: }\n")
	a, b := s.newToken("a", "--instance=alpha", "--rights=enqueue,work,read"), s.newToken("b", "--instance=beta", "--rights=enqueue,read")
	serve := s.start("serve", "--api=127.0.0.1:0", "--log-level=debug")
	alpha, beta := serve.client(a), serve.client(b)
	alpha.want(`"id":1,"taskClass":"Greet"`, "/api/queue/enqueue", greet)
	alpha.want(`"backend":"redis"`, "/api/queue/meta", "")
	beta.want(`"activeCount":0`, "/api/queue/stats", "")
	beta.want(`"id":1,"taskClass":"Other"`, "/api/queue/enqueue", `{"taskClass":"Other","data":"{}"}`)
	if got := s.gantry("tasks", "list", "--instance=beta"); got.code != exitOK || !strings.Contains(got.out, "Other") || strings.Contains(got.out, "Greet") {
		s.t.Errorf("tasks list says %d, %s%s", got.code, got.out, got.err)
	}
	expect(s.t, s.gantry("tasks", "cancel", "--instance=beta", "--id=1"), exitOK, "Task 1 (Other) was cancelled.\nChanged 1 of 1 selected tasks.\n", "")
	serve.signal()
	got := serve.wait()
	check := s.gantry("config", "check")
	if got.code != exitOK || strings.Contains(got.err+check.out+check.err, "hunter") || !strings.Contains(check.out, "ok       alpha: store: it opens; tasks of 1 class are queued") {
		s.t.Errorf("exit code %d, %s; check says %s", got.code, got.err, check.out)
	}
	if err := server.Kill(); err != nil {
		s.t.Fatal(err)
	}
	if got := s.gantry("serve", "--api=127.0.0.1:0"); got.code != exitUnavailable || !strings.Contains(got.err, "instance alpha: ") || strings.Contains(got.err, "hunter") {
		s.t.Errorf("without the Redis: exit code %d, %s", got.code, got.err)
	}
}

func phorgeIsServed(s *site) {
	namespace := strings.TrimSuffix(s.dsn[strings.LastIndexByte(s.dsn, '/')+1:], "_worker")
	s.env = append(s.env, "GANTRY_TOKENS="+filepath.Join(s.t.TempDir(), "tokens.yaml"))
	token := s.newToken("a", "--rights=enqueue,work,read")
	serve := s.start("serve", "--api=127.0.0.1:0")
	c := serve.client(token)
	c.want(`"instance":"`+namespace+`"`, "/api/queue/meta", "")
	c.want(`"id":1,`, "/api/queue/enqueue", `{"taskClass":"PhabricatorTestWorker","data":"{}"}`)
	if got := s.gantry("run", "--until-empty"); got.code != exitOK || !strings.HasPrefix(got.out, "1 task leased: 1 succeeded") {
		s.t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
	c.want(`"result":0`, "/api/queue/tasks/1", "")
	serve.signal()
	if got := serve.wait(); got.code != exitOK || strings.Contains(got.err, `"level":"warn"`) {
		s.t.Errorf("exit code %d, %s", got.code, got.err)
	}
}

func oneQueueTwiceIsRefused(s *site, dsn string) {
	file := filepath.Join(s.t.TempDir(), "queue.db")
	store, err := embedded.Open(s.t.Context(), embedded.Config{Path: file})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := errors.Join(store.Close(), os.Symlink(file, file+".other")); err != nil {
		s.t.Fatal(err)
	}
	for _, two := range []string{
		fmt.Sprintf("{alpha: {sqlite: %s}, beta: {sqlite: %[1]s.other}}", file),
		fmt.Sprintf("{alpha: {dsn: %q}, beta: {dsn_file: %s}}", dsn, writeFile(s.t, "dsn", dsn+"?timeout=9s", 0o600)),
	} {
		s.configure("tokens: tokens.yaml\nphp: off\nslots: 4\ninstances: " + two + "\n")
		for _, command := range []string{"serve", "run"} {
			got := s.gantry(command, "--api=127.0.0.1:0")
			if got.code != exitUsage || !strings.Contains(got.err, "instance beta: its store is that of instances.alpha: give each its own") {
				s.t.Errorf("%s with %s: exit code %d, %s", command, two, got.code, got.err)
			}
		}
	}
}

func gorgeTokenHasAllRights(s *site) {
	s.env = append(s.env, "SERVICE_TOKEN=hunter2", "LISTEN_ADDR=127.0.0.1:0", "LEASE_DURATION=77", "MYSQL_HOST=db")
	serve := s.start("serve")
	c := serve.client("hunter2")
	c.want(`"leaseDuration":77`, "/api/queue/meta", "")
	c.want(`"id":1,`, "/api/queue/enqueue", greet)
	c.want(`[]`, "/api/queue/lease", `{"taskClasses":["None"]}`)
	c.want(`"result":2`, "/api/queue/cancel", `{"taskID":1}`)
	client{s.t, c.url, ""}.refused(http.StatusUnauthorized, "ERR_UNAUTHORIZED", "/api/queue/stats", "")
	serve.signal()
	got := serve.wait()
	if strings.Contains(got.err, "hunter") {
		s.t.Error("the log has the token")
	}
	for _, want := range []string{`"variable":"LISTEN_ADDR","setting":"api"`, `"variable":"LEASE_DURATION","setting":"api_lease"`, `"variable":"SERVICE_TOKEN","setting":"tokens"`} {
		if strings.Count(got.err, want) != 1 {
			s.t.Errorf("the log does not say %s once: %s", want, got.err)
		}
	}
	if strings.Contains(got.err, "MYSQL_HOST") {
		s.t.Errorf("the log names a variable that has no effect: %s", got.err)
	}
	if got := s.gantry("config", "check"); strings.Contains(got.out+got.err, "hunter") || !strings.Contains(got.out, "ok       tokens: SERVICE_TOKEN is a token with all rights on default") {
		s.t.Errorf("config check says %s%s", got.out, got.err)
	}
	s.env = append(s.env, "SERVICE_TOKEN=")
	serve = s.start("serve")
	serve.client("").want(`"activeCount":0`, "/api/queue/stats", "")
}

// runServes has a runtime look at its queue once an hour.
func runServes(s *site) {
	plugins := manifestOf(s.t, filepath.Join(s.dir, "handler-testworker"), "PhabricatorTestWorker", "{}")
	run := s.start("run", "--plugins="+plugins, "--api=127.0.0.1:0", "--idle-poll=1h")
	c := run.client("")
	c.want("[", "/api/queue/enqueue", `[`+strings.Repeat(`{"taskClass":"PhabricatorTestWorker","data":"{}"},`, 20)+greet+`]`)
	harness.Eventually(s.t, "its runtime runs what was queued", func() bool {
		_, data := c.call("/api/queue/tasks?state=archived", "")
		return strings.Count(data, `"result":0`) == 20
	})
	c.want(`"taskClass":"Greet"`, "/api/queue/lease", `{}`)
	run.signal()
	if got := run.wait(); got.code != exitOK || !strings.HasPrefix(got.out, "20 tasks leased: 20 succeeded") {
		s.t.Errorf("exit code %d, %s%s", got.code, got.out, got.err)
	}
}

// halfSent begins an enqueue whose body the server waits for.
func (c client) halfSent() (conn net.Conn, answer *bufio.Reader) {
	c.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST /api/queue/enqueue HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(greet))
	answer = bufio.NewReader(conn)
	if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		c.t.Fatalf("the server answers %q, %v", line, err)
	}
	if _, err := answer.ReadString('\n'); err != nil {
		c.t.Fatal(err)
	}
	return conn, answer
}

func firstSignalLetsCallsEnd(s *site) {
	serve := s.start("serve", "--api=127.0.0.1:0", "--drain-timeout=1h")
	conn, answer := serve.client("").halfSent()
	serve.signal()
	harness.Eventually(s.t, "it stops", func() bool { return strings.Contains(serve.err.String(), "stopping; a second signal") })
	fmt.Fprint(conn, greet)
	if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
		s.t.Errorf("the call under way is answered %q, %v", line, err)
	}
	if got := serve.wait(); got.code != exitOK {
		s.t.Errorf("exit code %d, %s", got.code, got.err)
	}
	if got := s.gantry("tasks", "show", "--id=1"); got.code != exitOK {
		s.t.Errorf("the task is not there: %s", got.err)
	}
}

func secondSignalEndsServer(s *site) {
	serve := s.start("serve", "--api=127.0.0.1:0", "--drain-timeout=1h")
	_, answer := serve.client("").halfSent()
	serve.signal()
	harness.Eventually(s.t, "it stops", func() bool { return strings.Contains(serve.err.String(), "stopping; a second signal") })
	serve.signal()
	if line, err := answer.ReadString('\n'); err == nil {
		s.t.Errorf("the call under way is answered %q", line)
	}
	serve.wait()
}

func badServes(s *site) {
	tokens := writeFile(s.t, "tokens.yaml", "tokens:\n  - {name: a, instance: alpha, rights: [read], digest: "+strings.Repeat("0", 64)+"}\n", 0o600)
	for _, c := range []struct {
		name string
		args string
		code int
		want string
	}{
		{"another host without tokens", "--api=0.0.0.0:0", exitUsage, "api, from command line: queue API: without a token it listens on this machine only"},
		{"a file of tokens that is not there", "--tokens=/nonexistent", exitUsage, "read the file of tokens: open /nonexistent: no such file or directory; `gantry tokens new` makes it"},
		{"a file of tokens without any", "--tokens=" + writeFile(s.t, "none.yaml", "", 0o600), exitUsage, "has none for a queue: make one with `gantry tokens new"},
		{"a token for another instance", "--tokens=" + tokens, exitUsage, `token "a": there is no instance "alpha"`},
		{"a directory that is not there", "--sqlite=/nonexistent/queue.db", exitUnavailable, "/nonexistent"},
		{"an address that is no address", "--api=nonsense", exitUsage, "--api: must be a host and a port"},
		{"an address of another machine", "--api=192.0.2.1:1 --tokens=" + strings.Replace(tokens, "tokens.yaml", "b.yaml", 1), exitUsage, "cannot assign requested address"},
	} {
		s.t.Run(c.name, func(t *testing.T) {
			if strings.Contains(c.args, "b.yaml") {
				s.newToken("b", "--rights=read", "--tokens="+strings.Replace(tokens, "tokens.yaml", "b.yaml", 1))
			}
			one := &site{t: t, dir: s.dir, env: slices.Clip(s.env)}
			got := one.gantry(append([]string{"serve"}, strings.Fields(c.args)...)...)
			if got.code != c.code || !strings.Contains(got.err, c.want) {
				t.Errorf("exit code %d, %s\nwant code %d and %q", got.code, got.err, c.code, c.want)
			}
		})
	}
}
