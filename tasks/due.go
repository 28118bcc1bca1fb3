package tasks

// DueSince answers since when a task that stands at a place could be leased, by
// the clock of the store, as far as its row tells: one that was awakened, since
// it yielded.
func (t Task) DueSince(p Place) int64 {
	if p.Expires == nil {
		return t.DateModified // leasing leaves it
	}
	return max(t.DateModified, *p.Expires)
}
