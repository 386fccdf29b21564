-- For each outlier the finding of the verdict that took most of one of its windows, if there is
-- one. Several rules can be of one cause.
WITH named AS (
  SELECT
    node,
    coalesce(pod, '') AS pod,
    comm,
    thread_class,
    CASE
      WHEN rule = 'cpu_contention' THEN 'ready'
      WHEN rule IN ('kernel_work', 'kernel_worker', 'long_call', 'page_faults') THEN 'kernel'
      WHEN rule = 'interrupt_load' THEN 'irq'
      ELSE rule
    END AS cause,
    text,
    recording,
    sample,
    row_number() OVER (
      PARTITION BY node, pod, comm, thread_class,
        CASE
          WHEN rule = 'cpu_contention' THEN 'ready'
          WHEN rule IN ('kernel_work', 'kernel_worker', 'long_call', 'page_faults') THEN 'kernel'
          WHEN rule = 'interrupt_load' THEN 'irq'
          ELSE rule
        END
      ORDER BY lost_ns DESC, recording, sample, rule
    ) AS place
  FROM findings
  WHERE command = 'capture' AND NOT remark
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
