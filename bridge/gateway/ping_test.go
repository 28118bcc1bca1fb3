package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestAPingTellsAPhorgeFromWhatIsNone(t *testing.T) {
	for name, c := range map[string]struct {
		status   int
		location string
		body     string
		want     string // of the error, "" for none
	}{
		"a Phorge":                           {200, "", pong, ""},
		"one that wants an API token":        {200, "", `{"result":null,"error_code":"ERR-INVALID-AUTH","error_info":"no"}`, ""},
		"one that is reached by https only":  {302, "https://phorge.example.com/api/conduit.ping", "", `redirect to "https://phorge.example.com/api/conduit.ping"`},
		"one that does not know the name":    {404, "", "<html>", "is phorge.example.com a name that it knows"},
		"a web server that answers anything": {200, "", "<html>", "no envelope of Conduit"},
		"another service that speaks JSON":   {200, "", `{"status":"ok"}`, "no envelope of Conduit"},
		"an error with an envelope":          {500, "", pong, "500 Internal Server Error"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPhorge(t)
			p.answers(func(w http.ResponseWriter, _ *http.Request) {
				if c.location != "" {
					w.Header().Set("Location", c.location)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			config := configured(p.URL)
			config.Host = "phorge.example.com"
			g, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			err = g.Ping(t.Context())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("it answers %v, want %q", err, c.want)
			}
			if call := p.only(t); call.method != http.MethodPost || call.uri != "/api/conduit.ping" || call.host != "phorge.example.com" {
				t.Errorf("it calls %+v", call)
			}
		})
	}
	p := newPhorge(t)
	p.Close()
	g, err := New(configured(p.URL))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), p.URL) {
		t.Errorf("where nothing is: %v", err)
	}
}
