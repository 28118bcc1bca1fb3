package embedded

import (
	"context"
	"fmt"
	"strings"

	"github.com/phorge-gantry/gantry/tasks"
)

// maxData bounds the data of one task, in bytes. SQLite could hold more, but
// every process that looks at the task holds all of it in memory.
const maxData = 64 << 20

// Enqueue implements tasks.Store. Ids ascend in the order of the commits.
func (s *Store) Enqueue(ctx context.Context, news []tasks.NewTask) ([]int64, error) {
	if len(news) == 0 {
		return nil, nil
	}
	if err := validate(news); err != nil {
		return nil, err
	}
	var ids []int64
	err := s.write(ctx, func(tx *txn) (err error) {
		ids, err = tx.insert(news, tasks.PriorityDefault)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("queue %d tasks: %w", len(news), err)
	}
	return ids, nil
}

// validate refuses what the file cannot hold, or should not.
func validate(news []tasks.NewTask) error {
	for _, n := range news {
		if err := n.Validate(); err != nil {
			return err
		}
		if len(n.Data) > maxData {
			return fmt.Errorf("%w: task of class %q: data has %d bytes and the limit is %d; store the content elsewhere and queue a reference",
				&tasks.SizeError{Size: len(n.Data), Limit: maxData}, n.Class, len(n.Data), maxData)
		}
	}
	return nil
}

// insertRows is how many rows one statement inserts, as long as there are so
// many; the rest come one by one. A larger statement is hardly quicker.
const insertRows = 32

var (
	insertTask = bulk(`INSERT INTO task (id, taskClass, leaseOwner, leaseExpires, failureCount, priority, objectPHID, containerPHID,
dateCreated, dateModified) VALUES `, `(?,?,?,?,0,?,?,?,?,?)`)

	insertData = bulk(`INSERT INTO data (id, data, traceparent) VALUES `, `(?,?,?)`)
)

// bulk answers a statement for one row and one for insertRows.
func bulk(head, row string) map[int]string {
	return map[int]string{1: head + row, insertRows: head + row + strings.Repeat(","+row, insertRows-1)}
}

// insert queues tasks under the next ids. Priority is that of those that have
// none.
func (tx *txn) insert(news []tasks.NewTask, priority int) ([]int64, error) {
	ids := make([]int64, len(news))
	for i := range ids {
		tx.lastID++
		ids[i] = tx.lastID
	}
	for done := 0; done < len(news); {
		n := 1
		if len(news)-done >= insertRows {
			n = insertRows
		}
		if err := tx.insertPart(news[done:done+n], ids[done:done+n], priority); err != nil {
			return nil, err
		}
		done += n
	}
	return ids, nil
}

func (tx *txn) insertPart(news []tasks.NewTask, ids []int64, priority int) error {
	rows, data := make([]any, 0, 9*len(news)), make([]any, 0, 3*len(news))
	for i, n := range news {
		var owner, expires any
		if n.DelayUntil > 0 {
			owner, expires = tasks.DelayOwner, n.DelayUntil
		}
		if n.Priority == nil {
			n.Priority = &priority
		}
		rows = append(rows, ids[i], n.Class, owner, expires, *n.Priority, n.ObjectPHID, n.ContainerPHID, tx.now, tx.now)
		var traceparent any
		if n.Traceparent != "" {
			traceparent = n.Traceparent
		}
		data = append(data, ids[i], string(n.Data), traceparent)
	}
	if err := tx.exec(insertTask[len(news)], rows...); err != nil {
		return err
	}
	return tx.exec(insertData[len(news)], data...)
}
