package stage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// caseTime is how long a run may take whose class has no deadline: longer than
// the 15 s after which PHP gives a webhook up, shorter than anybody waits.
const caseTime = 60 * time.Second

// longest answers how long a side may run a task.
func (s *Stage) longest(side Side, class string) time.Duration {
	if s.timeout > 0 {
		return s.timeout
	}
	if b, ok := side.(*binaries); ok {
		for _, plugin := range b.manifest.Plugins {
			if deadline := plugin.Classes[class].Deadline; deadline > 0 {
				return deadline
			}
		}
	}
	return caseTime
}

// bounded runs a task for as long as it may. What goes on after that is ended
// with its process, and a new one is started for the next case. A handler of this
// process that does not heed its context cannot be ended.
func (s *Stage) bounded(ctx context.Context, side Side, class string, run func(ctx context.Context)) error {
	longest := s.longest(side, class)
	limited, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	run(limited)
	switch late := limited.Err(); {
	case ctx.Err() != nil:
		return fmt.Errorf("the run did not end by itself: %w", context.Cause(ctx))
	case late != nil:
		where := "Handle"
		if _, ok := side.(*php); ok {
			where = "doWork of PHP"
		}
		return errors.Join(fmt.Errorf("still in %s after %v s; mend what it waits for, or allow more by a deadline in the manifest or --timeout", where, longest.Seconds()), side.Close())
	}
	return nil
}
