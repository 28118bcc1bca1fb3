package conduit

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/bridge/gateway"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/token"
)

func TestSignedCallsPassThroughAGateway(t *testing.T) {
	p := newPhorge(t)
	p.host = "phorge.example.com"
	secret, digest := token.New()
	g, err := gateway.New(gateway.Config{
		URL: p.URL, Host: "phorge.example.com",
		Tokens: []gateway.Token{{Name: "gantry", Digests: []string{digest}, Allow: []string{"worker.*"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config = g.Server()
	server.Start()
	t.Cleanup(func() { server.Close(); _ = g.Close() })

	c := configured(p)
	c.URL, c.ServiceToken = server.URL, Secret(secret)
	e, log := start(t, c)
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
	if err := e.Close(); err != nil { // nothing of it changes while it is shown
		t.Fatal(err)
	}
	if told := fmt.Sprintf("%+v %#v %s", e, c, log); strings.Contains(told, secret) {
		t.Error("the service token is told")
	}

	c.ServiceToken += "\n"
	if _, err := New(c); err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "ServiceToken must be printable") {
		t.Errorf("a token that no header can carry: %v", err)
	}
	c.ServiceToken = "wrong"
	refused, _ := startAny(t, c)
	if refused.Ready("PhabricatorTestWorker") {
		t.Error("a gateway that does not know the token let calls through")
	}
}
