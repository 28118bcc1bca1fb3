package pool

import "runtime"

// spawner starts all processes from one operating system thread that lives as
// long as the pool. The parent-death signal of a process is sent when the
// thread that forked it ends, not when Gantry does, and Go ends threads as it
// likes.
type spawner struct {
	jobs chan func()
	done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

// run executes start on the spawner's thread.
func (s *spawner) run(start func() error) error {
	result := make(chan error, 1)
	s.jobs <- func() { result <- start() }
	return <-result
}

// close ends the thread. No process may be left.
func (s *spawner) close() {
	close(s.jobs)
	<-s.done
}
