package queue

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

//go:embed driver.php
var driver string

// errTorn: a second ended while an operation was performed, so its epochs say
// nothing. The sequence has to be run again.
var errTorn = errors.New("a second ended within an operation")

// StockConfig says which Phorge a Stock works with.
type StockConfig struct {
	// DSN is that of the worker database of the Phorge. It is emptied. Server
	// and PHP must share a clock.
	DSN string

	// PHP is the command of PHP, and Phorge the directory of the Phorge.
	PHP    []string
	Phorge string

	// Dir is where the driver is put, a directory that the caller removes.
	Dir string
}

// Stock is stock Phorge: its own classes, in one PHP process that speaks JSON.
type Stock struct {
	tables
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tail
}

// OpenStock starts PHP and empties the tables. Close ends it, and so does the
// death of this process, because then nobody has anything to tell it.
func OpenStock(ctx context.Context, c StockConfig) (*Stock, error) {
	file, err := os.CreateTemp(c.Dir, "driver-*.php")
	if err != nil {
		return nil, fmt.Errorf("place the driver of stock Phorge: %w", err)
	}
	_, err = file.WriteString(driver)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("place the driver of stock Phorge: %w", err)
	}
	t, err := openTables(ctx, c.DSN)
	if err != nil {
		return nil, err
	}
	s := &Stock{tables: t, stderr: &tail{}}
	s.cmd = exec.Command(c.PHP[0], append(c.PHP[1:], file.Name(), c.Phorge)...)
	s.cmd.Stderr = s.stderr
	if s.in, err = s.cmd.StdinPipe(); err == nil {
		var out io.Reader
		if out, err = s.cmd.StdoutPipe(); err == nil {
			s.out = bufio.NewReader(out)
			err = s.cmd.Start()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start PHP for stock Phorge: %w", err), t.db.Close())
	}
	return s, nil
}

// Close ends PHP and the connection.
func (s *Stock) Close() error {
	return errors.Join(s.in.Close(), s.cmd.Wait(), s.db.Close())
}

// answer is what the driver says. Broken is a fault of the driver; what Phorge's
// code threw is its way of refusing.
type answer struct {
	Owners []string `json:"owners"`
	Threw  string   `json:"threw"`
	Broken string   `json:"broken"`
}

type request map[string]any

func (s *Stock) tell(r request) (answer, error) {
	var a answer
	line, err := json.Marshal(r)
	if err != nil {
		return a, fmt.Errorf("tell stock Phorge: %w", err)
	}
	if _, err = s.in.Write(append(line, '\n')); err == nil {
		line, err = s.out.ReadBytes('\n')
	}
	if err != nil {
		return a, fmt.Errorf("stock Phorge ended at %v: %w\n%s", r["do"], err, s.stderr)
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("stock Phorge answered %q: %w", line, err)
	}
	if a.Broken != "" {
		return a, fmt.Errorf("the driver of stock Phorge is broken at %v: %s", r["do"], a.Broken)
	}
	return a, nil
}

func (s *Stock) clear(ctx context.Context) error {
	if _, err := s.tell(request{"do": "clear"}); err != nil {
		return err
	}
	return s.tables.clear(ctx)
}

// pass lets time pass.
func (s *Stock) pass(ctx context.Context, seconds int64) error {
	if _, err := s.tell(request{"do": "pass", "seconds": seconds}); err != nil {
		return err
	}
	return s.shift(ctx, -seconds)
}

const (
	// PHP's time() can lag behind the database by a tick of the kernel, so
	// nothing is done right after a second began.
	afterSecond = 15 * time.Millisecond

	// An operation takes less than this, or its sequence is run again.
	beforeSecond = 50 * time.Millisecond
)

