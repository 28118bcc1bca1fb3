// Package spawn starts the processes of executors.
package spawn

import "runtime"

// Thread starts all child processes of an executor from one operating system
// thread, which lives until Close. The parent-death signal of a child is sent
// when the thread that forked it ends, not when Gantry does, and Go ends
// threads as it likes.
type Thread struct {
	jobs chan func()
	done chan struct{}
}

// NewThread starts a thread.
func NewThread() *Thread {
	t := &Thread{jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for job := range t.jobs {
			job()
		}
	}()
	return t
}

// Run executes start on the thread and answers its error.
func (t *Thread) Run(start func() error) error {
	result := make(chan error, 1)
	t.jobs <- func() { result <- start() }
	return <-result
}

// Close ends the thread. No child may be left, and Run must not be called any
// more.
func (t *Thread) Close() {
	close(t.jobs)
	<-t.done
}
