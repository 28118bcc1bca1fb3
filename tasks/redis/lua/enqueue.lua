-- ARGV: time, slot, number, whether again, idempotency key or "", hash of the tasks, seconds that
-- the key is kept, number of tasks, priority of those that have none, tasks.
-- Answers how it went and the id of the first task.
local earlier = before()
if earlier then
  return earlier
end
local key, hash, n = ARGV[5], ARGV[6], tonumber(ARGV[8])
if key ~= '' then
  local used = call('GET', root .. 'key:' .. key)
  if used then
    local is, first = match(used, '^(%S+) (%d+)$')
    return {is == hash and 'duplicate' or 'reused', tonumber(first)}
  end
end
local first = insert(n, 10, ARGV[9])
flush()
if key ~= '' then
  call('SET', root .. 'key:' .. key, hash .. ' ' .. string.format('%d', first), 'EX', ARGV[7])
end
remember({'queued', first})
return {'queued', first}
