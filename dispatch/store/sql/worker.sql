-- name: pool_by_slug
-- One pool with the times that a worker needs to know.
SELECT id, slug, lease_ttl_s, heartbeat_every_s, offer_ttl_s FROM pool
 WHERE archived_at IS NULL AND ((%(slug)s::text IS NOT NULL AND slug = %(slug)s) OR (%(slug)s::text IS NULL AND id = %(pool_id)s))

-- name: register_worker
-- The worker by (pool, name), made at first use; a given weight replaces the stored one. Opens a new session. The name
-- of a deleted one makes it anew.
WITH w AS (
    INSERT INTO worker (pool_id, name, weight) VALUES (%(pool_id)s, %(name)s, coalesce(%(weight)s::float8, 1))
    ON CONFLICT (pool_id, name) DO UPDATE SET archived_at = NULL, weight = coalesce(%(weight)s::float8, worker.weight)
    RETURNING id
)
INSERT INTO worker_session (worker_id, pool_id, capset_id, tenant_id, api_key_id, slots, version, labels)
SELECT w.id, %(pool_id)s, %(capset_id)s, %(tenant_id)s, %(api_key_id)s, %(slots)s, %(version)s, %(labels)s::jsonb FROM w
RETURNING worker_id, id AS session_id

-- name: open_sessions
-- Sessions that have not ended (DELETE, or 24 h without a call) with what every agent verb needs to know about them.
SELECT s.id, s.worker_id, s.pool_id, s.capset_id, s.tenant_id, s.api_key_id, s.slots, w.draining,
       p.lease_ttl_s, p.heartbeat_every_s, s.last_seen_at < now() - interval '200 milliseconds' AS silent
  FROM worker_session s JOIN worker w ON w.id = s.worker_id JOIN pool p ON p.id = s.pool_id
 WHERE s.id = ANY(%(session_ids)s::bigint[]) AND s.closed_at IS NULL
   AND s.last_seen_at > now() - interval '24 hours'

