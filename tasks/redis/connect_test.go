package redis

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

func TestB48ServersThatCouldDropTasksAreRefused(t *testing.T) {
	for _, c := range []struct {
		name     string
		args     []string
		volatile bool
		refusal  string // "": accepted
		warning  string
	}{
		{name: "keeps everything", args: []string{"--appendfsync", "always"}},
		{name: "syncs each second", args: []string{"--appendfsync", "everysec"}, warning: "everysec"},
		{name: "never syncs", args: []string{"--appendfsync", "no"}, warning: `"appendfsync":"no"`},
		{name: "keeps no file", args: []string{"--appendonly", "no"}, refusal: "appendonly yes"},
		{name: "keeps snapshots", args: []string{"--appendonly", "no", "--save", "60 1"}, refusal: "appendonly yes"},
		{name: "keeps no file and may", args: []string{"--appendonly", "no"}, volatile: true, warning: "loses tasks when it ends"},
		{name: "evicts", args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, refusal: "noeviction"},
		{name: "evicts and may lose", args: []string{"--maxmemory-policy", "allkeys-lru"}, volatile: true, refusal: "noeviction"},
		{name: "evicts what expires", args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"}, refusal: "noeviction"},
		{name: "would evict if it had a limit", args: []string{"--maxmemory-policy", "volatile-lru"}, refusal: "noeviction"},
		{name: "has a limit", args: []string{"--maxmemory", "100mb"}, warning: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			url := serve(t, c.args...)
			if c.volatile {
				url += "?volatile=true"
			}
			s, err := Open(t.Context(), Config{URL: url, Log: zerolog.New(&log)})
			switch {
			case c.refusal == "" && err != nil:
				t.Fatal(err)
			case c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal) || errors.Is(err, tasks.ErrUnavailable)):
				t.Fatalf("answered %v, want a refusal that names %s", err, c.refusal)
			}
			if err == nil {
				s.Close()
			}
			if c.refusal == "" && (c.warning == "") != (log.Len() == 0) || !strings.Contains(log.String(), c.warning) {
				t.Errorf("logged %s, want a warning of %q", log.String(), c.warning)
			}
		})
	}
}

func TestB48AServerThatBeginsToEvictIsNotReady(t *testing.T) {
	s := open(t, Config{URL: serve(t)})
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("answered %v", err)
	}
}

func TestB48AServerThatStopsKeepingAFileIsNotReady(t *testing.T) {
	url := harness.StartRedis(t).URL()
	s, volatile := open(t, Config{URL: url}), open(t, Config{URL: url, Volatile: true})
	for _, file := range []string{"no", "yes"} {
		if err := s.client.ConfigSet(t.Context(), "appendonly", file).Err(); err != nil {
			t.Fatal(err)
		}
		err := s.Ready(t.Context())
		if refused := err != nil && strings.Contains(err.Error(), "set appendonly yes"); refused != (file == "no") || !refused && err != nil {
			t.Errorf("appendonly %s: answered %v", file, err)
		}
		if err := volatile.Ready(t.Context()); err != nil {
			t.Errorf("where loss is accepted, appendonly %s: answered %v", file, err)
		}
	}
}

// What is leased can be settled when memory is full, because that is what makes
// room; and nothing stops halfway.
func TestAServerWhoseMemoryIsFullRefusesNewTasksAndSettlesOthers(t *testing.T) {
	s := open(t, Config{URL: serve(t)})
	ctx := t.Context()
	if _, err := s.Enqueue(ctx, some(10)); err != nil {
		t.Fatal(err)
	}
	if err := s.client.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enqueue(ctx, some(1)); !errors.Is(err, tasks.ErrUnavailable) || !strings.Contains(err.Error(), "maxmemory") {
		t.Errorf("answered %v, want %v", err, tasks.ErrUnavailable)
	}
	leased, err := s.Lease(ctx, storetest.Any(10))
	if err != nil || len(leased) != 10 {
		t.Fatalf("leased %d tasks (%v)", len(leased), err)
	}
	settled, err := s.Settle(ctx, succeeded(leased))
	if err != nil || settled[0].Err != nil {
		t.Errorf("settled %v (%v)", settled, err)
	}
	if err := s.Ready(ctx); err != nil {
		t.Error(err)
	}
	sound(t, s)
}

