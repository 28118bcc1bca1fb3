-- Writes as leasing and settling do, and takes it back.
local hash, index = root .. 'ready:task', root .. 'ready:index'
call('HSET', hash, 'taskClass', 'Ready')
call('HDEL', hash, 'taskClass')
call('ZADD', index, 1, 'a1')
call('ZREM', index, 'a1')
call('SET', hash, now, 'EX', 1)
call('UNLINK', hash, index)
return now
