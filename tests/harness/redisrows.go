package harness

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/phorge-gantry/gantry/tasks"
)

// RedisRows is a person's hand on a queue in Redis: it writes the keys as their
// description has them, and knows nothing of the store. It implements
// storetest.Rows.
type RedisRows struct {
	Client   goredis.UniversalClient
	Instance string
}

// place writes the lease columns of a task (ARGV: id, owner and expires, "" for
// NULL, behind a letter) and puts it where it belongs.
const placeLua = `
local root, id = string.sub(KEYS[1], 1, -6), ARGV[1]
local key, member = root .. 'task:' .. id, string.char(96 + #id) .. id
local class, priority = unpack(redis.call('HMGET', key, 'taskClass', 'priority'))
if not class or redis.call('HEXISTS', key, 'result') == 1 then return redis.error_reply('ERR no active task ' .. id) end
for i, field in ipairs({'leaseOwner', 'leaseExpires'}) do
  if ARGV[i + 1] == '' then redis.call('HDEL', key, field) else redis.call('HSET', key, field, string.sub(ARGV[i + 1], 2)) end
end
local owner, expires = unpack(redis.call('HMGET', key, 'leaseOwner', 'leaseExpires'))
for _, lane in ipairs({'fresh:', 'unripe:', 'parked:', 'lent:', 'held:'}) do redis.call('ZREM', root .. lane .. class, member) end
redis.call('ZREM', root .. 'unripe', member)
redis.call('ZADD', root .. 'active', id, member)
redis.call('ZADD', root .. 'classes', 0, class)
if not owner and not expires then
  redis.call('ZADD', root .. 'fresh:' .. class, priority, member)
elseif not owner then
  redis.call('ZADD', root .. 'unripe', expires, member)
  redis.call('ZADD', root .. 'unripe:' .. class, expires, member)
else
  local lane = 'lent:'
  if owner == '' or string.sub(owner, 1, 1) == '(' then lane = 'parked:' end
  if string.match(owner, '^gantry:%w+:%w+:[^:]*:') then lane = 'held:' end
  redis.call('ZADD', root .. lane .. class, expires or '+inf', member)
end
`

// age moves the leaseExpires of every task back (ARGV: seconds).
const ageLua = `
local root = string.sub(KEYS[1], 1, -6)
for _, member in ipairs(redis.call('ZRANGE', root .. 'active', 0, -1)) do
  local id = string.sub(member, 2)
  local key = root .. 'task:' .. id
  local class, owner, expires = unpack(redis.call('HMGET', key, 'taskClass', 'leaseOwner', 'leaseExpires'))
  expires = tonumber(expires)
  if expires and expires > 0 then
    expires = math.max(expires - tonumber(ARGV[1]), 0)
    redis.call('HSET', key, 'leaseExpires', expires)
    for _, index in ipairs({'unripe', 'unripe:' .. class, 'parked:' .. class, 'lent:' .. class, 'held:' .. class}) do
      redis.call('ZADD', root .. index, 'XX', expires, member)
    end
  end
end
`

var (
	placeScript = goredis.NewScript(placeLua)
	ageScript   = goredis.NewScript(ageLua)
)

func (r RedisRows) key(name string) string { return "{gantry:" + r.Instance + "}:" + name }

func (r RedisRows) run(script *goredis.Script, args ...any) error {
	err := script.Run(context.Background(), r.Client, []string{r.key("queue")}, args...).Err()
	if err == goredis.Nil {
		return nil
	}
	return err
}

