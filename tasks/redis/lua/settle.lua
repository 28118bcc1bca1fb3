-- ARGV: time, whether leases must be live, rows and seconds that the archive
-- keeps, attempts that are kept of a task, number of settlements; of each: id,
-- owner, what is to be done, and what that needs. Answers, of each, the id of the
-- first follow-up, 0 when there is none, -1 when the lease is lost, and -2 when it
-- is held and the outcome cannot be stored.
local live, rows, age, kept = ARGV[2] == '1', tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local at, moved, reply = 7, 0, {}

-- A place is an owner ("": none), and an epoch, seconds from now, or nothing.
local function place(at)
  local owner, mode, value = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  if mode == 'wait' then
    value = min(max(now + value, 0), 4294967295)
  elseif mode == 'none' then
    value = false
  end
  return owner ~= '' and owner, value
end

local ends = {}

function ends.succeed(t, at)
  local n, first = tonumber(ARGV[at + 1]), 0
  if not t then
    return skip(n, at + 2), 0
  end
  local on = at + 2
  if n > 0 then
    first, on = insert(n, on, t.priority)
  end
  archive(t, 0, ARGV[at])
  moved = moved + 1
  return on, first
end

function ends.fail(t, at)
  if t then
    record(t, ARGV[at], kept)
    archive(t, 1, 0)
    moved = moved + 1
  end
  return at + 1, 0
end

function ends.retry(t, at)
  if t then
    record(t, ARGV[at + 3], kept)
    t.failures = t.failures + 1
    put('failing:' .. t.class, t.id, t.failures)
    local owner, expires = place(at)
    move(t, owner, expires, 'failureCount', t.failures, 'failureTime', now, 'dateModified', now)
  end
  return at + 4, 0
end

function ends.yield(t, at)
  if t then
    local owner, expires = place(at)
    move(t, owner, expires, 'dateModified', now)
  end
  return at + 3, 0
end

-- As leasing: nothing came of the task.
function ends.release(t, at)
  if t then
    move(t, place(at))
  end
  return at + 3, 0
end

-- What cannot be stored may be the repetition of something that could.
function ends.refuse(_, at)
  return at + 1, -2
end

-- An owner is unique to one lease, and the archive keeps it; so is an owner in
-- parentheses that carries a fence.
local results = {succeed = '0', fail = '1'}
local function done(t, owner, what, at)
  if t.result then
    return t.owner == owner and t.result == results[what]
  end
  return (what == 'retry' or what == 'release') and t.owner and t.owner == ARGV[at] and find(t.owner, ':', 1, true)
end

for i = 1, tonumber(ARGV[6]) do
  local t, owner, what = read(ARGV[at]), ARGV[at + 1], ARGV[at + 2]
  at = at + 3
  local holds = t and not t.result and t.owner == owner and not (live and t.expires and t.expires < now)
  if holds then
    at, reply[i] = ends[what](t, at)
  else
    local meant = what == 'refuse' and ARGV[at] or what
    reply[i] = t and done(t, owner, meant, at) and 0 or -1
    at = ends[what](nil, at)
  end
end
flush()
trim(2 * moved, rows, age)
return reply
