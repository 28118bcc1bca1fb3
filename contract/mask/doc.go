// Package mask makes cases of real tasks and of the rows that they refer to,
// without what those say about people: the result can go into a public report.
//
// A value is replaced by a stand-in of its shape. What a stand-in tells of the
// value is the kind (a PHID of a user, an e-mail address, the URL of a private
// address), the class of length, the classes of characters, and where else the
// same value stands. It is made from the number that counts the different values
// in the order in which they are met, and never from the value: there is no
// digest that somebody could find again by trying. The same rows in the same
// order become the same cases.
//
// Text is masked unless there is a reason to keep it; see kept.
package mask
