// Package tasks is the vocabulary of Gantry: what a task, a lease and an
// outcome are, what a store promises and what an executor does. Everything
// else in the repository speaks these words; this package imports nobody.
//
// The words are Phorge's own. A task is a row of worker_activetask with the
// bytes of its worker_taskdata row; a settled task is a row of
// worker_archivetask. JSON field names are Phorge's column names. Every time
// is an epoch in whole seconds by the clock of the database: the host's clock
// is never compared with a lease.
//
// A task's way through the system:
//
//	Enqueue ─▶ waiting ─Lease─▶ held ─Settle─▶ archived   (succeeded, failed)
//	              ▲               │
//	              └───────────────┘ waiting again         (yielded, retry, crashed, released)
//
// A lease is named by its owner string, which is unique to one Lease call.
// Whoever settles names that owner; when the row no longer carries it, the
// settlement changes nothing and answers ErrLeaseLost.
package tasks
