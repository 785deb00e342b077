-- name: lock_budgets
-- The budgets of these tenants, locked in id order until the end of the transaction: whoever grants leases to one of
-- them does it under these locks, so two dispatchers never spend the same rest.
SELECT id FROM budget WHERE tenant_id = ANY(%(tenants)s::bigint[]) AND archived_at IS NULL
 ORDER BY id FOR NO KEY UPDATE

-- name: settle_budgets
-- Costs of ended attempts of one pool go into the windows of now; the budgets are locked.
INSERT INTO budget_spend (budget_id, window_start, settled)
SELECT b.id, w.starts_at, sum(x.cost)
  FROM unnest(%(tenants)s::bigint[], %(classes)s::bigint[], %(users)s::bigint[], %(costs)s::bigint[])
       x(tenant_id, class_id, user_id, cost)
  JOIN budget b ON b.tenant_id = x.tenant_id AND b.archived_at IS NULL
   AND budget_covers(b, x.class_id, x.user_id, (SELECT cost_unit FROM pool WHERE id = %(pool_id)s))
 CROSS JOIN LATERAL budget_window(b.span, b.span_s, b.timezone, now()) w
 GROUP BY b.id, w.starts_at ORDER BY b.id
ON CONFLICT (budget_id, window_start) DO UPDATE SET settled = budget_spend.settled + excluded.settled

-- name: budget_state
-- Budgets with their limit in force and what is settled and reserved in the window of now: one statement, so that a
-- lease that ends meanwhile counts exactly once. Reserved: charges of running leases, offers included, and costs of
-- ended attempts that no dispatcher has settled yet, over all pools.
WITH b AS MATERIALIZED (
    SELECT b AS row, b.*, w.starts_at, w.ends_at
      FROM budget b CROSS JOIN LATERAL budget_window(b.span, b.span_s, b.timezone, now()) w
     WHERE b.archived_at IS NULL AND (%(ids)s::bigint[] IS NULL OR b.id = ANY(%(ids)s::bigint[]))
       AND (%(tenants)s::bigint[] IS NULL OR b.tenant_id = ANY(%(tenants)s::bigint[]))
), held AS MATERIALIZED (
    SELECT a.tenant_id, a.work_class_id, a.user_id, p.cost_unit, sum(x.cost) AS cost
      FROM (SELECT lane_id, charged AS cost FROM lease UNION ALL SELECT lane_id, actual FROM settlement) x
      JOIN lane a ON a.id = x.lane_id JOIN pool p ON p.id = a.pool_id
     WHERE a.tenant_id IN (SELECT tenant_id FROM b) GROUP BY 1, 2, 3, 4
)
SELECT b.id, b.tenant_id, b.slug, b.work_class_id, b.user_id, b.degrade_to_id, b.unit, b.on_breach, b.alert_at,
       b.starts_at, b.ends_at, coalesce(s.settled, 0)::bigint AS settled, s.refused_at, e.overridden,
       CASE WHEN e.overridden THEN e.instead ELSE b.amount END + e.added AS amount,
       coalesce((SELECT sum(h.cost) FROM held h WHERE h.tenant_id = b.tenant_id
                    AND budget_covers(b.row, h.work_class_id, h.user_id, h.cost_unit)), 0)::bigint AS reserved
  FROM b
  LEFT JOIN budget_spend s ON s.budget_id = b.id AND s.window_start = b.starts_at
 CROSS JOIN LATERAL (
    SELECT coalesce(sum(x.amount) FILTER (WHERE x.kind = 'top_up'), 0)::bigint AS added,
           coalesce(bool_or(x.kind = 'override'), false) AS overridden,
           (array_agg(x.amount ORDER BY x.id DESC) FILTER (WHERE x.kind = 'override'))[1] AS instead
      FROM budget_extra x
     WHERE x.budget_id = b.id AND x.ended_at IS NULL AND (x.until_at IS NULL OR x.until_at > now())
 ) e
 ORDER BY b.id

-- name: mark_budgets
-- Since when something waits for these budgets (`refused`), or that nothing does any more; they are locked.
INSERT INTO budget_spend (budget_id, window_start, refused_at)
SELECT x.budget_id, x.starts_at, CASE WHEN x.refused THEN now() END
  FROM unnest(%(ids)s::bigint[], %(starts)s::timestamptz[], %(refused)s::bool[]) x(budget_id, starts_at, refused)
 ORDER BY 1
ON CONFLICT (budget_id, window_start)
DO UPDATE SET refused_at = CASE WHEN excluded.refused_at IS NULL THEN NULL
                                ELSE coalesce(budget_spend.refused_at, excluded.refused_at) END

-- name: forgive_budget
-- A budget has more by now: what waited is judged anew.
UPDATE budget_spend SET refused_at = NULL WHERE budget_id = %(id)s AND refused_at IS NOT NULL

