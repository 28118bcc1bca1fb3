-- ARGV: time, seconds for which nobody else does this, most tasks, rows and
-- seconds that the archive keeps. Answers whether it was the caller's turn.
if not call('SET', root .. 'upkeep', now, 'NX', 'EX', ARGV[2]) then
  return 0
end
trim(tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]))
return 1
