-- name: lock_leases_of_session
-- All leases of one session, delivered or not, locked in key order.
SELECT task_id FROM lease WHERE session_id = %(session_id)s ORDER BY task_id FOR UPDATE

-- name: lock_lease_of_task
-- The lease of one task, whoever holds it, delivered or not.
SELECT task_id, session_id FROM lease WHERE task_id = %(task_id)s FOR UPDATE

-- name: lock_ending
-- Delivered leases under their tokens (a token of NULL: any lease of the task), locked in key order, with what decides
-- about their end; missing ones are not the caller's any more. Locks their tasks, in key order too. The rows of session
-- and worker may be gone: a lease ends all the same.
WITH k AS MATERIALIZED (
    SELECT l.* FROM unnest(%(task_ids)s::bigint[], %(tokens)s::bigint[]) x(task_id, token)
      JOIN lease l ON l.task_id = x.task_id
     WHERE x.token IS NULL OR (l.token = x.token AND l.delivered_at IS NOT NULL)
     ORDER BY l.task_id FOR UPDATE OF l
)
SELECT l.task_id, l.token, l.pool_id, l.lane_id, l.session_id, s.worker_id, s.api_key_id, l.charged,
       l.directive = 1 AS asked_to_yield,
       l.delivered_at IS NOT NULL AS delivered,
       CASE WHEN l.delivered_at IS NULL THEN 0
            WHEN p.cost_unit = 'slot-seconds' THEN (extract(epoch FROM now() - l.delivered_at) * 1000000)::bigint
            ELSE coalesce(l.progress_cost, l.charged) END AS spent,
       t.tenant_id, t.attempts, t.losses, t.handbacks, t.cancel_requested, coalesce(t.deadline <= now(), false) AS expired,
       coalesce(t.max_attempts, c.max_attempts)::int AS max_attempts, p.max_reclaims, p.max_handbacks,
       c.backoff_s, c.backoff_max_s, a.tools
  FROM k l JOIN task t ON t.id = l.task_id JOIN lane a ON a.id = l.lane_id
  JOIN work_class c ON c.id = a.work_class_id JOIN pool p ON p.id = l.pool_id
  LEFT JOIN worker_session s ON s.id = l.session_id
 ORDER BY t.id FOR NO KEY UPDATE OF t

