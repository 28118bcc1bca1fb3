-- ARGV: time, slot, number, name of the caller or "", nonce and host of this
-- Gantry, attempts that are kept of a task, the attempt of a task whose holder
-- died, most tasks, most bytes of data, what is wanted of classes that are not
-- named (limit, seconds of the lease, seconds of the pickup delay), the class
-- behind which classes are looked at, and of each named class: name, limit,
-- seconds, seconds. Answers the time, the fence, whether there is more to look
-- at, the last class that was looked at ("": all were), and the tasks. A fence of -1
-- says that the answer came too late.
local caller, nonce, host = ARGV[4], ARGV[5], ARGV[6]
local kept, lost, limit, bytes = tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10])

local fields = {
  'taskClass', 'leaseOwner', 'leaseExpires', 'failureCount', 'failureTime', 'priority', 'objectPHID', 'containerPHID',
  'dateCreated', 'dateModified', 'traceparent', 'data', 'result',
}

local function whole(id)
  return fetch(id, unpack(fields))
end

-- Whoever asks again is told what was leased. When that took so long that others
-- have some of it, nobody can be told the truth any more, and the rest is left to
-- expire.
local earlier = before()
if earlier then
  local reply = {now, earlier[1] or 0, 0, '', {}}
  for i, e in ipairs(earlier[2] or {}) do
    local row = whole(e[1])
    if row[13] or row[2] ~= e[3] then
      return {now, -1, 0, '', {}}
    end
    local ends = tonumber(row[3])
    row[2], row[3] = e[4], e[5]
    reply[5][i] = {e[1], row, e[2], e[3], ends}
  end
  return reply
end

local function wish(at)
  return {limit = tonumber(ARGV[at]), lease = tonumber(ARGV[at + 1]), delay = tonumber(ARGV[at + 2])}
end

local others, after, named = wish(11), ARGV[14], {}
for i = 15, #ARGV, 4 do
  named[ARGV[i]] = wish(i + 1)
end

local grace = 5     -- seconds for which the lease of a Gantry that ended is left alone
local page = 250    -- classes that are looked at in one call
local most = 500    -- tasks that are found to be due after their wait, or in the wrong index
local more, mended = 0, 0

-- A task without an owner that waited for an epoch stands among the fresh ones
-- once that has passed.
local ripe = call('ZRANGE', root .. 'unripe', '-inf', '(' .. now, 'BYSCORE', 'LIMIT', 0, most)
for _, m in ipairs(ripe) do
  local id = sub(m, 2)
  put('unripe', id, false)
  local t = read(id)
  if t then
    put('unripe:' .. t.class, id, false)
    if not t.result then
      enter(t)
    end
  end
end
flush()
if #ripe == most then
  more = 1
end

