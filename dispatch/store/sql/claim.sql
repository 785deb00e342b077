-- name: claimed_leases
-- Live leases that an earlier call with the same claim_id got: a lost answer is given again.
SELECT l.task_id, l.session_id, l.claim_id
  FROM unnest(%(session_ids)s::bigint[], %(claim_ids)s::text[]) x(session_id, claim_id)
  JOIN lease l ON l.session_id = x.session_id AND l.claim_id = x.claim_id
 WHERE l.delivered_at IS NOT NULL
 ORDER BY l.granted_at, l.task_id

-- name: claiming_sessions
-- Open sessions (see open_sessions) with what was offered to them, newest first: of offers newer than `after`, the token
-- that this process delivered last, so that the index is not read over the remains of older leases. The size is the
-- stored one while that is small and not compressed, else the text's.
SELECT s.id, s.worker_id, s.pool_id, s.capset_id, s.tenant_id, s.api_key_id, s.slots, w.draining,
       s.last_seen_at < now() - interval '200 milliseconds' AS silent, o.tasks, o.bytes
  FROM unnest(%(session_ids)s::bigint[], %(after)s::bigint[]) x(session_id, after)
  JOIN worker_session s ON s.id = x.session_id JOIN worker w ON w.id = s.worker_id
  LEFT JOIN LATERAL (
    SELECT array_agg(f.task_id ORDER BY f.token DESC) AS tasks, array_agg(f.bytes ORDER BY f.token DESC) AS bytes
      FROM (
        SELECT l.task_id, l.token,
               CASE WHEN pg_column_compression(t.payload) IS NULL AND pg_column_size(t.payload) < 1900
                    THEN pg_column_size(t.payload) ELSE octet_length(t.payload::text) END
               + CASE WHEN t.starts = 0 THEN 0 ELSE coalesce(
                    (SELECT sum(octet_length(j.data::text)) FROM journal_entry j WHERE j.task_id = t.id), 0) END AS bytes
          FROM lease l JOIN task t ON t.id = l.task_id
         WHERE l.session_id = x.session_id AND l.token > x.after AND l.delivered_at IS NULL
         ORDER BY l.token LIMIT 1000
      ) f
  ) o ON true
 WHERE s.closed_at IS NULL AND s.last_seen_at > now() - interval '24 hours'

-- name: deliver_leases
-- Offers become deliveries, those that are still there: locked in key order, the TTL starts now. A cancel that came
-- before holds: it locks the lease too. The demand of the claims that are answered goes with it.
WITH x AS (
    SELECT * FROM unnest(%(task_ids)s::bigint[], %(session_ids)s::bigint[], %(claim_ids)s::text[])
           x(task_id, session_id, claim_id)
), k AS MATERIALIZED (
    SELECT l.task_id, x.claim_id FROM x JOIN lease l ON l.task_id = x.task_id AND l.session_id = x.session_id
     WHERE l.delivered_at IS NULL ORDER BY l.task_id FOR NO KEY UPDATE OF l
), q AS (
    DELETE FROM demand WHERE id = ANY(%(demand_ids)s::bigint[])
), g AS (
    UPDATE lease l
       SET delivered_at = now(), renewed_at = now(), progress_at = now(), attempt = t.starts + 1, claim_id = k.claim_id,
           expires_at = now() + make_interval(secs => p.lease_ttl_s), progress_timeout_s = t.progress_timeout_s,
           runtime_until = least(now() + make_interval(secs => t.max_runtime_s), t.deadline),
           directive = CASE WHEN t.cancel_requested OR l.directive = 2 THEN 2 ELSE 0 END
      FROM k, task t, pool p
     WHERE l.task_id = k.task_id AND t.id = k.task_id AND p.id = l.pool_id
    RETURNING l.task_id, l.session_id, l.token, l.attempt, l.lane_id, l.charged, l.expires_at, l.granted_at, t.type,
              t.payload, t.priority, t.progress_timeout_s, t.max_runtime_s, t.deadline, p.lease_ttl_s,
              p.heartbeat_every_s, l.pool_id
)
SELECT g.*, c.slug AS work_class, n.slug AS tenant, u.name AS "user"
  FROM g JOIN lane a ON a.id = g.lane_id JOIN work_class c ON c.id = a.work_class_id
  JOIN tenant n ON n.id = a.tenant_id JOIN tenant_user u ON u.id = a.user_id
 ORDER BY g.granted_at, g.task_id

