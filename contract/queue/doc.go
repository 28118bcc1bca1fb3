// Package queue holds stock Phorge and our store against one another as queues.
//
// The same operations, drawn at random, are performed on two copies of the same
// rows: by Phorge's own classes on one (Stock), by tasks/phorge as the runtime
// and `gantry tasks` use it on the other (Ours). After each, the rows of
// worker_activetask, worker_archivetask and worker_taskdata must be equal.
//
// Where Gantry differs on purpose, a Deviation says exactly what is expected
// instead; see Deviations. It changes either what stock Phorge is asked, such
// as to leave a delayed task alone, or a value of its rows, such as the owner
// of a task that failed. What it changes is written into stock's copy, so that
// both go on from equal rows, and stock Phorge from what Gantry leaves behind.
//
// Epochs count from the start of a sequence: t+60 is a minute later. Nobody
// waits for time to pass; all epochs of the rows, and of what PHP holds in its
// memory, are moved into the past instead. Owners of leases are compared by
// which lease they hold, tasks and their data by the order in which they came.
// The archive's duration, which is how long the work took, is not compared.
//
// What stock Phorge does is recorded (Golden), so that our store can be held
// against it where there is no Phorge: in testdata/stock.jsonl, which the live
// test writes when GANTRY_QUEUE_RECORD is set.
package queue
