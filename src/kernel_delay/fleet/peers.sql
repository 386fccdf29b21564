-- What the same class of threads of the same program loses elsewhere: the median, and how far
-- others are from it (the median of that, made comparable to a standard deviation: 1.4826 times).
-- That is at least 1 % of the time: where all are alike, next to nothing is not an outlier.
WITH medians AS (
  SELECT
    comm,
    thread_class,
    cause,
    count(*) AS peers,
    median(share) AS median_share,
    max(share) AS most_share
  FROM shares
  GROUP BY comm, thread_class, cause
)
SELECT
  medians.comm,
  medians.thread_class,
  medians.cause,
  medians.peers,
  medians.median_share,
  medians.most_share,
  min(CASE WHEN shares.share = medians.most_share THEN shares.node END) AS most_node,
  greatest(1.4826e0 * median(abs(shares.share - medians.median_share)), 1e-2) AS spread
FROM medians
JOIN shares
  ON shares.comm = medians.comm AND shares.thread_class = medians.thread_class
  AND shares.cause = medians.cause
GROUP BY
  medians.comm, medians.thread_class, medians.cause, medians.peers, medians.median_share,
  medians.most_share