-- name: lease_answers
-- Delivered leases as their agents get them.
SELECT l.task_id, l.session_id, l.claim_id, l.token, l.attempt, t.type, t.payload, c.slug AS work_class,
       n.slug AS tenant, u.name AS user, l.charged, t.cost_hint, t.priority, l.expires_at, p.lease_ttl_s,
       p.heartbeat_every_s, t.progress_timeout_s, t.max_runtime_s, t.deadline, l.pool_id
  FROM lease l JOIN task t ON t.id = l.task_id JOIN lane a ON a.id = l.lane_id
  JOIN work_class c ON c.id = a.work_class_id JOIN tenant n ON n.id = a.tenant_id
  JOIN tenant_user u ON u.id = a.user_id JOIN pool p ON p.id = l.pool_id
 WHERE l.task_id = ANY(%(task_ids)s::bigint[])
 ORDER BY l.granted_at, l.task_id

-- name: park_demand
-- Parked claims; the rows come back in the order given. A little slack over the wait covers the way back. The pools'
-- leaders are told.
WITH x AS (
    SELECT *, nextval(pg_get_serial_sequence('demand', 'id')) AS id
      FROM unnest(%(session_ids)s::bigint[], %(pool_ids)s::bigint[], %(wanted)s::int[], %(waits)s::float8[],
                  %(process_ids)s::bigint[]) WITH ORDINALITY x(session_id, pool_id, wanted, wait_s, process_id, n)
     ORDER BY n
), i AS (
    INSERT INTO demand (id, session_id, pool_id, wanted, until, process_id)
    SELECT id, session_id, pool_id, wanted, now() + make_interval(secs => wait_s + 0.5), process_id FROM x
), h AS (
    SELECT pg_notify(%(channel)s, string_agg(DISTINCT pool_id::text, ',')) FROM x
)
SELECT x.id FROM x CROSS JOIN h ORDER BY x.n

-- name: live_demand
-- Which of these parked claims are still there (an offer that was not picked up takes its demand away).
SELECT id FROM demand WHERE id = ANY(%(demand_ids)s::bigint[]) AND until > now()

-- name: drop_demand
-- Parked claims that ended: answered, waited out, disconnected.
DELETE FROM demand WHERE id = ANY(%(demand_ids)s::bigint[])

-- name: idle_facts
-- Why a session has nothing to do: existence probes over the lanes of its pool, never a count of the backlog.
SELECT w.draining, s.slots, s.pool_id,
       (w.paused AND (w.paused_until IS NULL OR w.paused_until > now())) OR w.quarantined
       OR (p.paused AND (p.paused_until IS NULL OR p.paused_until > now())) AS paused,
       (SELECT count(*) FROM lease l WHERE l.session_id = s.id) AS leases,
       EXISTS (SELECT 1 FROM lane a WHERE a.pool_id = s.pool_id
                  AND EXISTS (SELECT 1 FROM task t WHERE t.lane_id = a.id AND t.state = 1)) AS any_work,
       EXISTS (SELECT 1 FROM lane a JOIN capset need ON need.id = a.capset_id
                WHERE a.pool_id = s.pool_id AND need.names <@ have.names
                  AND (s.tenant_id IS NULL OR a.tenant_id = s.tenant_id)
                  AND EXISTS (SELECT 1 FROM task t WHERE t.lane_id = a.id AND t.state = 1)) AS eligible,
       EXISTS (SELECT 1 FROM lane a JOIN capset need ON need.id = a.capset_id
                 JOIN work_class c ON c.id = a.work_class_id JOIN tenant n ON n.id = a.tenant_id
                WHERE a.pool_id = s.pool_id AND need.names <@ have.names
                  AND (s.tenant_id IS NULL OR a.tenant_id = s.tenant_id)
                  AND NOT (c.paused AND (c.paused_until IS NULL OR c.paused_until > now()))
                  AND NOT (n.paused AND (n.paused_until IS NULL OR n.paused_until > now()))
                  AND NOT EXISTS (SELECT 1 FROM tool o WHERE o.id = ANY (a.tools) AND o.paused
                                     AND (o.paused_until IS NULL OR o.paused_until > now()))
                  AND EXISTS (SELECT 1 FROM task t WHERE t.lane_id = a.id AND t.state = 1)) AS unpaused
  FROM worker_session s JOIN worker w ON w.id = s.worker_id JOIN pool p ON p.id = s.pool_id
  JOIN capset have ON have.id = s.capset_id
 WHERE s.id = %(session_id)s AND s.closed_at IS NULL

-- name: offered_sessions
-- Which of these waiting sessions have offers that nobody has picked up: the poll behind the notifications.
SELECT DISTINCT session_id FROM lease WHERE session_id = ANY(%(session_ids)s::bigint[]) AND delivered_at IS NULL
