-- name: metric_depths
-- What lanes hold by class and tenant, of all pools or one: folded counts plus unfolded changes, and live leases.
SELECT p.slug AS pool, c.slug AS class, t.slug AS tenant, sum(x.dead)::bigint AS dead
  FROM (SELECT lane_id, dead FROM lane_depth WHERE dead <> 0 UNION ALL SELECT lane_id, dead FROM lane_delta WHERE dead <> 0) x
  JOIN lane l ON l.id = x.lane_id JOIN pool p ON p.id = l.pool_id JOIN work_class c ON c.id = l.work_class_id
  JOIN tenant t ON t.id = l.tenant_id
 WHERE (%(pool_id)s::bigint IS NULL OR l.pool_id = %(pool_id)s)
 GROUP BY 1, 2, 3 HAVING sum(x.dead) > 0

-- name: metric_dead_groups
-- Fingerprints of the newest 20,000 dead letters by class.
SELECT c.slug AS class, x.fingerprint, count(*) AS count
  FROM (SELECT t.work_class_id, t.fingerprint FROM task t
         WHERE t.state = 5 AND (%(pool_id)s::bigint IS NULL OR t.pool_id = %(pool_id)s)
         ORDER BY t.finished_at DESC LIMIT 20000) x
  JOIN work_class c ON c.id = x.work_class_id
 GROUP BY 1, 2 ORDER BY 3 DESC, 2 LIMIT %(limit)s

-- name: metric_totals
-- The totals since the beginning, by class and tenant.
SELECT c.slug AS class, t.slug AS tenant, f.dispatched_w, f.dispatched_g, f.dispatched_p, f.started, f.dead, f.slot_s,
       f.wait_s, f.waits, f.ends
  FROM flow_total f JOIN work_class c ON c.id = f.class_id JOIN tenant t ON t.id = f.tenant_id
 WHERE (%(pool_id)s::bigint IS NULL OR f.pool_id = %(pool_id)s)
 ORDER BY 1, 2

-- name: metric_shares
-- Slot-seconds of classes and tenants over windows, and the mean share that classes were heading for.
WITH w AS (
    SELECT '5m' AS name, 10 AS step, interval '5 minutes' AS span UNION ALL SELECT '1h', 10, interval '1 hour'
    UNION ALL SELECT '24h', 60, interval '1 day'
)
SELECT w.name, c.slug AS class, t.slug AS tenant, sum(q.slot_s)::float8 AS slot_s, avg(q.target)::float8 AS target
  FROM w JOIN queue_sample q ON q.step = w.step AND q.pool_id = %(pool_id)s AND q.at > now() - w.span
   AND q.class_id IS NOT NULL
  JOIN work_class c ON c.id = q.class_id LEFT JOIN tenant t ON t.id = q.tenant_id
 GROUP BY 1, 2, 3

-- name: metric_alerts
-- Open alerts that fire and are not muted, by rule.
SELECT a.rule, count(*) AS count FROM alert a
 WHERE a.resolved_at IS NULL AND alert_state(a) = 'firing' AND a.silence_id IS NULL AND a.inhibited_by IS NULL
   AND (%(pool_id)s::bigint IS NULL OR a.pool_id IS NULL OR a.pool_id = %(pool_id)s)
 GROUP BY 1 ORDER BY 1
