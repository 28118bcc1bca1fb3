-- ARGV: time, slot, number, idempotency key or "", hash of the tasks, seconds that
-- the key is kept, number of tasks, priority of those that have none, tasks.
-- Answers how it went and the id of the first task.
local earlier = before()
if earlier then
  return earlier
end
local key, hash, n = ARGV[4], ARGV[5], tonumber(ARGV[7])
if key ~= '' then
  local used = call('GET', root .. 'key:' .. key)
  if used then
    local is, first = match(used, '^(%S+) (%d+)$')
    return {is == hash and 'duplicate' or 'reused', tonumber(first)}
  end
end
local first = insert(n, 9, ARGV[8])
flush()
if key ~= '' then
  call('SET', root .. 'key:' .. key, hash .. ' ' .. string.format('%d', first), 'EX', ARGV[6])
end
remember({'queued', first})
return {'queued', first}
