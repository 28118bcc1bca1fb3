// Package scratch provides what cases run on and what is thrown away with them:
// a private MariaDB, and a Phorge on it that is a copy of a checkout.
//
// Nothing of it outlives the process that made it.
package scratch
