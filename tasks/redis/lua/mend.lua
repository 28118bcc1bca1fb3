-- ARGV: time, then pairs of an index, "attempts", or "" for none, and an id that
-- was found there. The hash of a task is right; what indexes say is made to agree
-- with it. Answers how many ids had something to be mended.
local mended = 0
for i = 2, #ARGV, 2 do
  local index, id, wrong = ARGV[i], ARGV[i + 1], false
  local t, wanted = read(id), {}
  if t and t.result then
    wanted['archive:' .. t.result] = id
    wanted.aged = call('HGET', root .. 'task:' .. id, 'archivedEpoch') or now
  elseif t then
    local where, score = lane(t)
    wanted.active, wanted[where] = id, score
    if where == 'unripe' then
      wanted['unripe:' .. t.class] = score
    end
    if t.failures > 0 then
      wanted['failing:' .. t.class] = t.failures
    end
    seen[t.class] = true
  end
  for name, score in pairs(wanted) do
    if tonumber(call('ZSCORE', root .. name, member(id)) or nil) ~= tonumber(score) then
      put(name, id, score)
      wrong = true
    end
  end
  if index == 'attempts' then
    if not t then
      call('UNLINK', root .. 'attempts:' .. id)
      wrong = true
    end
  elseif index ~= '' and not wanted[index] then
    put(index, id, false)
    wrong = true
  end
  if wrong then
    mended = mended + 1
  end
end
flush()
return mended
