package storetest

import "github.com/phorge-gantry/gantry/tasks"

// Rows is what programs that do not know Gantry do to the queue: stock Phorge,
// its bin/worker and its console, a person with a database client. It is also
// how a test lets time pass: it moves the rows instead of the clock.
type Rows interface {
	// Insert writes an active row as it is given, under the next id, and no data
	// row when Data is nil.
	Insert(task tasks.Task) (id int64, err error)

	// Place writes the lease columns of an active row.
	Place(id int64, place tasks.Place) error

	// Age moves every leaseExpires of the active rows back by some seconds, but
	// not below 0.
	Age(seconds int64) error

	// All answers every row, active and archived, by ascending id, with data.
	All() ([]tasks.Record, error)
}

// Insert implements Rows.
func (m *Memory) Insert(task tasks.Task) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	task = copied(task)
	task.ID = m.nextID()
	m.active[task.ID] = task
	m.made[task.ID] = m.clock()
	return task.ID, nil
}

// Place implements Rows.
func (m *Memory) Place(id int64, place tasks.Place) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	task, ok := m.active[id]
	if !ok {
		return missing(id)
	}
	task.Place = place
	m.active[id] = task
	return nil
}

// Age implements Rows.
func (m *Memory) Age(seconds int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, task := range m.active {
		if task.Expires != nil {
			expires := max(*task.Expires-seconds, 0)
			task.Expires = &expires
			m.active[id] = task
		}
	}
	return nil
}

// All implements Rows.
func (m *Memory) All() ([]tasks.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all(), nil
}

func (m *Memory) all() []tasks.Record {
	table := map[int64]tasks.Record{}
	for id, task := range m.active {
		table[id] = tasks.Record{Task: task}
	}
	for id, record := range m.archived {
		table[id] = record
	}
	records := byID(table)
	for i := range records {
		records[i].Task = looked(records[i].Task)
	}
	return records
}
