package queueapi_test

import (
	"fmt"
	"testing"

	"github.com/phorge-gantry/gantry/tasks/redis"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// openRedis answers a queue on Redis.
func openRedis(t testing.TB) subject {
	t.Helper()
	server := harness.SharedRedis(t)
	namespaces++
	instance := fmt.Sprint("queueapi", namespaces)
	store, err := redis.Open(t.Context(), redis.Config{URL: server.URL(), Instance: instance})
	if err != nil {
		t.Fatal(err)
	}
	hands := harness.RedisRows{Client: server.Client(t), Instance: instance}
	return subject{Service: store, backend: "redis", hands: hands, close: func() { store.Close() }}
}
