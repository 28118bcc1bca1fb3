package redis

import (
	"context"
	"embed"
	"fmt"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/phorge-gantry/gantry/tasks"
)

//go:embed lua/*.lua
var lua embed.FS

// When memory is full, the server refuses a script before it begins, and so no
// script stops halfway. What queues is refused; the others are let through, because
// they are what makes room.
const (
	refusedWhenFull = "#!lua\n"
	letThrough      = "#!lua flags=allow-oom\n"
)

var (
	openScript    = script(letThrough, "common", "open")
	enqueueScript = script(refusedWhenFull, "common", "queue", "answers", "enqueue")
	leaseScript   = script(letThrough, "common", "places", "answers", "lease")
	renewScript   = script(letThrough, "common", "places", "renew")
	settleScript  = script(letThrough, "common", "places", "queue", "trim", "settle")
	operateScript = script(letThrough, "common", "places", "trim", "answers", "operate")
	statsScript   = script(letThrough, "common", "stats")
	mendScript    = script(letThrough, "common", "places", "mend")
	upkeepScript  = script(letThrough, "common", "trim", "upkeep")
	readyScript   = script(letThrough, "common", "ready")
)

// script joins files: what a script needs, and then the script.
func script(head string, names ...string) *goredis.Script {
	for _, name := range names {
		text, err := lua.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // it is compiled in
		}
		head += string(text)
	}
	return goredis.NewScript(head)
}

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
		if inquiry == maxInquiries || !tasks.Pause(ctx, min(time.Second, 20*time.Millisecond<<inquiry)) {
			// The slot is not used again: nobody knows what is in it.
			return nil, fmt.Errorf("it is not known whether this took effect: %w", s.explain(err))
		}
	}
}