local classes, last = {}, ''
if others.limit > 0 then
  local found = call('ZRANGE', root .. 'classes', after == '' and '-' or '(' .. after, '+', 'BYLEX', 'LIMIT', 0, page)
  if #found == page then
    last = found[page]
  end
  for _, class in ipairs(found) do
    if (named[class] or others).limit > 0 then
      classes[#classes + 1] = class
    end
  end
else
  for class, want in pairs(named) do
    if want.limit > 0 then
      classes[#classes + 1] = class
    end
  end
end

local left = {}
for _, class in ipairs(classes) do
  left[class] = (named[class] or others).limit
end

-- A stream is the due tasks of one class in one lane. Nothing is written while
-- streams are read, so that what was read can be passed over by its number.
local chunk

local function fill(s)
  while s.at > #s.rows and not s.done do
    local n = s.first and min(chunk, left[s.class]) or chunk
    s.first = false
    s.rows = call('ZRANGE', s.key, s.from, s.to, 'BYSCORE', 'LIMIT', s.passed, n, 'WITHSCORES')
    s.at, s.passed, s.done = 1, s.passed + #s.rows / 2, #s.rows < 2 * n
  end
  if s.at > #s.rows then
    return false
  end
  s.id = sub(s.rows[s.at], 2)
  s.score, s.number = tonumber(s.rows[s.at + 1]), tonumber(s.id)
  return true
end

local function less(a, b)
  return a.score < b.score or a.score == b.score and a.number < b.number
end

local function sift(heap, i)
  while true do
    local least, l = i, 2 * i
    if heap[l] and less(heap[l], heap[least]) then
      least = l
    end
    if heap[l + 1] and less(heap[l + 1], heap[least]) then
      least = l + 1
    end
    if least == i then
      return
    end
    heap[i], heap[least] = heap[least], heap[i]
    i = least
  end
end

local function drop(heap)
  heap[1] = heap[#heap]
  heap[#heap] = nil
  sift(heap, 1)
end

-- merge opens lanes of the wanted classes, each with the score below which a task
-- is due.
local function merge(lanes)
  local heap = {}
  for lane, to in pairs(lanes) do
    for _, class in ipairs(classes) do
      heap[#heap + 1] = {
        index = lane .. class, key = root .. lane .. class, class = class, fresh = lane == 'fresh:',
        from = '-inf', to = to, passed = 0, rows = {}, at = 1, first = true,
      }
    end
  end
  -- Each class may have to give all, and most give their part.
  chunk = min(limit, 2 + floor(2 * limit / max(1, #heap)))
  for i = #heap, 1, -1 do
    if not fill(heap[i]) then
      heap[i] = heap[#heap]
      heap[#heap] = nil
    end
  end
  for i = floor(#heap / 2), 1, -1 do
    sift(heap, i)
  end
  return heap
end

-- candidate answers the task of an entry if it is what the entry says, and mends
-- the indexes if it is not: the hash is right.
local function candidate(s)
  local row = whole(s.id)
  if row[1] and not row[13] then
    local t = {
      id = s.id, class = row[1], owner = row[2], expires = tonumber(row[3]), failures = tonumber(row[4]) or 0,
      priority = tonumber(row[6]) or 0, row = row,
    }
    local index, score = lane(t)
    if index == s.index and score == s.score then
      return t
    end
    enter(t)
    if index ~= s.index then
      put(s.index, s.id, false)
    end
  else
    put(s.index, s.id, false)
  end
  mended = mended + 1
end

local chosen = {}

-- pick chooses up to n tasks, as far as the limits of their classes go.
local function pick(heap, n)
  while n > 0 and heap[1] and bytes > 0 and mended < most do
    local s = heap[1]
    if left[s.class] <= 0 then
      drop(heap)
    else
      local t = candidate(s)
      local delay = (named[s.class] or others).delay
      s.at = s.at + 2
      -- The seconds of two epochs can differ by one when hardly any time passed.
      if t and delay > 0 and now - (tonumber(t.row[9]) or 0) <= delay then
        if s.fresh then
          -- Ids ascend in time, so behind a young one of a priority there are
          -- only younger ones.
          s.from, s.passed, s.rows, s.at, s.done = '(' .. s.score, 0, {}, 1, false
        end
      elseif t then
        n = n - 1
        left[s.class] = left[s.class] - 1
        bytes = bytes - #(t.row[12] or '')
        chosen[#chosen + 1] = t
      end
      if fill(s) then
        sift(heap, 1)
      else
        drop(heap)
      end
    end
  end
  return n
end

-- New tasks come by (priority, id), then those that were leased before, oldest
-- expiry first. The latter choose first within their share, or they would starve
-- behind a class that new work keeps at its limit.
local share = min(limit, max(1, floor(limit / 8)))
local expired = merge({['parked:'] = '(' .. now, ['lent:'] = '(' .. now, ['held:'] = '(' .. (now - grace)})
local free = limit - share + pick(expired, share)
local reserved = chosen
chosen = {}
if free > 0 then
  free = pick(merge({['fresh:'] = '+inf'}), free)
end
for _, t in ipairs(reserved) do
  chosen[#chosen + 1] = t
end
pick(expired, free)

if mended > 0 then
  flush()
  more = 1
end
if #chosen == 0 then
  -- A class of which there is nothing is not looked at again.
  local gone = {}
  for _, class in ipairs(others.limit > 0 and classes or {}) do
    if call('EXISTS', root .. 'fresh:' .. class, root .. 'parked:' .. class, root .. 'lent:' .. class,
      root .. 'held:' .. class, root .. 'unripe:' .. class) == 0 then
      gone[#gone + 1] = class
    end
  end
  many('ZREM', root .. 'classes', gone)
  return {now, 0, more, last, {}}
end

local function base36(n)
  local text = ''
  repeat
    local digit = n % 36
    text = sub('0123456789abcdefghijklmnopqrstuvwxyz', digit + 1, digit + 1) .. text
    n = (n - digit) / 36
  until n == 0
  return text
end

-- crashed answers how often whoever held a task died with it, and the host of a
-- Gantry that did so now: one whose lease ran out is dead, unless it is this one.
-- Then the answer that leased the task was lost.
local function crashed(owner)
  if not owner then
    return 0
  end
  local crashes, holder, where = match(owner, '^gantry:%w+:(%w+):([^:]*):(.*)$')
  if not crashes then
    return tonumber(match(owner, '^%([^:]*:[^:]*:(%w+)$') or '0', 36) or 0
  end
  crashes = tonumber(crashes, 36) or 0
  if holder == nonce then
    return crashes
  end
  return crashes + 1, where
end

-- Fences stay ahead of those that an older copy of the data may have given out.
local fence = max((tonumber(call('HGET', KEYS[1], 'fence')) or 0) + 1, now * 65536)
call('HSET', KEYS[1], 'fence', fence)
local written = base36(fence)

local reply, remembered = {now, fence, more, last, {}}, {}
for i, t in ipairs(chosen) do
  local crashes, where = crashed(t.owner)
  if where then
    record(t, '{"host":' .. cjson.encode(where) .. ',"leaseOwner":' .. cjson.encode(t.owner) .. ',' .. sub(lost, 2), kept)
  end
  local owner
  if caller ~= '' then
    owner = caller .. '#' .. written
  else
    owner = sub('gantry:' .. written .. ':' .. base36(crashes) .. ':' .. nonce .. ':' .. host, 1, 64)
  end
  local row, prior = t.row, t.owner
  move(t, owner, now + (named[t.class] or others).lease)
  reply[5][i] = {t.id, row, crashes, owner, t.expires}
  remembered[i] = {t.id, crashes, owner, prior, row[3]}
end
flush()
remember({fence, remembered})
return reply
