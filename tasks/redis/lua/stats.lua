-- ARGV: time, the class behind which classes are counted, and how many are.
-- Answers the time, the last of them ("": there are no more), and of each its name
-- and its counts.
local found = call('ZRANGE', root .. 'classes', ARGV[2] == '' and '-' or '(' .. ARGV[2], '+', 'BYLEX', 'LIMIT', 0, ARGV[3])
local reply = {now, #found == tonumber(ARGV[3]) and found[#found] or ''}
for _, class in ipairs(found) do
  local active, future = 0, {}
  for _, lane in ipairs({'fresh:', 'unripe:', 'parked:', 'lent:', 'held:'}) do
    active = active + call('ZCARD', root .. lane .. class)
    future[lane] = lane == 'fresh:' and 0 or call('ZCOUNT', root .. lane .. class, now, '(inf')
  end
  reply[#reply + 1] = class
  reply[#reply + 1] = active
  reply[#reply + 1] = future['lent:'] + future['held:']
  reply[#reply + 1] = future['unripe:'] + future['parked:']
  reply[#reply + 1] = call('ZCARD', root .. 'failing:' .. class)
end
return reply
