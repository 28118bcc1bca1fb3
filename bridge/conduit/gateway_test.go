package conduit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/phorge-gantry/gantry/bridge/gateway"
	"github.com/phorge-gantry/gantry/tasks"
)

// TestSignedCallsPassThroughAGateway has the service token added on the way, as
// by the web server of a site that has one.
func TestSignedCallsPassThroughAGateway(t *testing.T) {
	p := newPhorge(t)
	p.host = "phorge.example.com"
	token, digest := gateway.NewToken()
	g, err := gateway.New(gateway.Config{
		URL: p.URL, Host: "phorge.example.com",
		Tokens: []gateway.Token{{Name: "gantry", Digests: []string{digest}, Allow: []string{"worker.*"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config = g.Server()
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Service-Token", token)
		g.ServeHTTP(w, r)
	})
	server.Start()
	t.Cleanup(func() { server.Close(); _ = g.Close() })

	c := configured(p)
	c.URL = server.URL
	e, _ := start(t, c)
	for _, class := range []string{"PhabricatorTestWorker", "A+&=%20%", "Ä\u2028😀"} {
		task := p.leasedOf(class)
		want(t, execute(t, e, task), tasks.Succeeded, "")
		if n := p.executed[ref(task)]; n != 1 {
			t.Errorf("%q was executed %d times", class, n)
		}
	}
	for _, call := range p.calls {
		if call.Header.Get("X-Service-Token") != "" || call.Header.Get("Cookie") != anonymous || call.Header.Get("User-Agent") != "Gantry" {
			t.Errorf("%s arrived with %v", call.method, call.Header)
		}
	}
}
