// Package storetest holds what every task store is held against.
//
// Memory is the reference model: a queue in this process that states each
// sentence of tasks.Store and tasks.Operator in a few lines of Go. Rows is what
// stock Phorge and its bin/worker do to the same queue behind a store's back.
package storetest
