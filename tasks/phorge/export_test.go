package phorge

// UseCursors makes a store search a small queue as it searches a large one.
func UseCursors(s *Store) { s.leaser.cursorsOnly = true }
