package redis_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/redis"
)

// Of a Redis that is not there the error says so, and that trying again may help.
func ExampleOpen() {
	queue, err := redis.Open(context.Background(), redis.Config{URL: "redis://127.0.0.1:1", Instance: "build"})
	if errors.Is(err, tasks.ErrUnavailable) {
		fmt.Println(err)
		return
	}
	defer queue.Close()
	ids, err := queue.Enqueue(context.Background(), []tasks.NewTask{{Class: "AcmeGreetingWorker", Data: []byte(`{"Name":"World"}`)}})
	fmt.Println(ids, err)
	// Output:
	// store unavailable: queue build on the Redis 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused
}
