-- name: lock_due_leases
-- Leases that are due for any cause, locked in key order, those that somebody else has in hand left out: the clock is
-- looked at again under the lock. A scan of the narrow lease table (1.3 ms for 10,000) instead of an index on expiry,
-- which would cost every heartbeat its HOT update.
SELECT l.task_id, l.delivered_at IS NOT NULL AS delivered, l.expires_at <= now() AS expired,
       coalesce(l.runtime_until <= now(), false) AS overtime,
       coalesce(l.progress_at + make_interval(secs => l.progress_timeout_s) <= now(), false) AS stalled,
       l.directive = 1 AND l.directive_at + make_interval(secs => p.yield_grace_s) <= now() AS unyielding,
       l.extensions, l.pool_id, (extract(epoch FROM coalesce(l.renewed_at, l.granted_at)) * 1000000)::bigint AS renewed_at,
       (p.lease_ttl_s * 1000000)::bigint AS ttl, (extract(epoch FROM now()) * 1000000)::bigint AS now
  FROM lease l JOIN pool p ON p.id = l.pool_id
 WHERE (l.expires_at <= now() OR l.runtime_until <= now()
        OR l.progress_at + make_interval(secs => l.progress_timeout_s) <= now()
        OR (l.directive = 1 AND l.directive_at + make_interval(secs => p.yield_grace_s) <= now()))
   AND (%(only)s::bigint[] IS NULL OR l.task_id = ANY(%(only)s::bigint[]))
   AND NOT (l.task_id = ANY(%(skip)s::bigint[]))
 ORDER BY l.task_id LIMIT %(limit)s FOR UPDATE OF l SKIP LOCKED

-- name: due_leases
-- The ids a sweep will look at, without locks: a failing batch is halved until the row that spoils it stands alone.
SELECT l.task_id FROM lease l JOIN pool p ON p.id = l.pool_id
 WHERE (l.expires_at <= now() OR l.runtime_until <= now()
        OR l.progress_at + make_interval(secs => l.progress_timeout_s) <= now()
        OR (l.directive = 1 AND l.directive_at + make_interval(secs => p.yield_grace_s) <= now()))
   AND NOT (l.task_id = ANY(%(skip)s::bigint[]))
 ORDER BY l.task_id LIMIT %(limit)s

-- name: extend_leases
-- One more TTL for leases (locked before) whose agents nobody could hear: neither a heartbeat nor progress, nor that
-- they were done or gave way.
UPDATE lease l
   SET expires_at = now() + make_interval(secs => p.lease_ttl_s), extensions = l.extensions + 1,
       progress_at = CASE WHEN l.progress_at IS NULL THEN NULL ELSE now() END,
       runtime_until = CASE WHEN l.runtime_until IS NOT NULL
                            THEN greatest(l.runtime_until, now() + make_interval(secs => p.lease_ttl_s)) END,
       directive_at = CASE WHEN l.directive = 1 THEN now() ELSE l.directive_at END
  FROM pool p WHERE p.id = l.pool_id AND l.task_id = ANY(%(task_ids)s::bigint[])

-- name: drop_ghost_demand
-- Offers were not picked up: nobody waits behind the parked claims of these leases' sessions.
DELETE FROM demand d USING lease l WHERE l.task_id = ANY(%(task_ids)s::bigint[]) AND d.session_id = l.session_id

-- name: expire_waiting
-- Waiting tasks whose deadline has passed are dead.
WITH k AS MATERIALIZED (
    SELECT id FROM task WHERE state IN (0, 1, 3) AND deadline IS NOT NULL AND deadline <= now()
     ORDER BY deadline LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE task t SET state = 5, reason = 'expired', finished_at = now(), queued_at = NULL, run_at = NULL
  FROM k WHERE t.id = k.id RETURNING t.id
