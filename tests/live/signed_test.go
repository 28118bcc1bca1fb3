package live

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tests/harness"
)

// signedCall is a call of worker.execute as it should be, to be spoiled. It is
// written without bridge/conduit, so that both sides of the protocol are held
// against a third.
type signedCall struct {
	method    string // of HTTP
	name      string // of Conduit
	namespace string
	key       harness.Key
	timestamp int64
	nonce     string
	body      string

	params func(map[string]any) // spoils the signed parameters
}

// newCall asks to run tasks.
func (g *ground) newCall(t *testing.T, tasks ...leased) signedCall {
	t.Helper()
	body, err := json.Marshal(map[string]any{"mode": "run", "tasks": tasks})
	if err != nil {
		t.Fatal(err)
	}
	nonce := sha256.Sum256([]byte(fmt.Sprint(t.Name(), time.Now().UnixNano())))
	q := openQueue(t, g.Phorge)
	defer q.Close() // a test may make thousands of calls
	return signedCall{
		method: http.MethodPost, name: "worker.execute", namespace: g.Namespace(), key: g.keys[0],
		timestamp: int64(q.count(t, "SELECT UNIX_TIMESTAMP()")),
		nonce:     hex.EncodeToString(nonce[:16]), body: string(body),
	}
}

// form signs the call and answers it as Phorge decodes it.
func (c signedCall) form() url.Values {
	digest := sha256.Sum256([]byte(c.body))
	mac := hmac.New(sha256.New, []byte(c.key.Secret))
	fmt.Fprintf(mac, "gantry-1\n%s\n%s\n%s\n%d\n%s\n%x", c.name, c.namespace, c.key.ID, c.timestamp, c.nonce, digest)
	params := map[string]any{
		"keyID": c.key.ID, "timestamp": c.timestamp, "nonce": c.nonce, "body": c.body,
		"signature": hex.EncodeToString(mac.Sum(nil)), "__conduit__": map[string]any{},
	}
	if c.params != nil {
		c.params(params)
	}
	text, err := json.Marshal(params)
	if err != nil {
		panic(err) // words and numbers
	}
	return url.Values{"params": {string(text)}, "__conduit__": {"1"}, "output": {"json"}}
}

// answer is an envelope of Conduit.
type answer struct {
	Code   string `json:"error_code"`
	Info   string `json:"error_info"`
	Result struct {
		Tasks []struct {
			ID      int64
			State   string
			Code    string
			Outcome *struct {
				Kind, Reason, Category string
				DurationUs             json.Number
			}
		}
	}
	text string
}

// send sends the call and answers the envelope.
func (g *ground) send(ctx context.Context, c signedCall) (answer, error) {
	address, body := g.web.URL()+"/api/"+c.name, c.form().Encode()
	if c.method == http.MethodGet {
		address, body = address+"?"+body, ""
	}
	request, err := http.NewRequestWithContext(ctx, c.method, address, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{text: string(text)}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("%s: %w\n%s", response.Status, err, text)
	}
	return a, nil
}

// leased is a task under a lease, as a call names it.
type leased struct {
	ID    int64  `json:"id"`
	Class string `json:"taskClass"`
	Owner string `json:"leaseOwner"`
}

// lease queues a LiveWorker task and leases it by SQL.
func (g *ground) lease(t *testing.T, data map[string]any) leased {
	t.Helper()
	return g.leaseOf(t, harness.LiveWorker, data)
}

func (g *ground) leaseOf(t *testing.T, class string, data map[string]any) leased {
	t.Helper()
	task := leased{g.schedule(t, class, data, nil), class, "gantry:test:0:live"}
	openQueue(t, g.Phorge).exec(t,
		"UPDATE worker_activetask SET leaseOwner = ?, leaseExpires = UNIX_TIMESTAMP() + 600 WHERE id = ?", task.Owner, task.ID)
	return task
}

// ran answers how often PHP executed a task.
func (g *ground) ran(t *testing.T, id int64) int {
	t.Helper()
	runs, _ := phpRuns(t, g.Phorge)
	return runs[id]
}

func signatureOf(t *testing.T, params string) string {
	t.Helper()
	var all struct{ Signature string }
	if err := json.Unmarshal([]byte(params), &all); err != nil {
		t.Fatal(err)
	}
	return all.Signature
}
