-- What there is: how many nodes, and from when to when. Times are of the Unix epoch.
SELECT
  count(DISTINCT node) AS nodes,
  count(DISTINCT pod) AS pods,
  count(DISTINCT recording) AS recordings,
  count(*) AS windows,
  count(CASE WHEN command = 'watch' THEN 1 END) AS rounds,
  min(unix_ns) AS first_ns,
  max(unix_ns + duration_ns) AS last_ns
FROM samples
