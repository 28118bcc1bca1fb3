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