-- name: end_leases
-- Leases (locked before, token in the WHERE) end: the lease goes, the task moves, a delivered one leaves an attempt,
-- and the difference between charge and cost waits in a settlement for the next dispatch cycle.
WITH x AS (
    SELECT * FROM unnest(%(task_ids)s::bigint[], %(tokens)s::bigint[], %(states)s::smallint[], %(outcomes)s::smallint[],
                         %(counted)s::bool[], %(lost)s::bool[], %(handback)s::bool[], %(delays)s::float8[],
                         %(reasons)s::text[], %(errors)s::text[], %(results)s::text[], %(costs)s::bigint[],
                         %(fingerprints)s::text[])
           x(task_id, token, state, outcome, counted, lost, handback, delay_s, reason, error, result, cost, fingerprint)
), g AS (
    DELETE FROM lease l USING x WHERE l.task_id = x.task_id AND l.token = x.token
    RETURNING l.*, x.state, x.outcome, x.counted, x.lost, x.handback, x.delay_s, x.reason, x.error, x.result, x.cost,
              x.fingerprint
), f AS (
    SELECT g.*, coalesce(s.worker_id, 0) AS worker_id, coalesce(w.name, '') AS worker_name
      FROM g LEFT JOIN worker_session s ON s.id = g.session_id LEFT JOIN worker w ON w.id = s.worker_id
), u AS (
    UPDATE task t
       SET state = f.state,
           starts = t.starts + (f.delivered_at IS NOT NULL)::int,
           attempts = t.attempts + f.counted::int, losses = t.losses + f.lost::int,
           handbacks = t.handbacks + f.handback::int,
           run_at = CASE WHEN f.state = 0 THEN now() + make_interval(secs => f.delay_s) END,
           queued_at = CASE WHEN f.state = 1 THEN now() END,
           finished_at = CASE WHEN f.state IN (4, 5, 6) THEN now() END,
           last_token = f.token, last_outcome = f.outcome,
           last_worker_id = CASE WHEN f.counted AND f.worker_id > 0 THEN f.worker_id ELSE t.last_worker_id END,
           result = coalesce(f.result::jsonb, t.result),
           error = CASE WHEN f.state = 4 THEN NULL ELSE coalesce(f.error::jsonb, t.error) END,
           reason = CASE WHEN f.state = 4 THEN '' WHEN f.state = 6 THEN coalesce(nullif(t.cancel_reason, ''), f.reason)
                         ELSE f.reason END,
           fingerprint = CASE WHEN f.state = 4 THEN '' ELSE coalesce(f.fingerprint, t.fingerprint) END
      FROM f WHERE t.id = f.task_id AND t.state = 2
    RETURNING t.id, t.type, t.cost_hint
), a AS (
    INSERT INTO attempt (task_id, token, attempt, pool_id, lane_id, session_id, worker_id, worker_name, granted_at,
                         delivered_at, ended_at, outcome, counted, error, reason, cost, progress, state)
    SELECT task_id, token, attempt, pool_id, lane_id, session_id, worker_id, worker_name, granted_at, delivered_at,
           now(), outcome, counted, error::jsonb, reason, cost,
           CASE WHEN progress_step IS NULL AND progress_fraction IS NULL AND progress_note = '' THEN NULL
                ELSE jsonb_build_object('step', progress_step, 'fraction', progress_fraction, 'note', progress_note) END,
           state
      FROM f WHERE delivered_at IS NOT NULL ORDER BY task_id
), s AS (
    INSERT INTO settlement (pool_id, lane_id, task_id, worker_id, task_type, charged, actual, hint, outcome)
    SELECT f.pool_id, f.lane_id, f.task_id, f.worker_id, u.type, f.charged, f.cost, u.cost_hint, f.outcome
      FROM f JOIN u ON u.id = f.task_id ORDER BY f.task_id
)
SELECT id FROM u

-- name: ended_attempts
-- For calls whose lease is not there: the task, and the attempt that had this token (the first one that ended).
SELECT x.n::int AS n, t.id, t.tenant_id, t.pool_id, a.id AS attempt_id, a.ended_at, a.outcome, a.state, s.api_key_id
  FROM unnest(%(task_ids)s::bigint[], %(tokens)s::bigint[]) WITH ORDINALITY x(task_id, token, n)
  LEFT JOIN task t ON t.id = x.task_id
  LEFT JOIN LATERAL (SELECT * FROM attempt a WHERE a.task_id = x.task_id AND a.token = x.token ORDER BY a.id LIMIT 1) a
         ON true
  LEFT JOIN worker_session s ON s.id = a.session_id
 ORDER BY x.n

-- name: keep_late_results
-- What an agent reported after it had lost the lease: evidence on the attempt, the first report only.
WITH x AS (
    SELECT * FROM unnest(%(ids)s::bigint[], %(ended)s::timestamptz[], %(late)s::text[]) x(id, ended_at, late)
), k AS MATERIALIZED (
    SELECT a.id, a.ended_at, x.late FROM x JOIN attempt a ON a.id = x.id AND a.ended_at = x.ended_at
     WHERE a.late IS NULL ORDER BY a.id FOR NO KEY UPDATE OF a
)
UPDATE attempt a SET late = k.late::jsonb FROM k WHERE a.id = k.id AND a.ended_at = k.ended_at

-- name: find_tools
-- Tools by slug.
SELECT id, slug FROM tool WHERE slug = ANY(%(slugs)s::text[])

-- name: cool_tools
-- A tool that limited one task cools down for the whole fleet; a later end is never shortened.
WITH k AS MATERIALIZED (
    SELECT t.id, x.delay_s FROM unnest(%(tool_ids)s::bigint[], %(delays)s::float8[]) x(id, delay_s)
      JOIN tool t ON t.id = x.id ORDER BY t.id FOR NO KEY UPDATE OF t
)
UPDATE tool t SET cooldown_until = greatest(t.cooldown_until, now() + make_interval(secs => k.delay_s))
  FROM k WHERE t.id = k.id
