-- forget deletes archived tasks with all that belongs to them.
local function forget(members)
  local keys = {}
  for _, m in ipairs(members) do
    local id = sub(m, 2)
    local key = root .. 'task:' .. id
    local result = call('HGET', key, 'result')
    put('aged', id, false)
    if result then -- what is active has no business in this index
      put('archive:' .. result, id, false)
      keys[#keys + 1] = key
      keys[#keys + 1] = root .. 'attempts:' .. id
    end
  end
  flush()
  for i = 1, #keys, 1000 do
    call('UNLINK', unpack(keys, i, min(i + 999, #keys)))
  end
end

-- trim deletes up to n archived tasks that are too many, and n that are too old.
-- Negative bounds are none.
local function trim(n, rows, age)
  if n <= 0 then
    return
  end
  if rows >= 0 then
    local over = call('ZCARD', root .. 'aged') - rows
    if over > 0 then
      forget(call('ZRANGE', root .. 'aged', 0, min(n, over) - 1))
    end
  end
  if age >= 0 then
    forget(call('ZRANGE', root .. 'aged', '-inf', '(' .. (now - age), 'BYSCORE', 'LIMIT', 0, n))
  end
end
