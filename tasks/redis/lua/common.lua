-- What all scripts share. KEYS[1] is the hash "queue" of an instance, and every
-- other key of the instance begins as it does; so all of them are in one slot of
-- a cluster. ARGV[1] is the time, or "" for the clock of the server.
local call = redis.call
local char, find, match, sub = string.char, string.find, string.match, string.sub
local floor, min, max = math.floor, math.min, math.max

local root = sub(KEYS[1], 1, -6)
local now = tonumber(ARGV[1]) or tonumber(call('TIME')[1])

-- many gives a command more arguments than unpack can hold at once.
local function many(command, key, list)
  for i = 1, #list, 1000 do
    call(command, key, unpack(list, i, min(i + 999, #list)))
  end
end

-- Indexes are sorted sets of ids. An id is written behind a letter that says how
-- many digits it has, so that ids of one score stand in the order of numbers:
-- a7, b17, c170.
local function member(id)
  return char(96 + #id) .. id
end

-- What changes in indexes, written by flush: index -> id -> score, or false to
-- take the id out.
local pending = {}
local seen = {} -- classes that got a task

local function put(index, id, score)
  local entries = pending[index]
  if not entries then
    entries = {}
    pending[index] = entries
  end
  entries[id] = score
end

local function flush()
  for index, entries in pairs(pending) do
    local add, out = {}, {}
    for id, score in pairs(entries) do
      if score then
        add[#add + 1] = score
        add[#add + 1] = member(id)
      else
        out[#out + 1] = member(id)
      end
    end
    many('ZADD', root .. index, add)
    many('ZREM', root .. index, out)
  end
  local classes = {}
  for class in pairs(seen) do
    classes[#classes + 1] = 0
    classes[#classes + 1] = class
  end
  many('ZADD', root .. 'classes', classes)
  pending, seen = {}, {}
end
