package phorge

import "time"

// UseCursors makes a store search a small queue as it searches a large one.
func UseCursors(s *Store) { s.leaser.cursorsOnly = true }

// ReadWhole makes every store read a small queue whole, however long that takes
// on a busy machine, until the answered function is called.
func ReadWhole() (undo func()) {
	before := tooSlow
	tooSlow = time.Hour
	return func() { tooSlow = before }
}
