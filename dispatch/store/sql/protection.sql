-- name: failing_streaks
-- Open sessions under which at least so many different tasks failed or stalled in the last hour, with what came after
-- their last success (walked backwards over the newest ends) and after the last lifted quarantine, by task type.
WITH f AS MATERIALIZED (
    SELECT a.session_id, a.worker_id, a.pool_id, a.task_id, a.ended_at
      FROM attempt a WHERE a.outcome IN (1, 3) AND a.ended_at > now() - interval '1 hour'
), c AS MATERIALIZED (
    SELECT f.session_id, f.worker_id, f.pool_id, min(f.ended_at) AS first_at
      FROM f JOIN worker_session s ON s.id = f.session_id JOIN worker w ON w.id = f.worker_id
     WHERE s.closed_at IS NULL AND NOT w.quarantined
     GROUP BY 1, 2, 3 HAVING count(DISTINCT f.task_id) >= %(threshold)s LIMIT 20
), e AS MATERIALIZED (
    SELECT c.*, greatest(
        (SELECT a.ended_at FROM attempt a
          WHERE a.pool_id = c.pool_id AND a.ended_at > c.first_at AND a.session_id = c.session_id AND a.outcome = 0
          ORDER BY a.ended_at DESC LIMIT 1),
        (SELECT max(x.resolved_at) FROM alert x WHERE x.rule = 'quarantine' AND x.subject = 'worker:' || c.worker_id),
        c.first_at - interval '1 second') AS since
      FROM c
)
SELECT f.session_id, f.worker_id, f.pool_id, t.type, count(DISTINCT f.task_id)::int AS tasks
  FROM e JOIN f ON f.session_id = e.session_id AND f.ended_at > e.since JOIN task t ON t.id = f.task_id
 GROUP BY 1, 2, 3, 4

-- name: types_that_work
-- Types of the newest successes of a pool, by worker: bounded, so a busy pool costs no more.
SELECT DISTINCT x.worker_id, t.type
  FROM (SELECT a.task_id, a.worker_id FROM attempt a
         WHERE a.pool_id = %(pool_id)s AND a.outcome = 0 AND a.ended_at > now() - interval '1 hour'
         ORDER BY a.ended_at DESC LIMIT 20000) x
  JOIN task t ON t.id = x.task_id

-- name: quarantine_worker
-- Once: the worker gets no more work until an operator lifts it.
UPDATE worker SET quarantined = true WHERE id = %(worker_id)s AND NOT quarantined RETURNING name, pool_id

-- name: failing_types
-- Task types with at least so many failures in five minutes, since their breaker closed last, with the workers they
-- failed on and the successes among the newest 20,000 of the pool.
WITH f AS MATERIALIZED (
    SELECT a.pool_id, t.tenant_id, t.type, a.worker_id, a.ended_at
      FROM attempt a JOIN task t ON t.id = a.task_id
     WHERE a.outcome IN (1, 3, 4) AND a.ended_at > now() - interval '5 minutes' AND t.type <> ''
), c AS MATERIALIZED (
    SELECT f.pool_id, f.tenant_id, f.type, count(*)::int AS failures, count(DISTINCT f.worker_id)::int AS workers
      FROM f
     WHERE f.ended_at > coalesce((SELECT max(x.resolved_at) FROM alert x WHERE x.rule = 'breaker'
                                     AND x.subject = f.pool_id || '/' || f.tenant_id || '/' || f.type), '-infinity')
     GROUP BY 1, 2, 3 HAVING count(*) >= %(threshold)s LIMIT 100
)
SELECT c.*, (SELECT count(*)::int FROM (
                SELECT a.task_id FROM attempt a
                 WHERE a.pool_id = c.pool_id AND a.outcome = 0 AND a.ended_at > now() - interval '5 minutes'
                 ORDER BY a.ended_at DESC LIMIT 20000) x JOIN task t ON t.id = x.task_id
               WHERE t.type = c.type AND t.tenant_id = c.tenant_id) AS successes
  FROM c

-- name: open_breakers
-- Breakers that are open, and whether their time is over.
SELECT id, subject, pool_id, tenant_id, evidence->>'type' AS type,
       fired_at <= now() - make_interval(secs => %(hold_s)s::float8) AS over
  FROM alert WHERE rule = 'breaker' AND resolved_at IS NULL ORDER BY id

-- name: hold_type
-- Waiting tasks of a type are set aside; those that somebody has in hand follow at the next turn.
WITH k AS MATERIALIZED (
    SELECT t.id FROM task t
     WHERE t.state IN (0, 1) AND t.type = %(type)s AND t.tenant_id = %(tenant_id)s AND t.pool_id = %(pool_id)s
     ORDER BY t.id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE task t SET state = 3, queued_at = NULL, reason = 'breaker' FROM k WHERE t.id = k.id

-- name: let_type_go
-- The tasks that a breaker has set aside wait again, in their old places.
WITH k AS MATERIALIZED (
    SELECT t.id FROM task t
     WHERE t.state = 3 AND t.reason = 'breaker' AND t.type = %(type)s AND t.tenant_id = %(tenant_id)s
       AND t.pool_id = %(pool_id)s
     ORDER BY t.id LIMIT %(limit)s FOR NO KEY UPDATE
)
UPDATE task t SET state = CASE WHEN t.run_at > now() THEN 0 ELSE 1 END, reason = '',
                  queued_at = CASE WHEN t.run_at > now() THEN NULL ELSE now() END
  FROM k WHERE t.id = k.id
