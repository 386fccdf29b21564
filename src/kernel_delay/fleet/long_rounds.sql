-- The long rounds that watch recorded, by whose they were and their cause; the most time first.
-- How long watch was attached is in no recording, so nobody's are held against others'.
SELECT
  node,
  coalesce(pod, '') AS pod,
  comm,
  thread_class,
  cause,
  count(*) AS rounds,
  sum(suppressed) AS suppressed,
  sum(duration_ns) AS total_ns,
  max(duration_ns) AS longest_ns,
  min(unix_ns) AS first_ns,
  max(unix_ns) AS last_ns
FROM rounds
GROUP BY node, coalesce(pod, ''), comm, thread_class, cause
ORDER BY sum(duration_ns) DESC, node, coalesce(pod, ''), comm, thread_class, cause
