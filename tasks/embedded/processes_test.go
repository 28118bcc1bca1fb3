package embedded

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// A process of this binary with this variable is a worker: FILE NAME SEED.
const workerVariable = "GANTRY_EMBEDDED_WORKER"

func TestMain(m *testing.M) {
	if order := os.Getenv(workerVariable); order != "" {
		if err := beWorker(strings.Fields(order)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// The race detector makes SQLite, which is Go here, ten times slower, and
	// one goroutine at a time works on these histories.
	if flag.Parse(); raceEnabled && flag.Lookup("rapid.checks").Value.String() == "100" {
		if err := flag.Set("rapid.checks", "25"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// beWorker works on a queue until it is killed, and writes its history to the
// pipe that it inherited.
func beWorker(order []string) error {
	seed, err := strconv.ParseUint(order[2], 10, 64)
	if err != nil {
		return err
	}
	store, err := Open(context.Background(), Config{Path: order[0], Host: order[1]})
	if err != nil {
		return err
	}
	history := os.NewFile(3, "history")
	var group errgroup.Group
	recorder := storetest.NewRecorder(store, history)
	for n := range uint64(2) { // so that calls share transactions
		w := storetest.NewWorker(recorder, fmt.Sprint(order[1], ".", n), rand.New(rand.NewPCG(seed, n)))
		group.Go(func() error {
			for {
				if err := w.Round(context.Background()); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// want wants tasks of any class for a minute.
func want(limit int) tasks.LeaseRequest {
	return tasks.LeaseRequest{Limit: limit, Others: tasks.ClassRequest{Limit: limit, LeaseTime: time.Minute}}
}

// runAndKill starts a worker, kills it with -9 as soon as its history has so
// many lines, and answers the history.
func runAndKill(path, name string, seed uint64, lines int) ([]storetest.Event, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	var said bytes.Buffer
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", workerVariable, path, name, seed))
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
	}
	if err := process.Wait(); err == nil || said.Len() > 0 {
		return nil, fmt.Errorf("worker %s ended by itself (%w): %s", name, err, said.Bytes())
	}
	return storetest.ReadHistory(&history)
}

func TestKillsOfSeveralProcessesLoseAndDoubleNothing(t *testing.T) {
	const slots, kills = 3, 6
	path := filepath.Join(t.TempDir(), "queue.db")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	store := open(t, Config{Path: path})
	file := rows{openFile(t, path)}
	var own bytes.Buffer
	recorder := storetest.NewRecorder(store, &own)
	age := func() error {
		return recorder.Disturb(nil, func() error { return file.Age(70) })
	}

	var group errgroup.Group
	histories := make(chan []storetest.Event, slots*kills)
	for slot := range slots {
		random := rand.New(rand.NewPCG(seed, uint64(slot)))
		group.Go(func() error {
			for n := range kills {
				name := fmt.Sprintf("%d.%d", slot, n)
				history, err := runAndKill(path, name, random.Uint64(), 20+random.IntN(400))
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
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	close(histories)

	last := storetest.NewWorker(recorder, "last", rand.New(rand.NewPCG(seed, slots)))
	for left := 1; left > 0; {
		if err := age(); err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if err := last.Finish(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := file.db.QueryRow("SELECT COUNT(*) FROM task").Scan(&left); err != nil {
			t.Fatal(err)
		}
	}
	history, err := storetest.ReadHistory(&own)
	if err != nil {
		t.Fatal(err)
	}
	for events := range histories {
		history = append(history, events...)
	}
	final, err := file.All()
	if err != nil {
		t.Fatal(err)
	}
	sound(t, file.db)
	report := storetest.Check(history, final)
	for _, v := range report.Violations {
		t.Error(v)
	}
	t.Logf("%d kills, %d events, %d tasks, %d executions: %d repeated because they asked for it, %d because their lease was lost",
		slots*kills, len(history), report.Tasks, report.Executions, report.Asked, report.Lost)
	if report.Archived != report.Tasks || report.Tasks < 100 || report.Asked == 0 || report.Lost == 0 {
		t.Errorf("the history proves too little: %+v", report)
	}
}
