-- The same over all hours: which part of its time a class of threads of a node's pod lost.
SELECT
  node,
  pod,
  comm,
  thread_class,
  cause,
  sum(lost_ns) AS lost_ns,
  sum(present_ns) AS present_ns,
  CAST(sum(lost_ns) AS DOUBLE) / CAST(sum(present_ns) AS DOUBLE) AS share
FROM losses
GROUP BY node, pod, comm, thread_class, cause
HAVING sum(present_ns) > 0
