-- ARGV: time, then of each renewal: id, owner, seconds that the lease lasts from
-- now, and the seconds left below which it is extended. Answers, of each, when the
-- lease ends, or -1 when it is lost, and whether it had ended.
local reply = {}
for i = 2, #ARGV, 4 do
  local t = read(ARGV[i])
  local expires, revived = -1, 0
  if t and not t.result and t.owner == ARGV[i + 1] then
    if not t.expires or t.expires <= now then
      revived = 1
    end
    if not t.expires or t.expires - now < tonumber(ARGV[i + 3]) then
      move(t, t.owner, min(now + tonumber(ARGV[i + 2]), 4294967295))
    end
    expires = t.expires
  end
  reply[#reply + 1] = expires
  reply[#reply + 1] = revived
end
flush()
return reply