-- name: touch_sessions
-- A call is a sign of life. A locked session is being touched by somebody else, so this never waits.
WITH k AS MATERIALIZED (
    SELECT id FROM worker_session
     WHERE id = ANY(%(session_ids)s::bigint[]) AND last_seen_at < now() - interval '200 milliseconds'
     ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE worker_session s SET last_seen_at = now() FROM k WHERE s.id = k.id

-- name: close_session
-- The orderly end of a session; its parked claims go with it. No row: it had ended already.
WITH d AS (DELETE FROM demand WHERE session_id = %(session_id)s)
UPDATE worker_session SET closed_at = now() WHERE id = %(session_id)s AND closed_at IS NULL RETURNING id

-- name: list_workers
-- Workers with their open sessions and live leases, by id after the cursor; a tenant's key sees its own sessions only.
SELECT w.id, w.name, p.slug AS pool, w.weight, w.deficit, w.draining, w.quarantined,
       h.paused, CASE WHEN h.paused THEN w.paused_at END AS paused_at,
       CASE WHEN h.paused THEN w.paused_until END AS paused_until, CASE WHEN h.paused THEN w.paused_by END AS paused_by,
       CASE WHEN h.paused THEN w.pause_reason END AS pause_reason,
       s.slots, s.running, s.sessions, s.alive, s.last_seen_at, p.lease_ttl_s,
       ARRAY(SELECT DISTINCT unnest(c.names) FROM capset c WHERE c.id = ANY(s.capsets) ORDER BY 1) AS capabilities
  FROM worker w
  JOIN pool p ON p.id = w.pool_id
  CROSS JOIN LATERAL (SELECT w.paused AND (w.paused_until IS NULL OR w.paused_until > now()) AS paused) h
  CROSS JOIN LATERAL (
    SELECT coalesce(sum(x.slots) FILTER (WHERE x.alive), 0)::bigint AS slots,
           coalesce(sum(x.leases), 0)::bigint AS running,
           count(*)::int AS sessions, count(*) FILTER (WHERE x.alive)::int AS alive,
           max(x.last_seen_at) AS last_seen_at, array_agg(x.capset_id) AS capsets
      FROM (
        SELECT s.slots, s.capset_id, s.last_seen_at,
               (SELECT count(*) FROM lease l WHERE l.session_id = s.id) AS leases,
               s.last_seen_at > now() - make_interval(secs => p.lease_ttl_s)
               OR EXISTS (SELECT 1 FROM demand d WHERE d.session_id = s.id AND d.until > now()) AS alive
          FROM worker_session s WHERE s.worker_id = w.id AND s.closed_at IS NULL
           AND (%(tenant_id)s::bigint IS NULL OR s.tenant_id = %(tenant_id)s)
      ) x
  ) s
 WHERE w.id > %(after)s AND w.archived_at IS NULL AND (%(pool_id)s::bigint IS NULL OR w.pool_id = %(pool_id)s)
   AND (%(tenant_id)s::bigint IS NULL OR s.sessions > 0)
 ORDER BY w.id LIMIT %(limit)s

-- name: lock_worker
-- One worker, locked, with what an operator may change about it.
SELECT w.id, w.name, w.pool_id, p.slug AS pool, w.weight, w.draining, w.quarantined,
       w.paused AND (w.paused_until IS NULL OR w.paused_until > now()) AS paused
  FROM worker w JOIN pool p ON p.id = w.pool_id WHERE w.id = %(worker_id)s AND w.archived_at IS NULL
   FOR NO KEY UPDATE OF w

-- name: count_worker_leases
-- What a worker holds, offers included.
SELECT count(*)::int AS leases FROM lease l JOIN worker_session s ON s.id = l.session_id WHERE s.worker_id = %(worker_id)s

-- name: archive_worker
-- A worker (locked before) goes, with its sessions and parked claims; what was said about it is forgotten.
WITH s AS (UPDATE worker_session SET closed_at = now() WHERE worker_id = %(worker_id)s AND closed_at IS NULL),
     d AS (DELETE FROM demand d USING worker_session x WHERE x.id = d.session_id AND x.worker_id = %(worker_id)s)
UPDATE worker
   SET archived_at = now(), weight = 1, draining = false, quarantined = false, paused = false, paused_at = NULL,
       paused_until = NULL, paused_by = '', pause_reason = ''
 WHERE id = %(worker_id)s

-- name: change_worker
-- An operator's change of one worker (locked before); null leaves a value as it is. The end of a pause stays.
UPDATE worker
   SET weight = coalesce(%(weight)s::float8, weight), draining = coalesce(%(draining)s::bool, draining),
       quarantined = coalesce(%(quarantined)s::bool, quarantined), paused = coalesce(%(paused)s::bool, paused),
       paused_at = CASE WHEN %(paused)s::bool IS NULL THEN paused_at WHEN %(paused)s::bool THEN now() END,
       paused_until = CASE WHEN %(paused)s::bool IS NULL THEN paused_until WHEN NOT %(paused)s::bool THEN now() END,
       paused_by = CASE WHEN %(paused)s::bool IS NULL THEN paused_by WHEN %(paused)s::bool THEN %(author)s ELSE '' END,
       pause_reason = CASE WHEN %(paused)s::bool IS NULL THEN pause_reason WHEN %(paused)s::bool THEN %(reason)s ELSE '' END
 WHERE id = %(worker_id)s

-- name: worker_sessions
-- The open sessions of one worker, newest first, with the leases of each; a tenant's key sees its own only.
SELECT s.id, s.slots, s.version, s.labels, s.opened_at, s.last_seen_at, t.slug AS tenant, c.names AS capabilities,
       (SELECT count(*) FROM lease l WHERE l.session_id = s.id)::int AS running
  FROM worker_session s JOIN capset c ON c.id = s.capset_id LEFT JOIN tenant t ON t.id = s.tenant_id
 WHERE s.worker_id = %(worker_id)s AND s.closed_at IS NULL
   AND (%(tenant_id)s::bigint IS NULL OR s.tenant_id = %(tenant_id)s)
 ORDER BY s.id DESC LIMIT 100

-- name: worker_leases
-- What one worker holds, the lease that ends first first; a tenant's key sees its own sessions' only.
SELECT l.task_id, l.attempt, l.granted_at, l.delivered_at, l.expires_at, l.renewed_at, c.slug AS class, n.slug AS tenant
  FROM lease l JOIN worker_session s ON s.id = l.session_id JOIN lane a ON a.id = l.lane_id
  JOIN work_class c ON c.id = a.work_class_id JOIN tenant n ON n.id = a.tenant_id
 WHERE s.worker_id = %(worker_id)s AND (%(tenant_id)s::bigint IS NULL OR s.tenant_id = %(tenant_id)s)
 ORDER BY l.expires_at, l.task_id LIMIT 1000