// Insert writes a task with its data under the next id.
func (r RedisRows) Insert(task tasks.Task) (int64, error) {
	ctx := context.Background()
	id, err := r.Client.HIncrBy(ctx, r.key("queue"), "lastID", 1).Result()
	if err != nil {
		return 0, err
	}
	fields := map[string]any{
		"taskClass": task.Class, "priority": task.Priority, "dateCreated": task.DateCreated, "dateModified": task.DateModified,
	}
	if task.FailureCount != 0 {
		fields["failureCount"] = task.FailureCount
	}
	if task.FailureTime != nil {
		fields["failureTime"] = *task.FailureTime
	}
	if task.ObjectPHID != nil {
		fields["objectPHID"] = *task.ObjectPHID
	}
	if task.ContainerPHID != nil {
		fields["containerPHID"] = *task.ContainerPHID
	}
	if task.Data != nil {
		fields["data"] = task.Data
	}
	if err := r.Client.HSet(ctx, r.key(fmt.Sprint("task:", id)), fields).Err(); err != nil {
		return 0, err
	}
	if task.FailureCount > 0 {
		member := goredis.Z{Score: float64(task.FailureCount), Member: redisMember(id)}
		if err := r.Client.ZAdd(ctx, r.key("failing:"+task.Class), member).Err(); err != nil {
			return 0, err
		}
	}
	return id, r.Place(id, task.Place)
}

func redisMember(id int64) string {
	text := strconv.FormatInt(id, 10)
	return string(rune('`'+len(text))) + text
}

// Place writes the lease columns of an active task.
func (r RedisRows) Place(id int64, place tasks.Place) error {
	owner, expires := "", ""
	if place.Owner != nil {
		owner = "=" + *place.Owner
	}
	if place.Expires != nil {
		expires = fmt.Sprint("=", *place.Expires)
	}
	return r.run(placeScript, id, owner, expires)
}

// Age moves every leaseExpires of the active tasks back by some seconds, but not
// below 0.
func (r RedisRows) Age(seconds int64) error { return r.run(ageScript, seconds) }

// All answers every task, active and archived, by ascending id, with data.
func (r RedisRows) All() ([]tasks.Record, error) {
	ctx := context.Background()
	keys, err := r.keys(ctx)
	if err != nil {
		return nil, err
	}
	var all []tasks.Record
	for _, key := range keys {
		text, ok := strings.CutPrefix(key, r.key("task:"))
		if !ok {
			continue
		}
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, err
		}
		hash, err := r.Client.HGetAll(ctx, key).Result()
		if err != nil {
			return nil, err
		}
		all = append(all, redisRecord(id, hash))
	}
	slices.SortFunc(all, func(a, b tasks.Record) int { return int(a.ID - b.ID) })
	return all, nil
}

// keys answers all the keys of the queue.
func (r RedisRows) keys(ctx context.Context) ([]string, error) {
	pattern := r.key("*")
	if cluster, ok := r.Client.(*goredis.ClusterClient); ok {
		node, err := cluster.MasterForKey(ctx, r.key("queue"))
		if err != nil {
			return nil, err
		}
		return node.Keys(ctx, pattern).Result()
	}
	return r.Client.Keys(ctx, pattern).Result()
}

func redisRecord(id int64, hash map[string]string) tasks.Record {
	text := func(field string) *string {
		if value, ok := hash[field]; ok {
			return &value
		}
		return nil
	}
	number := func(field string) *int64 {
		if value, ok := hash[field]; ok {
			n, _ := strconv.ParseInt(value, 10, 64)
			return &n
		}
		return nil
	}
	whole := func(field string) int64 {
		if n := number(field); n != nil {
			return *n
		}
		return 0
	}
	record := tasks.Record{Task: tasks.Task{
		ID: id, Class: hash["taskClass"], Priority: int(whole("priority")),
		ObjectPHID: text("objectPHID"), ContainerPHID: text("containerPHID"),
		FailureCount: int(whole("failureCount")), FailureTime: number("failureTime"),
		DateCreated: whole("dateCreated"), DateModified: whole("dateModified"),
		Place: tasks.Place{Owner: text("leaseOwner"), Expires: number("leaseExpires")}, Traceparent: hash["traceparent"],
	}}
	if data, ok := hash["data"]; ok {
		record.Data = []byte(data)
	}
	if result := number("result"); result != nil {
		record.Archive = &tasks.Archive{Result: int(*result), Duration: whole("duration"), Epoch: whole("archivedEpoch")}
	}
	return record
}
