// Package runtime is the loop that empties a queue: it leases tasks from a
// tasks.Store, runs each through the tasks.Executor of its class, keeps the
// leases alive meanwhile, and settles what came of them.
//
//	             ┌────────── book: what is held, slots, outcomes ──────────┐
//	leaser ──add─▶ waiting ──next──▶ running ──finish──▶ ended ──take──▶ settlers
//	             └──────────────▲ renewer: lost, revived ▲─────────────────┘
//
// The book is the only state, behind one lock, and it does no I/O. Around it
// stand one leaser, one renewer, a few settlers and one goroutine for each busy
// slot. None of them waits for another: while one batch is being settled the
// next runs and the one after that is being leased.
//
// # How far it leases ahead
//
// Of each class so many tasks are leased and waiting as its slots finish within
// a twentieth of a second (see pace). Cheap tasks therefore stream in large
// batches, and of a class whose tasks take long nothing is leased until a slot
// is free for it. The estimate can be wrong, when slow tasks take the slots that
// cheap ones flowed through; so a task that has waited for a second is given
// back to the queue, at its place and without counting anything.
//
// # Whose slots
//
// Classes that share a Limit, such as those that run in one pool of PHP
// processes, have its slots and are leased in calls of their own; all others
// share Config.Slots. So neither waits for the other, however slow its tasks
// are. Within each, the task that was leased first runs first. Classes that
// nobody named are met with their first task (see Config.Others).
//
// # Several instances
//
// Each has a runtime of its own: store, classes, slots and all. What they share
// is Turns, the number of tasks that the process runs. Nothing else is common to
// them, so one whose store is away or whose executor hangs holds up nobody. A
// runtime leases for the turns that it may expect, and what waited a second for
// one goes back like anything that waited for a slot.
//
// # When the store cannot be reached
//
// Nothing ends and nothing is dropped: calls are repeated with growing pauses,
// outcomes wait, and the bound on held tasks stops the intake. After any failed
// call the runtime renews what it holds before it leases again (see
// book.leasable), or it could lease, as somebody else's expired task, one that
// it still holds itself.
//
// # How it stops
//
// Drain gives unstarted tasks back, waits for the running ones, and cancels
// and releases those that take too long. Close does not wait. Either leaves no
// goroutine and counts no attempt. An executor that cannot stop its work
// releases the task with a wait, which is then never shorter than its lease.
package runtime