func TestAReplicaIsNotWorkedWith(t *testing.T) {
	master := harness.StartRedis(t)
	replica := harness.StartRedis(t)
	s := open(t, Config{URL: replica.URL()})
	if err := replica.Client(t).ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{URL: replica.URL()}); !errors.Is(err, tasks.ErrUnavailable) || !strings.Contains(err.Error(), "replica of 127.0.0.1:1") {
		t.Errorf("answered %v", err)
	}
	if _, err := s.Enqueue(t.Context(), some(1)); !errors.Is(err, tasks.ErrUnavailable) {
		t.Errorf("answered %v, want %v", err, tasks.ErrUnavailable)
	}
	if err := s.Ready(t.Context()); !errors.Is(err, tasks.ErrUnavailable) {
		t.Errorf("answered %v, want %v", err, tasks.ErrUnavailable)
	}
	open(t, Config{Options: &goredis.UniversalOptions{Addrs: []string{master.Socket()}}})
}

func TestAQueueOfTomorrowIsRefused(t *testing.T) {
	url := serve(t)
	s := open(t, Config{URL: url})
	if err := s.client.HSet(t.Context(), s.key("queue"), "version", "2").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{URL: url}); err == nil || !strings.Contains(err.Error(), "use the newer one") {
		t.Errorf("answered %v", err)
	}
}

func TestWhatCannotBeOpenedIsExplainedWithoutThePassword(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{}, "neither"},
		{Config{URL: "redis://u:hunter2@[::1"}, "must be such as"},
		{Config{URL: "http://u:hunter2@host"}, "must be such as"},
		{Config{URL: "redis://u:hunter2@127.0.0.1:1"}, "127.0.0.1:1"},
		{Config{URL: "redis://u:hunter2@127.0.0.1:1/0?nonsense=1"}, "nonsense"},
		{Config{URL: "redis://u:hunter2@127.0.0.1:1/0?volatile=perhaps"}, "volatile"},
		{Config{URL: "redis://localhost", Instance: "a{b}"}, "instance"},
		{Config{URL: "redis://localhost", Instance: strings.Repeat("a", 65)}, "instance"},
		{Config{Options: &goredis.UniversalOptions{}}, "no address"},
	} {
		_, err := Open(t.Context(), c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("answered %v, want %q in it", err, c.want)
		}
	}
}

func TestAPasswordIsUsed(t *testing.T) {
	r := harness.StartRedis(t)
	socket := r.Socket()
	user := strings.Fields("ACL SETUSER gantry on >hunter2 " + rights)
	if err := r.Client(t).Do(t.Context(), anyOf(user)...).Err(); err != nil {
		t.Fatal(err)
	}
	s := open(t, Config{URL: "unix://gantry:hunter2@" + socket})
	use(t, s)
	for what, call := range everyCall(t, s) {
		if err := call(); err != nil && !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("%s answered %v", what, err)
		}
	}
	if _, err := s.mend(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := Open(t.Context(), Config{URL: "unix://gantry:wrong@" + socket}); err == nil || errors.Is(err, tasks.ErrUnavailable) {
		t.Errorf("a wrong password was answered %v", err)
	}
}

func TestQueuesOfOneServerAreApart(t *testing.T) {
	url := serve(t)
	a, b := open(t, Config{URL: url, Instance: "a"}), open(t, Config{URL: url, Instance: "b"})
	for _, s := range []*Store{a, b} {
		ids, err := s.Enqueue(t.Context(), some(2))
		if err != nil || ids[0] != 1 || ids[1] != 2 {
			t.Errorf("queued %v (%v), want 1 and 2", ids, err)
		}
	}
	leased, err := a.Lease(t.Context(), storetest.Any(9))
	if err != nil || len(leased) != 2 {
		t.Errorf("leased %d tasks (%v), want 2", len(leased), err)
	}
	leased, err = b.Lease(t.Context(), storetest.Any(9))
	if err != nil || len(leased) != 2 {
		t.Errorf("leased %d tasks (%v), want 2", len(leased), err)
	}
	if now, err := a.Now(t.Context()); err != nil || time.Unix(now, 0).Year() < 2020 {
		t.Errorf("it is %d (%v)", now, err)
	}
}

func anyOf(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return all
}
