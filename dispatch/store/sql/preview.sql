-- name: preview_runtimes
-- How long tasks ran lately, by class and tenant: the newest successes of the pool.
SELECT n.work_class_id, n.tenant_id, count(*)::int AS n, avg(a.ran_s)::float8 AS ran_s
  FROM (SELECT lane_id, extract(epoch FROM ended_at - delivered_at) AS ran_s FROM attempt
         WHERE pool_id = %(pool_id)s AND ended_at > now() - interval '7 days' AND outcome = %(outcome)s AND delivered_at IS NOT NULL
         ORDER BY ended_at DESC LIMIT %(limit)s) a
  JOIN lane n ON n.id = a.lane_id
 GROUP BY n.work_class_id, n.tenant_id

-- name: preview_running
-- What runs, in microseconds of time and micro-units of cost.
SELECT l.lane_id, l.session_id, l.charged, l.promoted,
       coalesce((extract(epoch FROM now() - l.delivered_at) * 1000000)::bigint, 0) AS ran
  FROM lease l WHERE l.pool_id = %(pool_id)s AND l.session_id = ANY (%(session_ids)s::bigint[])
 ORDER BY l.token

-- name: preview_names
-- Names and targets of the pool's classes and all tenants.
SELECT 'class' AS kind, id, slug, slo_queue_s FROM work_class WHERE pool_id = %(pool_id)s
UNION ALL SELECT 'tenant', id, slug, NULL FROM tenant
