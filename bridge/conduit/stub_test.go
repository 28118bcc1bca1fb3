package conduit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// The key of all tests. It must never be seen anywhere.
const (
	testKey   = "correct-horse-battery-staple-0123456789"
	testKeyID = "key-1"
)

// phorge is a Phorge with Gantry's library, as far as its HTTP face goes. It
// checks everything a real one checks and misbehaves when it is told to.
type phorge struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	host     string // the only Host that it answers to; empty: all
	classes  []string
	maxTasks int
	nonces   map[string]bool
	leases   map[taskRef]bool // that live
	receipts map[taskRef]receiptRow
	refusals map[taskRef]string // codes, of tasks that may run later
	executed map[taskRef]int
	calls    []*conduitCall

	// work is what executing a task comes to: the JSON of an outcome. "" leaves
	// the receipt running.
	work func(task taskRef) string

	// meddle sees each call when it is let in. It may answer in place of Phorge
	// and says so.
	meddle func(c *conduitCall, w http.ResponseWriter) (answered bool)
}

// receiptRow is a receipt: what its outcome is, or what else it says.
type receiptRow struct{ state, outcome, code string }

// conduitCall is one call as the stub saw it.
type conduitCall struct {
	*http.Request
	phorge *phorge
	method string
	mode   string
	body   string
	tasks  []taskRef
}

const succeeded = `{"kind":"succeeded","wait":0,"category":"","reason":"","durationUs":250,"followUps":[],"uncaught":false}`

func newPhorge(t *testing.T) *phorge {
	p := &phorge{
		t:        t,
		classes:  []string{"PhabricatorSearchWorker", "PhabricatorTestWorker"},
		maxTasks: 64,
		nonces:   map[string]bool{},
		leases:   map[taskRef]bool{},
		receipts: map[taskRef]receiptRow{},
		refusals: map[taskRef]string{},
		executed: map[taskRef]int{},
		work:     func(taskRef) string { return succeeded },
		meddle:   func(*conduitCall, http.ResponseWriter) bool { return false },
	}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *phorge) locked(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// ServeHTTP answers as Phorge does.
func (p *phorge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, refusal := p.admit(r)
	p.mu.Lock()
	p.calls = append(p.calls, c)
	meddle := p.meddle
	p.mu.Unlock()
	switch {
	case meddle(c, w):
	case refusal == "no-site":
		page(w, http.StatusInternalServerError, "Site Not Found")
	case refusal != "":
		c.fail(w, refusal)
	default:
		c.answer(w, c.result())
	}
}

// admit decodes and checks a request.
func (p *phorge) admit(r *http.Request) (c *conduitCall, refusal string) {
	c = &conduitCall{Request: r, phorge: p, method: strings.TrimPrefix(r.URL.Path, "/api/")}
	if err := r.ParseForm(); err != nil {
		p.t.Errorf("the form cannot be read: %v", err)
	}
	var params struct {
		signature
		Metadata *map[string]any `json:"__conduit__"`
	}
	decoder := json.NewDecoder(strings.NewReader(r.PostForm.Get("params")))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&params); err != nil || params.Metadata == nil {
		p.t.Errorf("params are %q: %v", r.PostForm.Get("params"), err)
	}
	c.body = params.Body
	var body struct {
		Mode  string    `json:"mode"`
		Tasks []taskRef `json:"tasks"`
	}
	if err := json.Unmarshal([]byte(params.Body), &body); err != nil {
		p.t.Errorf("the body is %q: %v", params.Body, err)
	}
	c.mode, c.tasks = body.Mode, body.Tasks
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.host != "" && r.Host != p.host:
		return c, "no-site"
	case r.Method != http.MethodPost:
		return c, "ERR-GANTRY-METHOD"
	case r.Header.Get("Content-Type") != "application/x-www-form-urlencoded",
		!maps.EqualFunc(r.PostForm, url.Values{"params": nil, "__conduit__": {"1"}, "output": {"json"}},
			func(got, want []string) bool { return want == nil || got[0] == want[0] }):
		return c, "ERR-CONDUIT-CORE"
	case !verified(c.method, params.signature), p.nonces[params.Nonce]:
		return c, credential
	}
	p.nonces[params.Nonce] = true
	return c, ""
}

