package stage

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/rows"
	"github.com/phorge-gantry/gantry/plugins"
)

// posts is a handler that writes a row and posts twice: the second time
// depending on the answer. With astray it does what no handler should: past its
// task.
func posts(s *Stage, astray func()) Shadower {
	return s.Handlers(plugins.Handler{
		Class: "AcmeWorker", Databases: []string{"acme"},
		Handle: func(ctx context.Context, task *plugins.Task) error {
			if astray != nil {
				astray()
			}
			_, err := task.DB("acme").Exec(ctx, "INSERT INTO acme_thing (phid, name, bytes, flags, dateCreated) VALUES ('', 'x', '', 0, 0)")
			if err != nil {
				return err
			}
			client := http.Client{Transport: task.Transport(nil)}
			for _, path := range []string{"/one", "/two"} {
				request, err := http.NewRequestWithContext(ctx, "POST", "http://"+string(bytes.Trim(task.Data, `"`))+path, strings.NewReader("x"+path))
				if err != nil {
					return err
				}
				request.Header.Set("X-Acme", "1")
				response, err := client.Do(request)
				if err != nil {
					return err
				}
				response.Body.Close()
				if response.StatusCode != 200 {
					return nil
				}
			}
			return nil
		},
	})
}

func postCase(answers ...contract.Answer) contract.Case {
	c := acmeCase(contract.World{Receivers: map[string]contract.Receiver{"a": {Answers: answers}}})
	c.Data = `"{{receiver a}}"`
	return c
}

func shadow(s *Stage, c contract.Case, side Shadower, real contract.Observation) ([]contract.Difference, error) {
	run, err := s.Shadow(context.Background(), c, side)
	return run.Against(c, real), err
}

func fields(differences []contract.Difference) []string {
	var fields []string
	for _, d := range differences {
		fields = append(fields, d.Field)
	}
	return fields
}

func TestAShadowRunLeavesNothingAndNotesWhatTheRealOneSends(t *testing.T) {
	s := newStage(t)
	for _, c := range []struct {
		name   string
		answer []contract.Answer
		sent   int
	}{
		{"all of it", nil, 2},
		{"the first, where the answer decides", []contract.Answer{{Status: 500}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			side := posts(s, nil)
			real := run(t, s, postCase(c.answer...), side)
			if len(real.Requests) != c.sent {
				t.Fatalf("the real run sent %+v", real.Requests)
			}
			before := all(t, s)
			wrong, err := shadow(s, postCase(c.answer...), side, real)
			if err != nil || len(wrong) > 0 {
				t.Errorf("%v, %v", fields(wrong), err)
			}
			if diff := cmp.Diff(before, all(t, s), cmp.AllowUnexported(rows.Table{})); diff != "" {
				t.Errorf("left behind: %s", diff)
			}
			side.Close()
		})
	}
}

func TestAShadowRunIsSeenToActOrToNoteSomethingElse(t *testing.T) {
	s := newStage(t)
	db := acme(t, s)
	real := run(t, s, postCase(), posts(s, nil))
	write := func() {
		if _, err := db.Exec("INSERT INTO acme_edge VALUES ('a', 'b')"); err != nil {
			t.Error(err)
		}
	}
	send := func() {
		response, err := http.Get("http://" + s.receivers.listeners["a"].Addr().String() + "/astray")
		if err != nil {
			t.Error(err)
			return
		}
		response.Body.Close()
	}
	other := real
	other.Requests = []contract.Request{real.Requests[0]}
	more := real
	more.Requests = append(slices.Clone(real.Requests), contract.Request{Receiver: "a", Method: "GET", Target: "/more"})
	changed := real
	changed.Requests = append([]contract.Request{}, real.Requests...)
	changed.Requests[1].Body = "y"
	changed.Requests[0].Headers = map[string]string{"X-Acme": "2"}
	for _, c := range []struct {
		name   string
		astray func()
		real   contract.Observation
		want   []string
	}{
		{"a row past the task", write, real, []string{"the shadow run left a row of acme.acme_edge added, with the key a b: something goes past task.DB and task.Transact"}},
		{"a request past the task", send, real, []string{"the shadow run really sent GET /astray to a: something goes past task.Transport"}},
		{"a request too many", nil, other, []string{"the shadow run noted POST /two to a, which the real run did not send"}},
		{"a request too few", nil, more, []string{"the shadow run did not note GET /more to a, which the real run sent: it came to something else, or something goes past task.Transport"}},
		{"another request", nil, changed, []string{"shadow run: requests[1].headers[X-Acme]", "shadow run: requests[2].body"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wrong, err := shadow(s, postCase(), posts(s, c.astray), c.real)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, fields(wrong)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheTargetOfAURLIsWhatIsOnTheWire(t *testing.T) {
	for _, c := range []struct {
		url    string
		secure bool
		host   string
		target string
	}{
		{"http://127.0.0.1:80/a'\"<>^`{|}\\b?c=%zz#d", false, "127.0.0.1:80", "/a'\"<>^`{|}\\b?c=%zz"},
		{"https://u:p@h:1", true, "h:1", "/"},
		{"http://h?x", false, "h", "/?x"},
		{"http://h#x/y", false, "h", "/"},
	} {
		secure, host, target := split(c.url)
		if secure != c.secure || host != c.host || target != c.target {
			t.Errorf("%s: %v, %q, %q", c.url, secure, host, target)
		}
	}
}
