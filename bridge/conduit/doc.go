// Package conduit runs tasks in the PHP of a Phorge on another host, through
// the Conduit method worker.execute of Gantry's extension library.
//
// A Conduit call costs Phorge 10 to 30 ms before it does anything, so tasks
// that wait gather into calls of several, over a few connections:
//
//	Execute ─▶ waiting ──take──▶ call ──worker.execute "run"──▶ outcome
//	                               │                               ▲
//	                               └─no answer─▶ "lookup", again ──┘
//
// # What an answer proves
//
// Only 200 with application/json and a whole Conduit envelope says what became
// of a task. Everything else, a page, a redirect, a cut connection, leaves the
// outcome unknown, since PHP goes on with a task when its client is gone. Then
// the work is never asked for again. Its receipt is looked up, which Phorge
// keeps for each task and leaseOwner, until it says
//
//   - done: the outcome, as if the answer had come,
//   - dead: the process died with the task, which is believed once the call has
//     ended too,
//   - absent: the task was not begun, and cannot be any more under this
//     leaseOwner. The lookup itself closes it, because the request may still be
//     on its way,
//   - running: look again later. PHP cannot be stopped from here, so such a
//     lease is never released early.
//
// An execution can outlive its lease, since PHP goes on when Gantry stops or
// dies. Then the next lease, whoever holds it, is refused while the task runs,
// and waits without counting an attempt. A success that nobody settled is
// answered to it as its own.
//
// A call that the library refuses as a whole, or that never got a connection,
// began nothing: its tasks go back to their places and leasing pauses, until
// worker.capabilities answers again.
//
// # What is signed
//
// Every request carries an HMAC-SHA256 over its method, namespace, key id, time,
// a nonce and the digest of a JSON string, which is all that the method reads.
// The key itself never travels.
//
// The Executor is a tasks.Executor.
package conduit
