-- ARGV: time, the version of the keys that the caller writes. Answers the version
-- of the instance.
local version = call('HGET', KEYS[1], 'version')
if not version then
  version = ARGV[2]
  call('HSET', KEYS[1], 'version', version)
end
return version
