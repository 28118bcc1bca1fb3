package queueapi_test

import (
	"fmt"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/phorge-gantry/gantry/tasks/redis"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// openRedis answers a queue on Redis.
func openRedis(t testing.TB) subject {
	t.Helper()
	server := harness.SharedRedis(t)
	return openRedisAt(t, server.URL(), server.Client(t))
}

func openRedisAt(t testing.TB, url string, client goredis.UniversalClient) subject {
	t.Helper()
	namespaces++
	instance := fmt.Sprint("queueapi", namespaces)
	store, err := redis.Open(t.Context(), redis.Config{URL: url, Instance: instance})
	if err != nil {
		t.Fatal(err)
	}
	hands := harness.RedisRows{Client: client, Instance: instance}
	return subject{Service: store, backend: "redis", hands: hands, close: func() { store.Close() }}
}

func TestB48EveryEndpointWorksOnARedisCluster(t *testing.T) {
	nodes := harness.StartRedisCluster(t, "--appendfsync", "no")
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{nodes[0].Address()}})
	t.Cleanup(func() { client.Close() })
	accept(t, func(t testing.TB) subject { return openRedisAt(t, "redis://"+nodes[0].Address(), client) })
}
