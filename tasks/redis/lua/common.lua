-- What all scripts share. KEYS[1] is the hash "queue" of an instance, and every
-- other key of the instance begins as it does; so all of them are in one slot of
-- a cluster. ARGV[1] is the time, or "" for the clock of the server.
local call = redis.call
local char, find, match, sub = string.char, string.find, string.match, string.sub
local floor, min, max = math.floor, math.min, math.max

local root = sub(KEYS[1], 1, -6)
local now = tonumber(ARGV[1]) or tonumber(call('TIME')[1])

-- many gives a command more arguments than unpack can hold at once.
local function many(command, key, list)
  for i = 1, #list, 1000 do
    call(command, key, unpack(list, i, min(i + 999, #list)))
  end
end

-- Indexes are sorted sets of ids. An id is written behind a letter that says how
-- many digits it has, so that ids of one score stand in the order of numbers:
-- a7, b17, c170.
local function member(id)
  return char(96 + #id) .. id
end

-- What changes in indexes, written by flush: index -> id -> score, or false to
-- take the id out.
local pending = {}
local seen = {} -- classes that got a task

local function put(index, id, score)
  local entries = pending[index]
  if not entries then
    entries = {}
    pending[index] = entries
  end
  entries[id] = score
end

local function flush()
  for index, entries in pairs(pending) do
    local add, out = {}, {}
    for id, score in pairs(entries) do
      if score then
        add[#add + 1] = score
        add[#add + 1] = member(id)
      else
        out[#out + 1] = member(id)
      end
    end
    many('ZADD', root .. index, add)
    many('ZREM', root .. index, out)
  end
  local classes = {}
  for class in pairs(seen) do
    classes[#classes + 1] = 0
    classes[#classes + 1] = class
  end
  many('ZADD', root .. 'classes', classes)
  pending, seen = {}, {}
end

-- lane answers the index in which an active task waits, and its score there.
-- Each has one, so that the first due task of a class is found by its end.
local function lane(t)
  local owner = t.owner
  if not owner then
    if not t.expires or t.expires < now then
      return 'fresh:' .. t.class, t.priority
    end
    return 'unripe', t.expires
  end
  local kind = 'lent:' -- to a caller, or whoever wrote the row by hand
  if owner == '' or sub(owner, 1, 1) == '(' then
    kind = 'parked:'
  elseif find(owner, '^gantry:%w+:%w+:[^:]*:') then
    kind = 'held:'
  end
  return kind .. t.class, t.expires or 'inf'
end

-- enter puts an active task in its lane.
local function enter(t)
  local index, score = lane(t)
  put(index, t.id, score)
  if index == 'unripe' then
    put('unripe:' .. t.class, t.id, score) -- to be counted
  end
  seen[t.class] = true
end

-- leave takes an active task out of its lane.
local function leave(t)
  if t.owner or not t.expires then
    put(lane(t), t.id, false)
    return
  end
  put('fresh:' .. t.class, t.id, false)
  put('unripe', t.id, false)
  put('unripe:' .. t.class, t.id, false)
end

-- fetch answers fields of a task. A key that holds something else is no task; it
-- must not stop the others.
local function fetch(id, ...)
  local row = redis.pcall('HMGET', root .. 'task:' .. id, ...)
  if not row.err then
    return row
  elseif find(row.err, '^WRONGTYPE') then
    return {}
  end
  error(row)
end

-- read answers what the indexes know of a task; nil when there is none.
local function read(id)
  local r = fetch(id, 'taskClass', 'leaseOwner', 'leaseExpires', 'priority', 'failureCount', 'result', 'failureTime')
  if not r[1] then
    return nil
  end
  return {
    id = id, class = r[1], owner = r[2], expires = tonumber(r[3]), priority = tonumber(r[4]) or 0,
    failures = tonumber(r[5]) or 0, result = r[6], failed = r[7],
  }
end

-- move gives an active task another place, and whatever else of its fields and
-- values is given.
local function move(t, owner, expires, ...)
  leave(t)
  local key = root .. 'task:' .. t.id
  if owner and expires then
    call('HSET', key, 'leaseOwner', owner, 'leaseExpires', expires, ...)
  else
    for field, value in pairs({leaseOwner = owner or false, leaseExpires = expires or false}) do
      if value then
        call('HSET', key, field, value, ...)
      else
        call('HDEL', key, field)
      end
    end
    if not owner and not expires and select('#', ...) > 0 then
      call('HSET', key, ...)
    end
  end
  t.owner, t.expires = owner, expires
  enter(t)
end

-- archive moves an active task, as PhabricatorWorkerActiveTask::archiveTask: it
-- keeps what the task holds and drops failureTime.
local function archive(t, result, duration)
  leave(t)
  local key = root .. 'task:' .. t.id
  call('HSET', key, 'result', result, 'duration', duration, 'archivedEpoch', now, 'dateModified', now)
  put('active', t.id, false)
  if t.failed then
    call('HDEL', key, 'failureTime')
  end
  if t.failures > 0 then
    put('failing:' .. t.class, t.id, false)
  end
  put('archive:' .. result, t.id, t.id)
  put('aged', t.id, now)
  t.result = tostring(result)
end

-- record keeps a failed attempt, a JSON object without its number and time, and
-- the latest ones of its task before it.
local function record(t, attempt, kept)
  local key = root .. 'attempts:' .. t.id
  call('LPUSH', key, '{"attempt":' .. (t.failures + 1) .. ',"epoch":' .. now .. ',' .. sub(attempt, 2))
  call('LTRIM', key, 0, kept - 1)
end

-- highest answers the highest id that an index knows.
local function highest()
  local top = 0
  for _, index in ipairs({'active', 'archive:0', 'archive:1', 'archive:2'}) do
    local last = call('ZRANGE', root .. index, -1, -1)[1]
    if last then
      top = max(top, tonumber(sub(last, 2)))
    end
  end
  return top
end

-- reserve answers the keys of n new tasks and the id before the first. Ids that
-- are in use although the counter does not know of it, because somebody deleted
-- the counter or restored an older one, are passed over.
local function reserve(n)
  local before = call('HINCRBY', KEYS[1], 'lastID', n) - n
  local first = before
  if before == 0 then
    first = highest()
  end
  while true do
    local keys, used = {}, 0
    for i = 1, n do
      keys[i] = root .. 'task:' .. string.format('%d', first + i)
    end
    for i = 1, n, 1000 do
      used = used + call('EXISTS', unpack(keys, i, min(i + 999, n)))
    end
    if used == 0 then
      if first ~= before then
        call('HSET', KEYS[1], 'lastID', first + n)
      end
      return keys, first
    end
    first = first + 1000000
  end
end

-- insert queues n tasks that ARGV describes from at on, each by its class, its
-- priority ("": that of its parent), the epoch until which it is delayed ("": not
-- at all), and a number of fields and values, which follow. It answers the id of
-- the first, and where ARGV goes on.
local function insert(n, at, inherited)
  local keys, first = reserve(n)
  for i = 1, n do
    local class, priority, delay = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    local last = at + 3 + tonumber(ARGV[at + 3])
    local id = string.format('%d', first + i)
    if priority == '' then
      priority = inherited
    end
    call('HSET', keys[i], 'taskClass', class, 'priority', priority, 'dateCreated', now, 'dateModified', now,
      unpack(ARGV, at + 4, last))
    put('active', id, id)
    if delay == '' then
      put('fresh:' .. class, id, priority)
    else
      put('parked:' .. class, id, delay)
    end
    seen[class] = true
    at = last + 1
  end
  return first + 1, at
end

-- skip answers where ARGV goes on behind n tasks that are not queued.
local function skip(n, at)
  for _ = 1, n do
    at = at + 4 + tonumber(ARGV[at + 3])
  end
  return at
end

-- A call whose answer got lost is repeated with the same number in the same slot,
-- and told what it was told before. Slots belong to one Store; a slot is used
-- again, with a higher number, when its call was answered. What was sent before the
-- repetition can arrive after it, and even after the next call in its slot: then
-- nobody waits for its answer any more, and it does nothing.
local function before()
  local kept = call('GET', root .. 'answer:' .. ARGV[2])
  if not kept then
    return nil
  end
  local number, reply = match(kept, '^(%d+) (.*)$')
  if number == ARGV[3] then
    return cmsgpack.unpack(reply)
  elseif tonumber(number) > tonumber(ARGV[3]) then
    return {}
  end
end

local function remember(reply)
  call('SET', root .. 'answer:' .. ARGV[2], ARGV[3] .. ' ' .. cmsgpack.pack(reply), 'EX', 300)
end
