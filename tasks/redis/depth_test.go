package redis

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/storetest"
)

// fillLua queues tasks without asking the store: ARGV is how many, and functions of
// the number n, from 1, that answer the class, the priority, the owner and the
// expiry.
const fillLua = `
local root = string.sub(KEYS[1], 1, -6)
local f = {}
for i = 2, 5 do f[i] = loadstring('local n = ... return ' .. ARGV[i]) end
local last = redis.call('HINCRBY', KEYS[1], 'lastID', ARGV[1])
for n = 1, ARGV[1] do
  local id = string.format('%d', last - ARGV[1] + n)
  local number = tonumber(id)
  local member = string.char(96 + #id) .. id
  local class, priority, owner, expires = f[2](number), f[3](number), f[4](number), f[5](number)
  redis.call('HSET', root .. 'task:' .. id, 'taskClass', class, 'priority', priority, 'dateCreated', 1, 'dateModified', 1, 'data', '{}')
  if owner then redis.call('HSET', root .. 'task:' .. id, 'leaseOwner', owner) end
  if expires then redis.call('HSET', root .. 'task:' .. id, 'leaseExpires', expires) end
  redis.call('ZADD', root .. 'active', id, member)
  if n <= 200 then redis.call('ZADD', root .. 'classes', 0, class) end
  if owner then
    redis.call('ZADD', root .. (string.sub(owner, 1, 1) == '(' and 'parked:' or 'held:') .. class, expires, member)
  elseif expires then
    redis.call('ZADD', root .. 'unripe', expires, member)
    redis.call('ZADD', root .. 'unripe:' .. class, expires, member)
  else
    redis.call('ZADD', root .. 'fresh:' .. class, priority, member)
  end
end`

var fillScript = goredis.NewScript(fillLua)

// depth is a queue that is bad for a scan from the head.
type depth struct {
	name                            string
	class, priority, owner, expires string // Lua of a number n
	req                             tasks.LeaseRequest
	leased                          int
	most                            int // commands of a call
}

var depths = []depth{
	{"plain", "'A'", "2000", "nil", "nil", storetest.Any(64), 64, 180},
	{"a hundred classes", "'C' .. n % 100", "2000", "nil", "nil", storetest.Any(64), 64, 900},
	{"one class of a hundred", "'C' .. n % 100", "2000", "nil", "nil", storetest.Only(64, "C17"), 64, 180},
	{"a class is excluded that has nine tenths", "n % 10 == 0 and 'B' or 'A'", "n % 10 == 0 and 2000 or 1", "nil", "nil", storetest.But(64, "A"), 64, 180},
	{"the class is absent", "'A'", "2000", "nil", "nil", storetest.Only(64, "B"), 0, 20},
	{"all but a few are delayed", "'A'", "2000", "n % 10 > 0 and '(delay)' or nil", "n % 10 > 0 and 4000000000 or nil", storetest.Any(64), 64, 180},
	{"all wait without an owner", "'A'", "2000", "nil", "4000000000", storetest.Any(64), 0, 20},
	{"all are held", "'A'", "2000", "'gantry:1:0:n:h'", "4000000000", storetest.Any(64), 0, 20},
	{"all failed before and are due", "'A'", "2000", "'(retry):1:0'", "n", storetest.Any(64), 64, 180},
	{"all are held by the dead", "'A'", "2000", "'gantry:1:0:n:h'", "n", storetest.Any(64), 64, 310},
	{"all were freed", "'A'", "n % 7", "nil", "n", storetest.Any(64), 64, 1400},
}

// fill queues so many tasks, as many in one script as do not block for long.
func (d depth) fill(t testing.TB, s *Store, n int) {
	t.Helper()
	const part = 10_000
	for ; n > 0; n -= part {
		err := fillScript.Run(t.Context(), s.client, []string{s.key("queue")}, min(n, part), d.class, d.priority, d.owner, d.expires).Err()
		if err != nil && err != goredis.Nil {
			t.Fatal(err)
		}
	}
}

var callsOf = regexp.MustCompile(`cmdstat_([a-z|]+):calls=(\d+)`)

// commands answers how often the server ran each command, in scripts too.
func commands(t testing.TB, c goredis.Cmdable) map[string]int {
	t.Helper()
	text, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]int{}
	for _, found := range callsOf.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(found[2])
		if err != nil {
			t.Fatal(err)
		}
		counted[found[1]] = n
	}
	return counted
}

// during answers how many commands the server ran for what is done.
func during(t testing.TB, s *Store, do func()) (total int, each map[string]int) {
	t.Helper()
	before := commands(t, s.client)
	do()
	each = map[string]int{}
	for name, n := range commands(t, s.client) {
		if n -= before[name]; n > 0 && name != "info" {
			each[name] = n
			total += n
		}
	}
	return total, each
}

// Redis has no command that looks at more entries than it was told to, but for the
// ones that are asked for all: so what a call costs is how many commands it runs,
// and none is among them that goes through a whole key. GANTRY_REDIS_DEPTH=1 has
// this count at a million tasks.
func TestB12CostDoesNotGrowWithTheQueueOrTheArchive(t *testing.T) {
	sizes := []int{1000, depthOf(t)}
	for _, d := range depths {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			var counts []int
			for _, size := range sizes {
				s := open(t, Config{URL: serve(t, "--appendonly", "no"), Instance: newInstance(), Volatile: true})
				d.fill(t, s, size)
				s.upkeepDue.Store(math.MaxInt64) // that is no call's cost
				for range 2 {                    // the first one sends the script
					total, each := during(t, s, func() {
						leased, err := s.Lease(t.Context(), d.req)
						if err != nil || len(leased) != d.leased && size > 1000 {
							t.Errorf("of %d tasks %d were leased (%v), want %d", size, len(leased), err, d.leased)
						}
					})
					for _, whole := range []string{"keys", "scan", "hgetall", "smembers", "sort", "zunion", "zinter"} {
						if each[whole] > 0 {
							t.Errorf("%s was used", whole)
						}
					}
					counts = append(counts, total)
				}
			}
			t.Logf("commands at %d: %v", sizes, counts)
			for _, n := range counts {
				if n > d.most {
					t.Errorf("a call ran %d commands, at most %d are promised", n, d.most)
				}
			}
		})
	}
}

func some(n int) []tasks.NewTask {
	news := make([]tasks.NewTask, n)
	for i := range news {
		news[i] = tasks.NewTask{Class: "A", Data: fmt.Appendf(nil, `{"n":%d}`, i)}
	}
	return news
}

func succeeded(leased []tasks.Task) []tasks.Settlement {
	all := make([]tasks.Settlement, len(leased))
	for i, task := range leased {
		all[i] = tasks.Settlement{ID: task.ID, Lease: *task.Lease, Outcome: tasks.Outcome{Kind: tasks.Succeeded}}
	}
	return all
}

// depthOf answers how many tasks make a deep queue.
func depthOf(t *testing.T) int {
	if os.Getenv("GANTRY_REDIS_DEPTH") != "" {
		return 1_000_000
	}
	t.Log("a deep queue is one of 20,000 tasks here, and of a million with GANTRY_REDIS_DEPTH=1")
	return 20_000
}
