-- For each outlier the finding of the verdict that took most of one of its windows, if there is
-- one. Several rules can be of one cause.
WITH caused AS (
  SELECT
    node,
    coalesce(pod, '') AS pod,
    comm,
    thread_class,
    {cause} AS cause,
    text,
    recording,
    sample,
    rule,
    lost_ns
  FROM findings
  WHERE command = 'capture' AND NOT remark
), named AS (
  SELECT
    *,
    row_number() OVER (
      PARTITION BY node, pod, comm, thread_class, cause
      ORDER BY lost_ns DESC, recording, sample, rule
    ) AS place
  FROM caused
)
SELECT
  named.node,
  named.pod,
  named.comm,
  named.thread_class,
  named.cause,
  named.text,
  named.recording,
  named.sample
FROM named
JOIN outliers
  ON outliers.node = named.node AND outliers.pod = named.pod AND outliers.comm = named.comm
  AND outliers.thread_class = named.thread_class AND outliers.cause = named.cause
WHERE named.place = 1
ORDER BY named.node, named.pod, named.comm, named.thread_class, named.cause