// verified checks a signature, written down once more.
func verified(method string, s signature) bool {
	mac := hmac.New(sha256.New, []byte(testKey))
	fmt.Fprintf(mac, "gantry-1\n%s\nphorge\n%s\n%d\n%s\n%x", method, s.KeyID, s.Timestamp, s.Nonce, sha256.Sum256([]byte(s.Body)))
	return s.KeyID == testKeyID && s.Signature == hex.EncodeToString(mac.Sum(nil)) &&
		time.Since(time.Unix(s.Timestamp, 0)).Abs() < time.Minute && len(s.Nonce) == 32
}

// result does what a call asks for, and answers it.
func (c *conduitCall) result() string {
	p := c.phorge
	if c.method == "worker.capabilities" {
		p.mu.Lock()
		defer p.mu.Unlock()
		classes, _ := json.Marshal(p.classes)
		return fmt.Sprintf(`{"protocol":1,"namespace":"phorge","taskClasses":%s,"publishers":["DoorkeeperJIRAFeedWorker"],"keyIDs":[%q],"phorge":"1f","php":"8.2.1",`+
			`"databaseTime":%d,"maxTasks":%d,"maxBody":65536}`, classes, testKeyID, time.Now().Unix(), p.maxTasks)
	}
	var rows []string
	for _, task := range c.tasks {
		switch c.mode {
		case "run":
			p.execute(task)
		case "lookup":
			p.closeReceipt(task)
		}
		rows = append(rows, p.receipt(task))
	}
	return `{"protocol":1,"tasks":[` + strings.Join(rows, ",") + `]}`
}

// execute runs a task that is leased and has no receipt.
func (p *phorge) execute(task taskRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, has := p.receipts[task]; has {
		return
	}
	if p.entersEarlier(task) {
		return
	}
	if !p.leases[task] {
		p.receipts[task] = receiptRow{state: stateRefused, code: "not-leased"}
		return
	}
	p.executed[task]++
	if outcome := p.work(task); outcome != "" {
		p.receipts[task] = receiptRow{state: stateDone, outcome: outcome}
	} else {
		p.receipts[task] = receiptRow{state: stateRunning}
	}
}

// entersEarlier answers a task as what came of it under an earlier lease: it
// runs still, or it succeeded. It needs the lock.
func (p *phorge) entersEarlier(task taskRef) bool {
	for other, row := range p.receipts {
		switch {
		case other.ID != task.ID:
		case row.state == stateRunning:
			p.refusals[task] = "still-running"
			return true
		case row.state == stateDone && strings.Contains(row.outcome, `"kind":"succeeded"`):
			p.receipts[task] = row
			return true
		}
	}
	return false
}

// closeReceipt keeps a task that has not begun from beginning.
func (p *phorge) closeReceipt(task taskRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, has := p.receipts[task]; !has {
		p.receipts[task] = receiptRow{state: stateAbsent}
	}
}

// receipt answers what is known of a task.
func (p *phorge) receipt(task taskRef) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	row, has := p.receipts[task]
	if !has {
		row = receiptRow{state: stateRefused, code: p.refusals[task]}
	}
	if row.outcome == "" {
		row.outcome = "null"
	}
	return fmt.Sprintf(`{"id":%d,"leaseOwner":%q,"state":%q,"outcome":%s,"code":%q,"reason":""}`,
		task.ID, task.LeaseOwner, row.state, row.outcome, row.code)
}

func (p *phorge) setReceipt(task taskRef, row receiptRow) {
	p.locked(func() { p.receipts[task] = row })
}

func (p *phorge) setMeddle(f func(*conduitCall, http.ResponseWriter) bool) {
	p.locked(func() { p.meddle = f })
}

// count answers how many calls there were in a mode.
func (p *phorge) count(mode string) (n int) {
	p.locked(func() {
		for _, c := range p.calls {
			if c.mode == mode {
				n++
			}
		}
	})
	return n
}

func (c *conduitCall) answer(w http.ResponseWriter, result string) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	}
	_, _ = fmt.Fprintf(w, `{"result":%s,"error_code":null,"error_info":null}`, result)
}

func (c *conduitCall) fail(w http.ResponseWriter, code string) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_, _ = fmt.Fprintf(w, `{"result":null,"error_code":%q,"error_info":"said the stub"}`, code)
}

func page(w http.ResponseWriter, status int, title string) {
	w.Header().Set("Content-Type", "text/html; charset=UTF-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<!DOCTYPE html><html><head><title>%s</title></head><body></body></html>", title)
}
