// Package pool runs tasks in resident PHP processes: it starts
// php/bin/pool-host.php a number of times, hands each process one task at a
// time over private pipes, and replaces processes that end, break, or want to
// be replaced. A Pool is a tasks.Executor.
//
// The life of a process:
//
//	starting ─▶ idle ◀─▶ busy
//	             │
//	             └─▶ leaving ─▶ stopped
//
// From the first three it can also come to failed, when it ends by itself or is
// not fit to use, and to stopped, when Gantry kills it because a task is
// cancelled or the pool is closed.
//
// # What is known of a task when its process is gone
//
// A process has a pipe of its own for requests (its fd 3), one for answers (fd
// 4), and both are discarded with it; a request id is a random number of 128
// bits. So what a process says late can reach nobody. Its death is seen by
// waiting for it, because a program that it left behind can hold the pipes
// open. Then what is left in the answer pipe is read, so that work that was
// finished counts as finished; and the request pipe tells how much of the
// request had been read. A task of which not a byte was read has not begun and
// is released. Any other crashed, unless it was Gantry that ended the process,
// or SIGTERM did for the first time (see Pool.terminated).
//
// The same count finds a process that is wedged: one that has not taken a
// request out of the pipe after Config.TakeTimeout is killed. It needs no
// message for the purpose, and what is idle need not be asked. A process that
// is stopped by a signal (SIGSTOP) is found by waiting, like a dead one, and is
// killed at once, whatever it was doing.
//
// # When Gantry is killed
//
// The kernel kills each process that Gantry started, and no other: a program
// that a task started lives on, and can overlap the next run of the task. So
// Config.Command must become PHP (exec): a shell that waits for PHP would die
// in its place, and PHP would finish its task and only then see the end of its
// requests.
//
// # Replacement
//
// A process says that it wants to be replaced, and why: it served its number
// of tasks, it is old or large, the configuration changed, a task threw what
// nobody caught. It goes on serving until its successor has started, or has
// failed to. Successors start one at a time, so there is at most one process
// more than Config.Max.
package pool
