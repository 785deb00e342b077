-- name: uncovered_work
-- Capability sets that queued work needs and no session that counts as capacity offers to that tenant: per pool and set
-- how many lanes wait, the capabilities that no such session has at all, and whether the pool has any session that
-- counts. Lanes by skip scan.
WITH RECURSIVE active AS (
    (SELECT lane_id FROM task WHERE state = 1 ORDER BY lane_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.lane_id FROM task t WHERE t.state = 1 AND t.lane_id > a.lane_id ORDER BY t.lane_id LIMIT 1)
      FROM active a WHERE a.lane_id IS NOT NULL
), able AS MATERIALIZED (
    SELECT s.pool_id, s.tenant_id, c.names
      FROM worker_session s JOIN worker w ON w.id = s.worker_id JOIN pool p ON p.id = s.pool_id
      JOIN capset c ON c.id = s.capset_id
     WHERE s.closed_at IS NULL AND NOT w.draining AND NOT w.quarantined
       AND (s.last_seen_at > now() - make_interval(secs => p.lease_ttl_s)
            OR EXISTS (SELECT 1 FROM demand d WHERE d.session_id = s.id AND d.until > now()))
)
SELECT n.pool_id, n.capset_id, need.names, count(*)::int AS lanes,
       ARRAY(SELECT x FROM unnest(need.names) x
              WHERE NOT EXISTS (SELECT 1 FROM able b WHERE b.pool_id = n.pool_id AND x = ANY (b.names)) ORDER BY x) AS missing,
       EXISTS (SELECT 1 FROM able b WHERE b.pool_id = n.pool_id) AS workers
  FROM active a JOIN lane n ON n.id = a.lane_id JOIN capset need ON need.id = n.capset_id
 WHERE NOT EXISTS (SELECT 1 FROM able b WHERE b.pool_id = n.pool_id AND need.names <@ b.names
                      AND (b.tenant_id IS NULL OR b.tenant_id = n.tenant_id))
 GROUP BY n.pool_id, n.capset_id, need.names
 ORDER BY n.pool_id, n.capset_id
