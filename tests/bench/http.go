package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/phorge-gantry/gantry/contract/scratch"
)

const (
	// singleClients queue one task after the other over HTTP, and as many
	// connections write the row changes of one task after the other.
	singleClients = 16

	// workBatch is how many tasks are leased and settled by one call over HTTP.
	workBatch = 100
)

// api is `gantry serve` in a process of its own.
type api struct{ address string }

// startAPI starts gantry serve, told by variables which queue it serves. It has
// no token, as on one machine; its log goes to a file, with a line for each call.
func (b *bench) startAPI(ctx context.Context, name string, variables ...string) (*api, error) {
	port, err := scratch.FreePort()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(b.program(name + ".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	a := &api{address: fmt.Sprintf("127.0.0.1:%d", port)}
	cmd := exec.Command(b.program("gantry"), "serve", "--api", a.address)
	cmd.Env = append(os.Environ(), variables...)
	cmd.Stdout, cmd.Stderr = log, log
	process, err := scratch.Spawn(cmd)
	if err != nil {
		return nil, fmt.Errorf("start gantry serve: %w", err)
	}
	b.atClose(process.Kill)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = await(ctx, 5*time.Millisecond, func() (bool, error) {
		r, err := http.Get("http://" + a.address + "/readyz")
		if err != nil {
			return false, nil
		}
		return r.StatusCode == http.StatusOK, r.Body.Close()
	})
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("gantry serve does not become ready: %w\n%s", err, text)
	}
	return a, nil
}

// serve answers the API on the queue of MariaDB, which is started for the first
// row that wants it.
func (b *bench) serve(ctx context.Context) (*api, error) {
	if b.api != nil {
		return b.api, nil
	}
	a, err := b.startAPI(ctx, "serve", "GANTRY_DSN="+b.queue.dsn)
	b.api = a
	return a, err
}

// rawLoops are ways to queue one task with statements alone, by how many commits
// each has. Whoever queues tasks takes their ids from Phorge's counter; the way
// without it shows what the two rows cost.
var rawLoops = map[string]func(ctx context.Context, f floor, id int64) error{
	"enqueue_raw_16": func(ctx context.Context, f floor, _ int64) error {
		return f.exec(ctx, rawCount, "COMMIT", rawInsertData, rawInsertTask, "COMMIT")
	},
	"enqueue_raw_16_at_once": func(ctx context.Context, f floor, _ int64) error {
		return f.exec(ctx, rawCount, rawInsertData, rawInsertTask, "COMMIT")
	},
	"enqueue_rows_16": func(ctx context.Context, f floor, id int64) error {
		return f.exec(ctx,
			fmt.Sprintf("%s(%d,'%s')", floorInsertData, id, data),
			fmt.Sprintf("%s(%d,'%s',0,%d,2000,UNIX_TIMESTAMP(),UNIX_TIMESTAMP())", floorInsertTask, id, class, id),
			"COMMIT")
	},
}

// As LiskDAO::loadNextCounterValue and PhabricatorWorker::scheduleTask.
const (
	beginCounter = `INSERT IGNORE INTO lisk_counter VALUES ('worker_activetask', 0)`

	rawCount = `UPDATE lisk_counter SET counterValue = @id := counterValue + 1 WHERE counterName = 'worker_activetask'`

	rawInsertData = `INSERT INTO worker_taskdata (data) VALUES ('` + data + `')`

	rawInsertTask = `INSERT INTO worker_activetask (id, taskClass, failureCount, dataID, priority, dateCreated, dateModified)
VALUES (@id, '` + class + `', 0, LAST_INSERT_ID(), 2000, UNIX_TIMESTAMP(), UNIX_TIMESTAMP())`
)

// enqueueRaw measures such a loop on each of 16 connections.
func (b *bench) enqueueRaw(row string) measurement {
	return measurement{[]string{row}, func(ctx context.Context) error {
		if err := b.queue.refill(ctx, 0); err != nil {
			return err
		}
		if _, err := b.queue.db.ExecContext(ctx, beginCounter); err != nil {
			return err
		}
		n := 4 * b.singles
		var next atomic.Int64
		began := time.Now()
		err := onFloor(ctx, b.queue.dsn, singleClients, func(ctx context.Context, _ int, f floor) error {
			for id := next.Add(1); id <= int64(n); id = next.Add(1) {
				if err := f.retry(ctx, func() error { return rawLoops[row](ctx, f, id) }); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		b.table.add(row, rate(n, time.Since(began)))
		return b.allQueued(ctx, n)
	}}
}

// enqueueHTTP measures clients that each queue so many tasks by one call, until
// there are n.
func (b *bench) enqueueHTTP(row string, n, size, clients int) measurement {
	one := fmt.Sprintf(`{"taskClass":%q,"data":%q}`, class, data)
	body := one
	if size > 1 {
		body = "[" + strings.TrimSuffix(strings.Repeat(one+",", size), ",") + "]"
	}
	return measurement{[]string{row}, func(ctx context.Context) error {
		if err := b.queue.refill(ctx, 0); err != nil {
			return err
		}
		a, err := b.serve(ctx)
		if err != nil {
			return err
		}
		var next atomic.Int64
		took, err := a.together(ctx, clients, func(_ int, c *client) error {
			for int(next.Add(int64(size))) <= n {
				if _, err := c.post("enqueue", body); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		b.table.add(row, rate(n/size*size, took))
		return b.allQueued(ctx, n/size*size)
	}}
}

// workHTTP measures clients that lease a batch by one call and settle it by
// another, until the queue is empty.
func (b *bench) workHTTP(ctx context.Context) error {
	if err := b.queue.refill(ctx, b.tasks); err != nil {
		return err
	}
	a, err := b.serve(ctx)
	if err != nil {
		return err
	}
	var done atomic.Int64
	took, err := a.together(ctx, enqueueCallers, func(n int, c *client) error {
		c.owner = fmt.Sprintf("bench-%d", n)
		for done.Load() < int64(b.tasks) {
			settled, err := c.work()
			if err != nil {
				return err
			}
			done.Add(int64(settled))
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.table.add("work_http", rate(b.tasks, took))
	return b.allArchived(ctx, b.queue, b.tasks)
}

// work leases a batch and settles it, and answers how many tasks it had.
func (c *client) work() (int, error) {
	answer, err := c.post("lease", fmt.Sprintf(`{"limit":%d}`, workBatch))
	if err != nil {
		return 0, err
	}
	var leased struct{ Data []struct{ ID, Fence int64 } }
	if err := json.Unmarshal(answer, &leased); err != nil || len(leased.Data) == 0 {
		return 0, err
	}
	body := []byte(`{"settlements":[`)
	for i, t := range leased.Data {
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"taskID":%d,"fence":%d,"outcome":"complete","duration":1}`, t.ID, t.Fence)
	}
	if answer, err = c.post("settle", string(append(body, "]}"...))); err != nil {
		return 0, err
	}
	var settled struct {
		Data []struct{ Error *struct{ Message string } }
	}
	if err := json.Unmarshal(answer, &settled); err != nil {
		return 0, err
	}
	for _, s := range settled.Data {
		if s.Error != nil {
			return 0, errors.New(s.Error.Message)
		}
	}
	return len(leased.Data), nil
}

// together lets so many clients work at the same time and answers how long that
// took.
func (a *api) together(ctx context.Context, clients int, work func(n int, c *client) error) (time.Duration, error) {
	all := make([]*client, clients)
	for i := range all {
		c, err := dial(ctx, a.address)
		if err != nil {
			return 0, err
		}
		defer c.connection.Close()
		all[i] = c
	}
	began := time.Now()
	var group errgroup.Group
	for i, c := range all {
		group.Go(func() error { return work(i, c) })
	}
	err := group.Wait()
	return time.Since(began), err
}
