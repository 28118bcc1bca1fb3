package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// longestPong is how much of an answer Ping reads, in bytes.
const longestPong = 64 << 10

// Ping asks the Phorge whether it is one, with the method conduit.ping, on the
// way that calls go. Nil means that its Conduit answered, be it that it refuses
// callers without an API token.
func (g *Gateway) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.config.Connect+g.config.Stall)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.target.Scheme+"://"+g.target.Host+"/api/conduit.ping", strings.NewReader("output=json"))
	if err != nil {
		return err
	}
	request.Host = g.config.Host
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := g.transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("call conduit.ping at %s: %w", g.target, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, longestPong))
	if err != nil {
		return fmt.Errorf("read the answer of conduit.ping at %s: %w", g.target, err)
	}
	var envelope struct {
		Code   *string          `json:"error_code"`
		Result *json.RawMessage `json:"result"`
	}
	switch err := json.Unmarshal(text, &envelope); {
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		return fmt.Errorf("%s answers conduit.ping with a redirect to %.200q: name that address", g.target, answer.Header.Get("Location"))
	case err != nil, answer.StatusCode != http.StatusOK, envelope.Code == nil && envelope.Result == nil:
		return fmt.Errorf("%s answers conduit.ping with %s and no envelope of Conduit: is a Phorge there, and is %s a name that it knows, in phabricator.base-uri or phabricator.allowed-uris?",
			g.target, answer.Status, g.config.Host)
	}
	return nil
}
