// Package storetest holds what every task store is held against.
//
// Memory is the reference model: a queue in this process that states each
// sentence of tasks.Store and tasks.Operator in a few lines of Go. Run holds a
// store against it: a table of behaviours, one sentence each; random histories
// in which store and model are asked the same and every answer and every row
// is compared; and a concurrent history that is checked afterwards. A store
// brings a Subject: itself, and Rows, which is what stock Phorge and its
// bin/worker do to the same queue behind its back.
//
// Recorder and Check prove the same of whole programs. A Recorder writes down
// what is asked of a store, so that processes can be killed in the middle of
// it; Check reads what they all wrote and the rows that are left, and proves
// that every task was settled once, that no two live leases of it overlapped,
// that nothing was lost or made up, and that whatever ran again had a reason.
package storetest
