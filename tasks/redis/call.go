package redis

import (
	"context"
	_ "embed" // of the scripts
	"fmt"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/common.lua
	commonLua string
	//go:embed lua/trim.lua
	trimLua string
	//go:embed lua/open.lua
	openLua string
	//go:embed lua/enqueue.lua
	enqueueLua string
	//go:embed lua/lease.lua
	leaseLua string
	//go:embed lua/renew.lua
	renewLua string
	//go:embed lua/settle.lua
	settleLua string
	//go:embed lua/operate.lua
	operateLua string
	//go:embed lua/stats.lua
	statsLua string
	//go:embed lua/mend.lua
	mendLua string
	//go:embed lua/upkeep.lua
	upkeepLua string
	//go:embed lua/ready.lua
	readyLua string
)

// When memory is full, the server refuses a script before it begins, and so no
// script stops halfway. What queues is refused; the others are let through, because
// they are what makes room.
const (
	refusedWhenFull = "#!lua\n"
	letThrough      = "#!lua flags=allow-oom\n"
)

var (
	openScript    = goredis.NewScript(letThrough + commonLua + openLua)
	enqueueScript = goredis.NewScript(refusedWhenFull + commonLua + enqueueLua)
	leaseScript   = goredis.NewScript(letThrough + commonLua + leaseLua)
	renewScript   = goredis.NewScript(letThrough + commonLua + renewLua)
	settleScript  = goredis.NewScript(letThrough + commonLua + trimLua + settleLua)
	operateScript = goredis.NewScript(letThrough + commonLua + trimLua + operateLua)
	statsScript   = goredis.NewScript(letThrough + commonLua + statsLua)
	mendScript    = goredis.NewScript(letThrough + commonLua + mendLua)
	upkeepScript  = goredis.NewScript(letThrough + commonLua + trimLua + upkeepLua)
	readyScript   = goredis.NewScript(letThrough + commonLua + readyLua)
)

// run runs a script, which the server is sent only when it does not have it.
func (s *Store) run(ctx context.Context, script *goredis.Script, args ...any) (any, error) {
	answer, err := s.try(ctx, script, args)
	return answer, s.explain(err)
}

func (s *Store) try(ctx context.Context, script *goredis.Script, args []any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	clock := ""
	if s.config.clock != nil {
		clock = strconv.FormatInt(s.config.clock(), 10)
	}
	return script.Run(ctx, s.client, []string{s.key("queue")}, append([]any{clock}, args...)...).Result()
}

// calls numbers the calls of a Store that must not be repeated blindly. Each has a
// slot while it runs, in which the server keeps its answer; so the server keeps no
// more answers than there are calls at the same time.
type calls struct {
	mu    sync.Mutex
	free  []int
	slots int
	last  int
}

func (c *calls) begin() (slot, number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	if n := len(c.free); n > 0 {
		slot, c.free = c.free[n-1], c.free[:n-1]
		return slot, c.last
	}
	c.slots++
	return c.slots, c.last
}

func (c *calls) end(slot int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = append(c.free, slot)
}

// maxInquiries bounds how often a server that does not answer is asked what became
// of a call: for about five seconds.
const maxInquiries = 9

// runOnce runs a script that knows its call by slot and number, and asks again when
// the answer was lost: the script then answers as it did, or runs if it did not.
func (s *Store) runOnce(ctx context.Context, script *goredis.Script, args ...any) (any, error) {
	slot, number := s.calls.begin()
	args = append([]any{s.nonce + "." + strconv.Itoa(slot), number}, args...)
	doubt := false
	for inquiry := 0; ; inquiry++ {
		answer, err := s.try(ctx, script, args)
		if doubt = doubt || unanswered(err); err == nil || !doubt {
			s.calls.end(slot)
			return answer, s.explain(err)
		}
		s.config.Repeated("connection")
		if inquiry == maxInquiries || !pause(ctx, min(time.Second, 20*time.Millisecond<<inquiry)) {
			// The slot is not used again: nobody knows what is in it.
			return nil, fmt.Errorf("it is not known whether this took effect: %w", s.explain(err))
		}
	}
}

// pause reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
