-- name: fence_leader
-- Lock and fence in one: no row means that another process leads by now.
UPDATE pool_leader SET cycle_no = cycle_no + 1, beat_at = now()
 WHERE pool_id = %(pool_id)s AND epoch = %(epoch)s RETURNING cycle_no

-- name: promote_due
-- Scheduled tasks whose time has come; they have been startable since then. Order in the lane stays as it was.
WITH k AS MATERIALIZED (
    SELECT id FROM task WHERE pool_id = %(pool_id)s AND state = 0 AND run_at <= now()
     ORDER BY run_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE task t SET state = 1, queued_at = t.run_at, run_at = NULL FROM k WHERE t.id = k.id

-- name: next_due
-- When the pool's next scheduled task falls due, in seconds from now.
SELECT extract(epoch FROM min(run_at) - now())::float8 FROM task WHERE pool_id = %(pool_id)s AND state = 0

-- name: take_settlements
-- Attempts that ended since the last cycle, in order; read once.
WITH k AS (SELECT id FROM settlement WHERE pool_id = %(pool_id)s ORDER BY id LIMIT %(limit)s),
g AS (DELETE FROM settlement s USING k WHERE s.id = k.id RETURNING s.*)
SELECT g.lane_id, g.worker_id, g.task_type, g.charged, g.actual, g.hint, g.outcome FROM g ORDER BY g.id

-- name: lock_startable
-- Which of the chosen tasks can still be started; the others were cancelled, held or moved meanwhile. Never waits.
-- `state + 0` keeps the planner from walking the whole queue by a partial index when its statistics are stale.
SELECT id FROM task WHERE id = ANY(%(task_ids)s::bigint[]) AND state + 0 = 1 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED

-- name: grant_leases
-- The chosen tasks (locked before) become offers to their sessions.
WITH x AS (
    SELECT * FROM unnest(%(task_ids)s::bigint[], %(session_ids)s::bigint[], %(charges)s::bigint[], %(tiers)s::text[])
           x(task_id, session_id, charged, tier)
), u AS (
    UPDATE task t SET state = 2 FROM x WHERE t.id = x.task_id RETURNING t.id, t.lane_id
)
INSERT INTO lease (task_id, token, pool_id, lane_id, session_id, expires_at, charged, promoted, tier)
SELECT u.id, nextval('lease_token_seq'), %(pool_id)s, u.lane_id, x.session_id,
       now() + make_interval(secs => %(offer_ttl_s)s), x.charged, x.tier = 'P', x.tier
  FROM u JOIN x ON x.task_id = u.id ORDER BY u.id

-- name: charge_overruns
-- New charges of running tasks (locked with the snapshot).
UPDATE lease l SET charged = x.charged FROM unnest(%(task_ids)s::bigint[], %(charges)s::bigint[]) x(task_id, charged)
 WHERE l.task_id = x.task_id

-- name: ask_to_yield
-- Running tasks that should hand their slot back; their agents hear it with the next heartbeat.
WITH k AS MATERIALIZED (
    SELECT task_id FROM lease WHERE task_id = ANY(%(task_ids)s::bigint[]) AND directive = 0
     ORDER BY task_id FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE lease l SET directive = 1, directive_at = now() FROM k WHERE l.task_id = k.task_id RETURNING l.session_id

-- name: store_deficits
-- Deficits of workers, rows locked in key order.
WITH k AS MATERIALIZED (
    SELECT w.id, x.deficit FROM unnest(%(worker_ids)s::bigint[], %(deficits)s::bigint[]) x(id, deficit)
      JOIN worker w ON w.id = x.id ORDER BY w.id FOR NO KEY UPDATE OF w
)
UPDATE worker w SET deficit = k.deficit FROM k WHERE w.id = k.id

-- name: store_accounts
-- Changed accounts of the share tree.
INSERT INTO share_account (pool_id, node, data)
SELECT %(pool_id)s, node, data::jsonb FROM unnest(%(nodes)s::text[], %(data)s::text[]) x(node, data) ORDER BY node
ON CONFLICT (pool_id, node) DO UPDATE SET data = excluded.data

-- name: drop_accounts
-- Accounts that the policy has forgotten.
DELETE FROM share_account WHERE pool_id = %(pool_id)s AND node = ANY(%(nodes)s::text[])

-- name: store_learned
-- Changed learned costs.
INSERT INTO learned_cost (pool_id, class_id, tenant_id, task_type, data)
SELECT %(pool_id)s, class_id, tenant_id, task_type, data::jsonb
  FROM unnest(%(class_ids)s::bigint[], %(tenant_ids)s::bigint[], %(types)s::text[], %(data)s::text[])
       x(class_id, tenant_id, task_type, data) ORDER BY 2, 3, 4
ON CONFLICT (pool_id, class_id, tenant_id, task_type) DO UPDATE SET data = excluded.data

-- name: drop_learned
-- Learned costs that the policy has forgotten.
DELETE FROM learned_cost l
 USING unnest(%(class_ids)s::bigint[], %(tenant_ids)s::bigint[], %(types)s::text[]) x(class_id, tenant_id, task_type)
 WHERE l.pool_id = %(pool_id)s AND l.class_id = x.class_id AND l.tenant_id = x.tenant_id AND l.task_type = x.task_type

-- name: store_cycle
-- The leader's scalars and how long the cycle took.
UPDATE pool_leader
   SET memory = %(scalars)s::jsonb, cycle_ms = %(cycle_ms)s, last_cycle_at = now()
 WHERE pool_id = %(pool_id)s

-- name: record_decision
-- The picks of one cycle, for the decision record.
INSERT INTO decision (pool_id, cycle_no, assigned, by_class, by_tier, picks)
VALUES (%(pool_id)s, %(cycle_no)s, %(assigned)s, %(by_class)s::jsonb, %(by_tier)s::jsonb, %(picks)s::jsonb)

-- name: load_accounts
-- All accounts of a pool.
SELECT node, data FROM share_account WHERE pool_id = %(pool_id)s

-- name: load_learned
-- All learned costs of a pool.
SELECT class_id, tenant_id, task_type, data FROM learned_cost WHERE pool_id = %(pool_id)s

-- name: load_scalars
-- The policy's name and scalar memory of a pool.
SELECT p.policy, l.memory FROM pool p JOIN pool_leader l ON l.pool_id = p.id WHERE p.id = %(pool_id)s
