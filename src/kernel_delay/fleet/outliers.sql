-- Who loses more than its peers, by 3.5 times their spread or more, where there are five or more;
-- what was lost most beyond the median is first. `over_hours` of its `hours` were so, each held
-- against the peers' median of that hour, or of all hours if fewer than five of them have that one:
-- the first of them began at `since_ns`, and the last one at `until_ns`.
WITH found AS (
  SELECT
    shares.node,
    shares.pod,
    shares.comm,
    shares.thread_class,
    shares.cause,
    shares.lost_ns,
    shares.present_ns,
    shares.share,
    peers.peers,
    peers.median_share,
    peers.spread,
    (shares.share - peers.median_share) / peers.spread AS score
  FROM shares
  JOIN peers
    ON peers.comm = shares.comm AND peers.thread_class = shares.thread_class
    AND peers.cause = shares.cause
  WHERE peers.peers >= 5 AND (shares.share - peers.median_share) / peers.spread >= 3.5e0
),
usual AS (
  SELECT
    comm,
    thread_class,
    cause,
    hour_ns,
    median(CAST(lost_ns AS DOUBLE) / CAST(present_ns AS DOUBLE)) AS median_share
  FROM losses
  WHERE present_ns > 0
  GROUP BY comm, thread_class, cause, hour_ns
  HAVING count(*) >= 5
),
hours AS (
  SELECT
    found.node,
    found.pod,
    found.comm,
    found.thread_class,
    found.cause,
    losses.first_ns,
    losses.lost_ns > (coalesce(usual.median_share, found.median_share) + 3.5e0 * found.spread)
      * losses.present_ns AS is_over
  FROM found
  JOIN losses
    ON losses.node = found.node AND losses.pod = found.pod AND losses.comm = found.comm
    AND losses.thread_class = found.thread_class AND losses.cause = found.cause
  LEFT JOIN usual
    ON usual.comm = found.comm AND usual.thread_class = found.thread_class
    AND usual.cause = found.cause AND usual.hour_ns = losses.hour_ns
)
SELECT
  found.node,
  found.pod,
  found.comm,
  found.thread_class,
  found.cause,
  found.lost_ns,
  found.present_ns,
  found.share,
  found.peers,
  found.median_share,
  found.score,
  count(*) AS hours,
  sum(CASE WHEN hours.is_over THEN 1 ELSE 0 END) AS over_hours,
  min(CASE WHEN hours.is_over THEN hours.first_ns END) AS since_ns,
  max(CASE WHEN hours.is_over THEN hours.first_ns END) AS until_ns
FROM found
JOIN hours
  ON hours.node = found.node AND hours.pod = found.pod AND hours.comm = found.comm
  AND hours.thread_class = found.thread_class AND hours.cause = found.cause
GROUP BY
  found.node, found.pod, found.comm, found.thread_class, found.cause, found.lost_ns,
  found.present_ns, found.share, found.peers, found.median_share, found.score
ORDER BY
  found.share - found.median_share DESC, found.node, found.pod, found.comm, found.thread_class,
  found.cause