// stop makes the clock show t+now, though real time went on, and answers when
// enough of the current second is left.
func (s *Stock) stop(ctx context.Context, now int64) error {
	at, err := s.now(ctx)
	if err != nil {
		return err
	}
	into := time.Duration(at.Nanosecond())
	wait := max(0, afterSecond-into)
	if into > time.Second-beforeSecond {
		wait = time.Second - into + afterSecond
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if drift := at.Add(wait).Unix() - s.base - now; drift != 0 {
		return s.pass(ctx, -drift)
	}
	return nil
}

// perform does what is asked at t+now and answers the rows, and what Phorge
// threw.
func (s *Stock) perform(ctx context.Context, a ask, now int64) (after State, threw string, err error) {
	if err := s.stop(ctx, now); err != nil {
		return nil, "", err
	}
	said, err := s.tell(s.request(a, now))
	if err != nil {
		return nil, "", err
	}
	for _, owner := range said.Owners {
		s.owners[owner] = fmt.Sprintf("%s %d", a.op.Do, a.lease)
	}
	if a.op.Do == Lease {
		// What Gantry would write after a failed attempt under this lease.
		s.owners[tasks.RetryOwner(int64(a.lease), 0)] = retried(a.lease)
	}
	if after, err = s.read(ctx); err != nil {
		return nil, "", err
	}
	at, err := s.now(ctx)
	if err == nil && at.Unix() != s.base+now {
		err = errTorn
	}
	return after, said.Threw, err
}

// request is what the driver is told.
func (s *Stock) request(a ask, now int64) request {
	op := a.op
	r := request{"do": op.Do}
	if op.Outcome != nil {
		r["outcome"] = s.outcome(*op.Outcome, now)
	}
	switch op.Do {
	case Schedule:
		r["tasks"] = s.newTasks(op.New, now)
	case Lease:
		var queries []request
		for _, q := range a.queries {
			query := request{"limit": q.limit}
			if q.tasks != nil {
				query["ids"] = s.idsOf(q.tasks)
			}
			queries = append(queries, query)
		}
		r["queries"], r["limit"], r["lease"] = queries, op.Limit, a.lease
	case Execute:
		r["lease"], r["id"], r["revive"] = a.held.lease, s.tasks.ids[a.held.task-1], a.revive
	case Awaken:
		r["ids"] = s.idsOf(op.Tasks)
	case Taskmaster:
	default:
		r["do"], r["argv"] = "bin/worker", s.argv(op, now)
	}
	return r
}

func (s *Stock) argv(op Op, now int64) []string {
	argv := []string{op.Do}
	if op.Do == RunNow {
		argv[0] = "execute"
	}
	for _, id := range s.idsOf(op.Tasks) {
		argv = append(argv, "--id", strconv.FormatInt(id, 10))
	}
	switch op.Do {
	case Delay:
		argv = append(argv, "--until", fmt.Sprint("@", s.base+now+op.Until))
	case Prioritize:
		argv = append(argv, "--priority", strconv.Itoa(op.Priority))
	}
	if op.Retry {
		argv = append(argv, "--retry")
	}
	if op.Repeat {
		argv = append(argv, "--repeat")
	}
	return argv
}

func (s *Stock) outcome(o Outcome, now int64) request {
	r := request{"end": o.End}
	if o.Wait != nil {
		r["wait"] = *o.Wait
	}
	if o.NoWait {
		r["noWait"] = true
	}
	if o.Retries != nil {
		r["retries"] = *o.Retries
	}
	if o.Required != nil {
		r["required"] = *o.Required
	}
	if o.FollowUps != nil {
		r["followUps"] = s.newTasks(o.FollowUps, now)
	}
	return r
}

func (s *Stock) newTasks(news []New, now int64) []request {
	list := make([]request, len(news))
	for i, n := range news {
		options := request{}
		if n.Priority != nil {
			options["priority"] = *n.Priority
		}
		if n.Null {
			options["priority"] = nil
		}
		if n.Object != "" {
			options["objectPHID"] = n.Object
		}
		if n.Container != "" {
			options["containerPHID"] = n.Container
		}
		if n.Delay != nil {
			options["delayUntil"] = s.base + now + *n.Delay
		}
		list[i] = request{"class": n.Class, "data": json.RawMessage(n.Data), "options": options}
	}
	return list
}

// tail keeps the end of what PHP prints for people.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	n, err := t.Buffer.Write(p)
	if over := t.Len() - 8<<10; over > 0 {
		t.Next(over)
	}
	return n, err
}
