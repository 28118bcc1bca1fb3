package queueapi_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/queueapi"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// posts are the paths that take a body.
var posts = []string{"enqueue", "lease", "complete", "fail", "yield", "renew", "settle", "cancel", "awaken", "finalize", "resolve", "enqueue-event"}

// fuzzed calls the handler with a body and answers why the answer is not right.
// A working store gives no reason for any 5xx.
func fuzzed(api *queueapi.API, path, body string) error {
	r := httptest.NewRequest(http.MethodPost, "/api/queue/"+path, strings.NewReader(body))
	r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Lease-Owner", "fuzz")
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	if w.Code >= 500 || w.Code != 200 && w.Code != 400 && w.Code != 404 && w.Code != 409 && w.Code != 413 {
		return fmt.Errorf("answered %d %s", w.Code, w.Body)
	}
	return documented(http.MethodPost, "/api/queue/"+path, w.Code, w.Body.Bytes())
}

func fuzzAPI(t testing.TB, store tasks.Service) *queueapi.API {
	t.Helper()
	api, err := queueapi.New(queueapi.Config{Instances: map[string]queueapi.Instance{"main": {Store: store}}, MaxBody: 1 << 16, MaxWait: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return api
}

// seeds are bodies that are nearly right.
var seeds = []string{
	``, `{}`, `[]`, `null`, `0`, `"`, `{`, `[[[[`, `{"":0}`,
	`{"taskClass":"A","data":"1"}`, `[{"taskClass":"A","data":"1","priority":"7"}]`,
	`{"taskClass":"A","data":"\ud800"}`, "{\"taskClass\":\"\xff\",\"data\":\"1\"}", `{"taskClass":"A","data":"1","delayUntil":4294967296}`,
	`{"limit":500,"taskClasses":["A",""],"wait":0}`, `{"limit":-1}`, `{"limit":1e400}`, `{"taskClasses":{}}`,
	`{"taskID":1,"fence":1,"duration":1}`, `{"taskID":"1","fence":9223372036854775807}`, `{"taskID":-9223372036854775808}`,
	`{"taskID":1,"duration":9223372036854775807}`, `{"taskID":1,"followups":[{"taskClass":"A","data":"{}"}]}`, `{"taskID":1,"followups":{}}`,
	`{"taskID":1,"permanent":true,"retryWait":0,"message":"x"}`, `{"settlements":[{"taskID":1,"fence":1,"outcome":"complete"},{},null,[]]}`,
	`{"taskID":1,"leaseOwner":"w","leaseExpires":9,"outcome":"retry","retryWait":1}`, `{"taskID":1,"leaseOwner":"w","leaseExpires":9,"duration":1,"followups":[{}]}`,
	`{"eventID":"e","task":{"taskClass":"A","data":"1"}}`, `{"eventID":"","task":null}`,
	`{"taskIDs":[1,"2",null]}`, `{"taskIDs":null}`, strings.Repeat("[", 600), `{"a":` + strings.Repeat(`{"a":`, 600),
}

func FuzzBodies(f *testing.F) {
	for _, path := range posts {
		for _, seed := range seeds {
			f.Add(path, seed)
		}
	}
	api := fuzzAPI(f, storetest.NewMemory(func() int64 { return 2_000_000_000 }))
	f.Fuzz(func(t *testing.T, path, body string) {
		if !slices.Contains(posts, path) {
			t.Skip()
		}
		if err := fuzzed(api, path, body); err != nil {
			t.Error(err)
		}
	})
}

// Bodies made of the seeds by cutting, joining and changing bytes.
func TestMalformedBodiesAreNoServerErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		open   func(testing.TB) subject
		bodies int
	}{{"Memory", openMemory, 10_000}, {"MariaDB", openMariaDB, 1000}, {"SQLite", openSQLite, 1000}, {"Redis", openRedis, 1000}} {
		t.Run(c.name, func(t *testing.T) {
			s := c.open(t)
			defer s.close()
			api := fuzzAPI(t, s.Service)
			random := rand.New(rand.NewPCG(1, 2))
			for range c.bodies {
				path, body := posts[random.IntN(len(posts))], malformed(random)
				if err := fuzzed(api, path, body); err != nil {
					t.Fatalf("%s %q: %v", path, body, err)
				}
			}
		})
	}
}

func malformed(random *rand.Rand) string {
	body := []byte(seeds[random.IntN(len(seeds))])
	for range random.IntN(4) {
		other := seeds[random.IntN(len(seeds))]
		switch at := random.IntN(len(body) + 1); random.IntN(4) {
		case 0:
			body = body[:at]
		case 1:
			body = slices.Insert(body, at, []byte(other)...)
		case 2:
			body = slices.Insert(body, at, byte(random.IntN(256)))
		case 3:
			if at < len(body) {
				body[at] ^= 1 << random.IntN(8)
			}
		}
	}
	return string(body)
}
