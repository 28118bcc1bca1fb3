package embedded_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/embedded"
)

func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "queue")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	queue, err := embedded.Open(ctx, embedded.Config{Path: filepath.Join(dir, "queue.db")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer queue.Close()
	if _, err := queue.Enqueue(ctx, []tasks.NewTask{{Class: "AcmeGreetingWorker", Data: []byte(`{"Name":"World"}`)}}); err != nil {
		fmt.Println(err)
		return
	}
	leased, err := queue.Lease(ctx, tasks.LeaseRequest{Limit: 10, Others: tasks.ClassRequest{Limit: 10, LeaseTime: time.Minute}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, task := range leased {
		fmt.Println(task.Class, string(task.Data))
		settled, err := queue.Settle(ctx, []tasks.Settlement{{ID: task.ID, Lease: *task.Lease, Outcome: tasks.Outcome{Kind: tasks.Succeeded}}})
		fmt.Println(len(settled), err)
	}
	// Output:
	// AcmeGreetingWorker {"Name":"World"}
	// 1 <nil>
}
