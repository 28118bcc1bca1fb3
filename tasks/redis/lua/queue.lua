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
