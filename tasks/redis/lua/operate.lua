-- ARGV: time, slot, number, what to do, with which number, rows and seconds that
-- the archive keeps, ids. Answers of each the class and what was in the way.
local earlier = before()
if earlier then
  return earlier
end
local what, with, moved = ARGV[4], tonumber(ARGV[5]), 0
local acts = {}

function acts.cancel(t)
  if t.result then
    return 'archived'
  end
  archive(t, 2, 0)
  local key = root .. 'task:' .. t.id
  call('HSET', key, 'leaseExpires', now)
  call('HDEL', key, 'leaseOwner')
  moved = moved + 1
end

function acts.free(t)
  if t.result then
    return 'archived'
  elseif not t.owner then
    return 'unleased'
  end
  move(t, false, now, 'dateModified', now)
end

-- A task that was tried before keeps its owner in parentheses, and what that
-- counts.
function acts.delay(t)
  if t.result then
    return 'archived'
  end
  local owner = t.owner
  if not owner or owner == '' then
    owner = '(delay)'
  end
  if sub(owner, 1, 1) ~= '(' then
    return 'leased'
  end
  move(t, owner, with, 'dateModified', now)
end

function acts.priority(t)
  if t.result then
    return 'archived'
  elseif t.priority == with then
    return 'unchanged'
  end
  leave(t)
  call('HSET', root .. 'task:' .. t.id, 'priority', with, 'dateModified', now)
  t.priority = with
  enter(t)
end

function acts.retry(t)
  if not t.result then
    return 'active'
  elseif t.result == '0' and with == 0 then
    return 'succeeded'
  end
  local key = root .. 'task:' .. t.id
  call('HSET', key, 'leaseExpires', 0, 'dateModified', now)
  call('HDEL', key, 'leaseOwner', 'failureCount', 'failureTime', 'result', 'duration', 'archivedEpoch')
  put('archive:' .. t.result, t.id, false)
  put('aged', t.id, false)
  put('active', t.id, t.id)
  t.owner, t.expires, t.result, t.failures = false, 0, false, 0
  enter(t)
end

-- dateModified stays, as in Phorge.
function acts.awaken(t)
  if t.result or t.owner ~= '(yield)' or not t.expires or t.expires <= now - with or t.failures > 0 then
    return 'unchanged'
  end
  move(t, t.owner, now - with)
end

local reply = {}
for i = 8, #ARGV do
  local t = read(ARGV[i])
  reply[#reply + 1] = t and t.class or ''
  reply[#reply + 1] = t and (acts[what](t) or '') or 'missing'
end
flush()
trim(2 * moved, tonumber(ARGV[6]), tonumber(ARGV[7]))
remember(reply)
return reply