-- name: budget_windows
-- The newest windows of one budget.
SELECT window_start, settled FROM budget_spend WHERE budget_id = %(id)s ORDER BY window_start DESC LIMIT %(limit)s

-- name: degrade_tasks
-- Waiting tasks of a spent budget move to the class that it degrades to; their lanes there exist already.
WITH k AS MATERIALIZED (
    SELECT t.id, n.id AS lane_id FROM task t JOIN lane a ON a.id = t.lane_id
      JOIN pool p ON p.id = a.pool_id JOIN budget b ON b.id = %(id)s
      JOIN work_class c ON c.id = b.degrade_to_id AND c.pool_id = a.pool_id
      JOIN lane n ON n.pool_id = a.pool_id AND n.work_class_id = c.id AND n.tenant_id = a.tenant_id
       AND n.user_id = a.user_id AND n.capset_id = a.capset_id AND n.tools = a.tools
     WHERE a.tenant_id = b.tenant_id AND t.state = 1 AND budget_covers(b, a.work_class_id, a.user_id, p.cost_unit)
     ORDER BY t.id LIMIT %(limit)s FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE task t SET lane_id = k.lane_id, work_class_id = (SELECT degrade_to_id FROM budget WHERE id = %(id)s)
  FROM k WHERE t.id = k.id RETURNING t.pool_id

-- name: degrade_lanes
-- Lanes of the class that a budget degrades to, made where tasks of the budget wait.
INSERT INTO lane (pool_id, work_class_id, tenant_id, user_id, capset_id, tools)
SELECT DISTINCT a.pool_id, c.id, a.tenant_id, a.user_id, a.capset_id, a.tools
  FROM budget b JOIN lane a ON a.tenant_id = b.tenant_id JOIN pool p ON p.id = a.pool_id
  JOIN work_class c ON c.id = b.degrade_to_id AND c.pool_id = a.pool_id
 WHERE b.id = %(id)s AND budget_covers(b, a.work_class_id, a.user_id, p.cost_unit)
   AND EXISTS (SELECT 1 FROM task t WHERE t.lane_id = a.id AND t.state = 1)
 ORDER BY 1, 2, 3, 4, 5, 6
ON CONFLICT DO NOTHING

-- name: stop_leases
-- Running tasks of a spent budget are asked to hand back; their agents hear it with the next heartbeat.
WITH k AS MATERIALIZED (
    SELECT l.task_id FROM lease l JOIN lane a ON a.id = l.lane_id JOIN pool p ON p.id = a.pool_id
      JOIN budget b ON b.id = %(id)s
     WHERE a.tenant_id = b.tenant_id AND l.directive = 0 AND budget_covers(b, a.work_class_id, a.user_id, p.cost_unit)
     ORDER BY l.task_id LIMIT %(limit)s FOR NO KEY UPDATE OF l SKIP LOCKED
)
UPDATE lease l SET directive = 1, directive_at = now() FROM k WHERE l.task_id = k.task_id RETURNING l.session_id

-- name: stopped_budgets
-- Spent budgets that take no new tasks of these tenants, classes and users; seconds until a new window.
SELECT b.slug, t.slug AS tenant, w.ends_at, extract(epoch FROM w.ends_at - now())::float8 AS ends_in_s
  FROM unnest(%(tenants)s::bigint[], %(classes)s::bigint[], %(users)s::text[]) x(tenant_id, class_id, user_name)
  JOIN budget b ON b.tenant_id = x.tenant_id AND b.on_breach = 'stop' AND b.archived_at IS NULL
  JOIN tenant t ON t.id = b.tenant_id JOIN work_class c ON c.id = x.class_id JOIN pool p ON p.id = c.pool_id
  LEFT JOIN tenant_user u ON u.tenant_id = x.tenant_id AND u.name = x.user_name
 CROSS JOIN LATERAL budget_window(b.span, b.span_s, b.timezone, now()) w
  JOIN budget_spend s ON s.budget_id = b.id AND s.window_start = w.starts_at AND s.refused_at IS NOT NULL
 WHERE budget_covers(b, x.class_id, u.id, p.cost_unit) ORDER BY b.id LIMIT 1

-- name: knows_timezone
-- Whether the database has a time zone of this name.
SELECT 1 FROM pg_timezone_names WHERE name = %(name)s

-- name: is_beyond
-- Whether a moment is more than so many seconds away.
SELECT %(at)s::timestamptz > now() + make_interval(secs => %(s)s::float8)

-- name: budget_names
-- Names of all budgets that count, with their tenants'.
SELECT b.id, b.slug, t.slug AS tenant FROM budget b JOIN tenant t ON t.id = b.tenant_id WHERE b.archived_at IS NULL
