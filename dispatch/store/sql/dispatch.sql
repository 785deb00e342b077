-- name: begin_cycle
-- Lock and fence in one (no row: another process leads by now), then the scheduled tasks whose time has come; they have
-- been startable since then, and their order in the lane stays as it was. `next_due_s`: when the next one falls due, in
-- seconds from now; 0 where one is due but locked, or beyond the limit.
WITH f AS (
    UPDATE pool_leader SET cycle_no = cycle_no + 1, beat_at = now()
     WHERE pool_id = %(pool_id)s AND epoch = %(epoch)s RETURNING cycle_no
), k AS MATERIALIZED (
    SELECT id FROM task WHERE pool_id = %(pool_id)s AND state = 0 AND run_at <= now() AND EXISTS (SELECT FROM f)
     ORDER BY run_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
), p AS (
    UPDATE task t SET state = 1, queued_at = t.run_at, run_at = NULL FROM k WHERE t.id = k.id RETURNING 1
)
SELECT f.cycle_no, (SELECT count(*) FROM p)::int AS promoted,
       CASE WHEN EXISTS (SELECT FROM task WHERE pool_id = %(pool_id)s AND state = 0 AND run_at <= now()
                         OFFSET (SELECT count(*) FROM k)) THEN 0
            ELSE (SELECT extract(epoch FROM min(run_at) - now())::float8 FROM task
                   WHERE pool_id = %(pool_id)s AND state = 0 AND run_at > now()) END AS next_due_s
  FROM f

-- name: demanded
-- Whether anybody asks for work in this pool.
SELECT EXISTS (SELECT FROM demand WHERE pool_id = %(pool_id)s AND until > now())

-- name: take_settlements
-- Attempts that ended since the last cycle, in order; read once.
WITH k AS (SELECT id FROM settlement WHERE pool_id = %(pool_id)s ORDER BY id LIMIT %(limit)s),
g AS (DELETE FROM settlement s USING k WHERE s.id = k.id RETURNING s.*)
SELECT g.lane_id, g.worker_id, g.task_type, g.charged, g.actual, g.hint, g.outcome FROM g ORDER BY g.id

-- name: grant_leases
-- The chosen tasks become offers to their sessions, all of them or none: `startable` lists those that can still be
-- started; the others were cancelled, held or moved meanwhile. Never waits. The sessions are told.
-- `state + 0` keeps the planner from walking the whole queue by a partial index when its statistics are stale.
WITH x AS (
    SELECT * FROM unnest(%(task_ids)s::bigint[], %(session_ids)s::bigint[], %(charges)s::bigint[], %(tiers)s::text[])
           x(task_id, session_id, charged, tier)
), k AS MATERIALIZED (
    SELECT id FROM task WHERE id = ANY(%(task_ids)s::bigint[]) AND state + 0 = 1
     ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
), a AS MATERIALIZED (
    SELECT array_agg(id) AS startable, count(*) = cardinality(%(task_ids)s::bigint[]) AS whole FROM k
), u AS (
    UPDATE task t SET state = 2 FROM k, a WHERE t.id = k.id AND a.whole RETURNING t.id, t.lane_id
), i AS (
    INSERT INTO lease (task_id, token, pool_id, lane_id, session_id, expires_at, charged, promoted, tier)
    SELECT u.id, nextval('lease_token_seq'), %(pool_id)s, u.lane_id, x.session_id,
           now() + make_interval(secs => %(offer_ttl_s)s), x.charged, x.tier = 'P', x.tier
      FROM u JOIN x ON x.task_id = u.id ORDER BY u.id
), h AS (
    SELECT count(pg_notify(%(channel)s, payload)) FROM unnest(%(payloads)s::text[]) payload, a WHERE a.whole
)
SELECT a.whole, a.startable FROM a CROSS JOIN h

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

-- name: drop_accounts
-- Accounts that the policy has forgotten.
DELETE FROM share_account WHERE pool_id = %(pool_id)s AND node = ANY(%(nodes)s::text[])

-- name: drop_learned
-- Learned costs that the policy has forgotten.
DELETE FROM learned_cost l
 USING unnest(%(class_ids)s::bigint[], %(tenant_ids)s::bigint[], %(types)s::text[]) x(class_id, tenant_id, task_type)
 WHERE l.pool_id = %(pool_id)s AND l.class_id = x.class_id AND l.tenant_id = x.tenant_id AND l.task_type = x.task_type

-- name: store_cycle
-- What the cycle leaves behind: deficits of workers (rows locked in key order), changed accounts of the share tree,
-- changed learned costs, the leader's scalars and how long it took, and its picks for the decision record.
WITH k AS MATERIALIZED (
    SELECT w.id, x.deficit FROM unnest(%(worker_ids)s::bigint[], %(deficits)s::bigint[]) x(id, deficit)
      JOIN worker w ON w.id = x.id ORDER BY w.id FOR NO KEY UPDATE OF w
), w AS (
    UPDATE worker w SET deficit = k.deficit FROM k WHERE w.id = k.id
), a AS (
    INSERT INTO share_account (pool_id, node, data)
    SELECT %(pool_id)s, node, data::jsonb FROM unnest(%(nodes)s::text[], %(accounts)s::text[]) x(node, data) ORDER BY node
    ON CONFLICT (pool_id, node) DO UPDATE SET data = excluded.data
), c AS (
    INSERT INTO learned_cost (pool_id, class_id, tenant_id, task_type, data)
    SELECT %(pool_id)s, class_id, tenant_id, task_type, data::jsonb
      FROM unnest(%(class_ids)s::bigint[], %(tenant_ids)s::bigint[], %(types)s::text[], %(learned)s::text[])
           x(class_id, tenant_id, task_type, data) ORDER BY 2, 3, 4
    ON CONFLICT (pool_id, class_id, tenant_id, task_type) DO UPDATE SET data = excluded.data
), d AS (
    INSERT INTO decision (pool_id, cycle_no, assigned, by_class, by_tier, picks)
    SELECT %(pool_id)s, %(cycle_no)s, %(assigned)s, %(by_class)s::jsonb, %(by_tier)s::jsonb, %(picks)s::jsonb
     WHERE %(assigned)s::int > 0
), l AS (
    UPDATE pool_leader SET memory = %(scalars)s::jsonb, cycle_ms = %(cycle_ms)s, last_cycle_at = now()
     WHERE pool_id = %(pool_id)s
)
SELECT pg_notify(channel, payload) FROM unnest(%(channels)s::text[], %(payloads)s::text[]) x(channel, payload)

-- name: load_accounts
-- All accounts of a pool.
SELECT node, data FROM share_account WHERE pool_id = %(pool_id)s

-- name: load_learned
-- All learned costs of a pool.
SELECT class_id, tenant_id, task_type, data FROM learned_cost WHERE pool_id = %(pool_id)s

-- name: load_scalars
-- The policy's name and scalar memory of a pool.
SELECT p.policy, l.memory FROM pool p JOIN pool_leader l ON l.pool_id = p.id WHERE p.id = %(pool_id)s
