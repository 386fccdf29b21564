-- What each class of threads lost in each hour, by cause. `present_ns` is how long its threads
-- were there, or for a finding's cause the windows, as that is of the one thread hit worst.
-- Windows of watch are left out: they are the long rounds alone.
WITH hours AS (
  SELECT
    node,
    coalesce(pod, '') AS pod,
    comm,
    thread_class,
    unix_ns - unix_ns % 3600000000000 AS hour_ns,
    min(unix_ns) AS first_ns,
    sum(kernel_ns) AS kernel_ns,
    sum(hard_irq_ns + soft_irq_ns) AS irq_ns,
    sum(ready_ns) AS ready_ns,
    sum(throttled_ns) AS throttled_ns,
    sum(frozen_ns) AS frozen_ns,
    sum(stopped_ns) AS stopped_ns,
    sum(lock_ns) AS lock_ns,
    sum(coalesce(steal_ns, 0)) AS steal_ns,
    sum(user_ns + kernel_ns + hard_irq_ns + soft_irq_ns + ready_ns + blocked_ns + stopped_ns
      + throttled_ns + frozen_ns + guest_ns + coalesce(tool_ns, 0)
      + unaccounted_ns) AS present_ns
  FROM threads
  WHERE command = 'capture' AND user_ns IS NOT NULL
  GROUP BY node, coalesce(pod, ''), comm, thread_class, unix_ns - unix_ns % 3600000000000
),
windows AS (
  SELECT
    node,
    coalesce(pod, '') AS pod,
    comm,
    unix_ns - unix_ns % 3600000000000 AS hour_ns,
    sum(duration_ns) AS window_ns
  FROM samples
  WHERE command = 'capture'
  GROUP BY node, coalesce(pod, ''), comm, unix_ns - unix_ns % 3600000000000
),
waits AS (
  SELECT
    node,
    coalesce(pod, '') AS pod,
    comm,
    thread_class,
    unix_ns - unix_ns % 3600000000000 AS hour_ns,
    rule,
    sum(lost_ns) AS lost_ns
  FROM findings
  WHERE command = 'capture' AND NOT remark
    AND (substr(rule, 1, 5) = 'wait_' OR rule = 'kernel_sleep')
  GROUP BY node, coalesce(pod, ''), comm, thread_class, unix_ns - unix_ns % 3600000000000, rule
),
rules AS (
  SELECT DISTINCT comm, thread_class, rule FROM waits
)
SELECT
  hours.node,
  hours.pod,
  hours.comm,
  hours.thread_class,
  hours.hour_ns,
  hours.first_ns,
  causes.cause,
  CASE causes.cause
    WHEN 'kernel' THEN hours.kernel_ns
    WHEN 'irq' THEN hours.irq_ns
    WHEN 'ready' THEN hours.ready_ns
    WHEN 'throttled' THEN hours.throttled_ns
    WHEN 'frozen' THEN hours.frozen_ns
    WHEN 'stopped' THEN hours.stopped_ns
    WHEN 'lock' THEN hours.lock_ns
    ELSE hours.steal_ns
  END AS lost_ns,
  hours.present_ns
FROM hours
CROSS JOIN (
  VALUES
    ('kernel'), ('irq'), ('ready'), ('throttled'), ('frozen'), ('stopped'), ('lock'), ('steal')
) AS causes (cause)
UNION ALL
SELECT
  hours.node,
  hours.pod,
  hours.comm,
  hours.thread_class,
  hours.hour_ns,
  hours.first_ns,
  rules.rule AS cause,
  coalesce(waits.lost_ns, 0) AS lost_ns,
  windows.window_ns AS present_ns
FROM hours
JOIN windows
  ON windows.node = hours.node AND windows.pod = hours.pod AND windows.comm = hours.comm
  AND windows.hour_ns = hours.hour_ns
JOIN rules ON rules.comm = hours.comm AND rules.thread_class = hours.thread_class
LEFT JOIN waits
  ON waits.node = hours.node AND waits.pod = hours.pod AND waits.comm = hours.comm
  AND waits.thread_class = hours.thread_class AND waits.hour_ns = hours.hour_ns
  AND waits.rule = rules.rule
