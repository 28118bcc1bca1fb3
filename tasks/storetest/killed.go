package storetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/phorge-gantry/gantry/tasks"
)

// A process of a test binary with this variable is a worker: PLACE NAME SEED.
const workerVariable = "GANTRY_STORETEST_WORKER"

// Work makes this process a worker that KillWorkers started, and answers whether
// it is one, and why it ended by itself. A TestMain calls it first. Open answers
// the store at a place, of a process of that name. The store may be unavailable
// for a while when away is set.
func Work(away bool, open func(place, name string) (tasks.Store, error)) (is bool, err error) {
	order := strings.Fields(os.Getenv(workerVariable))
	if len(order) == 0 {
		return false, nil
	}
	seed, err := strconv.ParseUint(order[2], 10, 64)
	if err != nil {
		return true, err
	}
	var store tasks.Store
	err = patiently(away, func() (err error) {
		store, err = open(order[0], order[1])
		return err
	})
	if err != nil {
		return true, err
	}
	recorder := NewRecorder(store, os.NewFile(3, "history"))
	var group errgroup.Group
	for n := range uint64(2) { // so that a store can do the calls of both at once
		w := NewWorker(recorder, fmt.Sprint(order[1], ".", n), rand.New(rand.NewPCG(seed, n)))
		group.Go(func() error {
			for {
				if err := patiently(away, func() error { return w.Round(context.Background()) }); err != nil {
					return err
				}
			}
		})
	}
	return true, group.Wait()
}

// patiently does something again and again while the store is away.
func patiently(away bool, do func() error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := do(); !away || !errors.Is(err, tasks.ErrUnavailable) {
			return err
		}
		<-tick.C
	}
}

// Killing is what KillWorkers kills, and how often.
type Killing struct {
	Slots, Kills int // so many workers at a time, one after the other so often

	Place   string // what workers open; no spaces
	Subject        // the same queue in this process; Other and Close are not used

	// Beside happens meanwhile, with the number of lines that the histories have,
	// as long as workers work. With it, the store may be unavailable for a while.
	Beside func(lines func() int64, working func() bool) error
}

// KillWorkers lets processes of this test binary work on a queue, kills them with
// -9 in the midst of it, does what is left, and checks the history of all.
func KillWorkers(t *testing.T, k Killing) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := &killed{Killing: k, histories: make(chan []Event, k.Slots*k.Kills)}
	c.recorder = NewRecorder(k.Store, &c.own)
	var group errgroup.Group
	for slot := range uint64(k.Slots) {
		c.working.Add(1)
		group.Go(func() error { return c.slot(slot, rand.New(rand.NewPCG(seed, slot))) })
	}
	if k.Beside != nil {
		group.Go(func() error { return k.Beside(c.lines.Load, func() bool { return c.working.Load() > 0 }) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	close(c.histories)
	if err := c.finish(t.Context(), rand.New(rand.NewPCG(seed, uint64(k.Slots)))); err != nil {
		t.Fatal(err)
	}
	report, err := c.check()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range report.Violations {
		t.Error(v)
	}
	t.Logf("%d kills, %d tasks, %d executions: %d repeated because they asked for it, %d because their lease was lost",
		k.Slots*k.Kills, report.Tasks, report.Executions, report.Asked, report.Lost)
	if report.Archived != report.Tasks || report.Tasks < 100 || report.Asked == 0 || report.Lost == 0 {
		t.Errorf("the history proves too little: %+v", report)
	}
}

// killed is a Killing under way.
type killed struct {
	Killing
	recorder       *Recorder
	own            bytes.Buffer // the history of this process
	histories      chan []Event // of the others
	lines, working atomic.Int64
}

func (k *killed) slot(slot uint64, random *rand.Rand) error {
	defer k.working.Add(-1)
	for n := range k.Kills {
		history, err := k.startAndKill(fmt.Sprintf("%d.%d", slot, n), random.Uint64(), 20+random.IntN(400))
		if err != nil {
			return err
		}
		k.histories <- history
		if err := k.age(); err != nil { // what the dead one held is due
			return err
		}
	}
	return nil
}

// age lets time pass. When the store went away meanwhile, nobody knows whether
// it did.
func (k *killed) age() error {
	return patiently(k.Beside != nil, func() error {
		return k.recorder.Disturb(nil, func() error { return k.Rows.Age(70) })
	})
}

// startAndKill starts a worker, kills it as soon as its history has so many
// lines, and answers the history.
func (k *killed) startAndKill(name string, seed uint64, lines int) ([]Event, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	var said bytes.Buffer
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", workerVariable, k.Place, name, seed))
	process.ExtraFiles = []*os.File{write}
	process.Stderr = &said
	err = process.Start()
	write.Close()
	if err != nil {
		return nil, err
	}
	var history bytes.Buffer
	reader := bufio.NewReader(read)
	for n := 0; ; n++ {
		if n == lines {
			if err := process.Process.Kill(); err != nil {
				return nil, err
			}
		}
		line, err := reader.ReadBytes('\n')
		history.Write(line)
		if err != nil {
			break
		}
		k.lines.Add(1)
	}
	if err := process.Wait(); err == nil || said.Len() > 0 {
		return nil, fmt.Errorf("worker %s ended by itself (%w): %s", name, err, said.Bytes())
	}
	return ReadHistory(&history)
}

// finish does what is left.
func (k *killed) finish(ctx context.Context, random *rand.Rand) error {
	last := NewWorker(k.recorder, "last", random)
	for {
		if err := k.age(); err != nil {
			return err
		}
		for range 50 {
			if err := patiently(k.Beside != nil, func() error { return last.Finish(ctx) }); err != nil {
				return err
			}
		}
		page, err := k.Operator.List(ctx, tasks.Filter{State: tasks.Active, Limit: 1})
		if err != nil || len(page.Tasks) == 0 && page.Next == 0 {
			return err
		}
	}
}

func (k *killed) check() (Report, error) {
	history, err := ReadHistory(&k.own)
	if err != nil {
		return Report{}, err
	}
	for events := range k.histories {
		history = append(history, events...)
	}
	final, err := k.Rows.All()
	return Check(history, final), err
}
