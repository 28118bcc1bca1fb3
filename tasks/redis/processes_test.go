package redis

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// A process of this binary with this variable is a worker: URL NAME SEED.
const workerVariable = "GANTRY_REDIS_WORKER"

func TestMain(m *testing.M) {
	if order := os.Getenv(workerVariable); order != "" {
		if err := beWorker(strings.Fields(order)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	harness.Main(m)
}

// beWorker works on a queue until it is killed, and writes its history to the pipe
// that it inherited.
func beWorker(order []string) error {
	seed, err := strconv.ParseUint(order[2], 10, 64)
	if err != nil {
		return err
	}
	var store *Store
	err = patiently(func() (err error) {
		store, err = Open(context.Background(), Config{URL: order[0], Host: order[1]})
		return err
	})
	if err != nil {
		return err
	}
	history := os.NewFile(3, "history")
	var group errgroup.Group
	recorder := storetest.NewRecorder(store, history)
	for n := range uint64(2) { // so that calls share scripts
		w := &worker{Recorder: recorder, name: fmt.Sprint(order[1], ".", n), rand: rand.New(rand.NewPCG(seed, n))}
		group.Go(func() error {
			for {
				if err := patiently(func() error { return w.round(context.Background()) }); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// patiently does something again and again while the server is away.
func patiently(do func() error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := do(); !errors.Is(err, tasks.ErrUnavailable) {
			return err
		}
		<-tick.C
	}
}

// worker leases, runs and settles tasks, queues new ones, and sometimes settles
// late, again, or not at all.
type worker struct {
	*storetest.Recorder
	name   string
	rand   *rand.Rand
	tokens int
	late   []tasks.Settlement
	last   bool // every task succeeds, and none is queued
}

func (w *worker) chance(n int) bool { return !w.last && w.rand.IntN(n) == 0 }

func (w *worker) round(ctx context.Context) error {
	if w.chance(3) {
		if _, err := w.Enqueue(ctx, w.news(1+w.rand.IntN(3))); err != nil {
			return err
		}
	}
	leased, err := w.Lease(ctx, want(1+w.rand.IntN(6)))
	if err != nil && !errors.Is(err, tasks.ErrSearching) {
		return err
	}
	settlements, err := w.run(leased)
	if err != nil {
		return err
	}
	if w.chance(4) {
		settlements, w.late = append(settlements, w.late...), nil
	}
	if len(w.late) > 0 && w.chance(3) {
		var renewals []tasks.Renewal
		for _, s := range w.late {
			renewals = append(renewals, tasks.Renewal{ID: s.ID, Owner: s.Lease.Owner, LeaseTime: time.Minute})
		}
		if _, err := w.Renew(ctx, renewals); err != nil {
			return err
		}
	}
	if _, err := w.Settle(ctx, settlements); err != nil || w.last || w.rand.IntN(2) == 0 {
		return err
	}
	// Only what stays as it is can be asked for again: a task that waits may be
	// leased meanwhile by a process that dies before anybody knows.
	ended := slices.DeleteFunc(settlements, func(s tasks.Settlement) bool {
		_, archives := s.Outcome.Kind.Result()
		return !archives
	})
	_, err = w.Settle(ctx, ended)
	return err
}

// run runs tasks and answers what is to be settled of them now.
func (w *worker) run(leased []tasks.Task) (settlements []tasks.Settlement, err error) {
	for _, task := range leased {
		ended, err := w.Execution(task)
		if err != nil {
			return nil, err
		}
		s := tasks.Settlement{ID: task.ID, Lease: *task.Lease, Outcome: w.outcome()}
		if err := ended(s.Outcome.Kind); err != nil {
			return nil, err
		}
		if w.chance(8) {
			w.late = append(w.late, s)
		} else {
			settlements = append(settlements, s)
		}
	}
	return settlements, nil
}

func (w *worker) outcome() tasks.Outcome {
	wait := time.Duration(w.rand.IntN(100)-50) * time.Second
	switch {
	case w.chance(10):
		return tasks.Outcome{Kind: tasks.Failed}
	case w.chance(6):
		return tasks.Outcome{Kind: tasks.Retry, Wait: wait}
	case w.chance(12):
		return tasks.Outcome{Kind: tasks.Yielded, Wait: wait}
	case w.chance(12):
		return tasks.Outcome{Kind: tasks.Released, Wait: wait}
	case w.chance(4):
		return tasks.Outcome{Kind: tasks.Succeeded, FollowUps: w.news(1)}
	}
	return tasks.Outcome{Kind: tasks.Succeeded}
}

func (w *worker) news(n int) []tasks.NewTask {
	news := make([]tasks.NewTask, n)
	for i := range news {
		w.tokens++
		news[i] = tasks.NewTask{Class: []string{"A", "B", "C"}[w.rand.IntN(3)], Data: fmt.Appendf(nil, `"%s.%d"`, w.name, w.tokens)}
	}
	return news
}

// runAndKill starts a worker, kills it with -9 as soon as its history has so many
// lines, and answers the history. It counts the lines of all.
func runAndKill(url, name string, seed uint64, lines int, counted *atomic.Int64) ([]storetest.Event, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	var said bytes.Buffer
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", workerVariable, url, name, seed))
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
		counted.Add(1)
	}
	if err := process.Wait(); err == nil || said.Len() > 0 {
		return nil, fmt.Errorf("worker %s ended by itself (%w): %s", name, err, said.Bytes())
	}
	return storetest.ReadHistory(&history)
}

// Whatever is killed, the server included, which keeps what it answered with
// appendonly yes and appendfsync always.
func TestKillsOfProcessesAndOfTheServerLoseAndDoubleNothing(t *testing.T) {
	const slots, kills, outages = 3, 6, 8
	server := harness.StartRedis(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	store := open(t, Config{URL: server.URL()})
	rows := rowsOf(store)
	var own bytes.Buffer
	recorder := storetest.NewRecorder(store, &own)
	// Of a server that is killed meanwhile nobody knows whether it had done it.
	age := func() error {
		return patiently(func() error {
			return recorder.Disturb(nil, func() error { return store.explain(rows.Age(70)) })
		})
	}

	var group errgroup.Group
	var lines atomic.Int64
	histories := make(chan []storetest.Event, slots*kills)
	var working atomic.Int64
	for slot := range slots {
		random := rand.New(rand.NewPCG(seed, uint64(slot)))
		working.Add(1)
		group.Go(func() error {
			defer working.Add(-1)
			for n := range kills {
				name := fmt.Sprintf("%d.%d", slot, n)
				history, err := runAndKill(server.URL(), name, random.Uint64(), 20+random.IntN(400), &lines)
				if err != nil {
					return err
				}
				histories <- history
				if err := age(); err != nil { // what the dead one held is due
					return err
				}
			}
			return nil
		})
	}
	down := 0
	group.Go(func() error {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for random := rand.New(rand.NewPCG(seed, slots)); down < outages && working.Load() > 0; down++ {
			for next := lines.Load() + 50 + random.Int64N(400); lines.Load() < next && working.Load() > 0; {
				<-tick.C
			}
			if err := errors.Join(server.Kill(), server.Start()); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	close(histories)

	last := &worker{Recorder: recorder, name: "last", rand: rand.New(rand.NewPCG(seed, slots)), last: true}
	for left := 1; left > 0; {
		if err := age(); err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if err := patiently(func() error { return last.round(t.Context()) }); err != nil {
				t.Fatal(err)
			}
		}
		page, err := store.List(t.Context(), tasks.Filter{State: tasks.Active, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		left = len(page.Tasks)
	}
	history, err := storetest.ReadHistory(&own)
	if err != nil {
		t.Fatal(err)
	}
	for events := range histories {
		history = append(history, events...)
	}
	final, err := rows.All()
	if err != nil {
		t.Fatal(err)
	}
	sound(t, store)
	report := storetest.Check(history, final)
	for _, v := range report.Violations {
		t.Error(v)
	}
	t.Logf("%d kills of workers, %d of the server, %d events, %d tasks, %d executions: %d repeated because they asked for it, %d because their lease was lost",
		slots*kills, down, len(history), report.Tasks, report.Executions, report.Asked, report.Lost)
	if report.Archived != report.Tasks || report.Tasks < 100 || report.Asked == 0 || report.Lost == 0 || down < 2 {
		t.Errorf("the history proves too little: %+v", report)
	}
}
