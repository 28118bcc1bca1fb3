package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// World is what a scratch Phorge holds for tests of real work.
type World struct {
	Alice, Bob Person // Alice is an administrator
	Webhook    Webhook
	File       string // PHID
}

// Person is a user.
type Person struct {
	PHID  string
	Token string // for Conduit
}

// Webhook is called for every edit.
type Webhook struct {
	ID   int
	PHID string
	Key  string
}

// MakeWorld makes a World, whose webhook calls the given address, and makes the
// Phorge deliver mail to a file: see Mails. Its tasks stay in the queue.
func (p *Phorge) MakeWorld(ctx context.Context, receiver string) (World, error) {
	err := p.Configure(map[string]any{
		"cluster.mailers":             []map[string]any{{"key": "recorder", "type": "gantry-live"}},
		"feed.http-hooks":             []string{receiver + "/feed"},
		"security.outbound-blacklist": []string{},
	})
	if err != nil {
		return World{}, err
	}
	out, err := p.PHP(ctx, "world.php", receiver+"/webhook")
	if err != nil {
		return World{}, err
	}
	var w World
	if err := json.Unmarshal([]byte(out), &w); err != nil {
		return World{}, fmt.Errorf("make a world: it printed %s: %w", out, err)
	}
	return w, nil
}

// Conduit calls a method as a person, over HTTP, and answers its result.
func (w *Web) Conduit(ctx context.Context, as Person, method string, params map[string]any) (json.RawMessage, error) {
	all := map[string]any{"__conduit__": map[string]string{"token": as.Token}}
	for name, value := range params {
		all[name] = value
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	form := url.Values{"params": {string(text)}, "output": {"json"}, "__conduit__": {"1"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL()+"/api/"+method, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	// With the session of nobody Phorge makes up none for each call.
	request.Header.Set("Cookie", "phsid=A/harness")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var envelope struct {
		Result json.RawMessage
		Code   *string `json:"error_code"`
		Info   *string `json:"error_info"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return nil, fmt.Errorf("%s: %s: %w\n%s", method, response.Status, err, body)
	}
	if envelope.Code != nil {
		return nil, fmt.Errorf("%s: %s: %s", method, *envelope.Code, *envelope.Info)
	}
	return envelope.Result, nil
}
