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
