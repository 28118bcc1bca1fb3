package phorge

import (
	"context"
	"fmt"
)

// The fence has a row of its own in lisk_counter. It never falls below the
// clock, so that a row which was deleted or restored from a backup repeats no
// fence; the first insert uses the same expression, because it would start at
// 0 otherwise.
const fenceSQL = `INSERT INTO lisk_counter (counterName, counterValue)
VALUES ('gantry_fence', LAST_INSERT_ID(UNIX_TIMESTAMP() << 16))
ON DUPLICATE KEY UPDATE counterValue =
LAST_INSERT_ID(GREATEST(counterValue + 1, UNIX_TIMESTAMP() << 16))`

// takeFence answers a number greater than every fence taken before. It is a
// transaction of its own: inside the lease transaction the row would put every
// leaser behind the slowest scan. Each take is a durable commit, so take none
// for an empty poll.
func (s *Store) takeFence(ctx context.Context) (int64, error) {
	var fence int64
	err := s.again(ctx, func() error {
		// The id comes with the answer of the statement itself: a second
		// statement could run on another connection of the pool.
		result, err := s.db.ExecContext(ctx, fenceSQL)
		if err != nil {
			return err
		}
		fence, err = result.LastInsertId()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("take a fence: %w", err)
	}
	return fence, nil
}
