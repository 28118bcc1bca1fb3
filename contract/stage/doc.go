// Package stage runs one case of a contract on one side, PHP or Go, on a MySQL
// server, and observes what came of it.
//
// A Stage works on one namespace: that of a scratch Phorge, or one that Prepare
// makes from recorded table definitions. It knows every row that was there when
// it was opened. For each case it puts the rows of the world in (world.go),
// listens for requests (receivers.go), takes the locks that somebody else is to
// hold (locks.go), queues the task, leases it by Store.Lease of tasks/phorge,
// has the side execute it, settles it by Store.Settle (run.go), and compares the
// tables that were written with what they held before (changes.go). Then every
// table is put back (restore.go), also after a failure. Both sides share all of
// this, so what differs between two observations is the execution alone.
//
// Two things keep that cheap enough for thousands of cases. A server that runs
// with --userstat=1 counts the rows that are written by table, so only those
// tables are read (written.go); any other has all of them read. And new rows
// get ids from a number on that no world reaches, so the counters of
// AUTO_INCREMENT need to be put back only after a side has used them.
//
// A Stage empties and fills tables. It must never see a production server.
package stage
