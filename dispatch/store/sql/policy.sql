-- name: policy_facts
-- What runs of one object now (a tenant's or tool's maximum holds per pool: its busiest pool), and the live slots of a pool.
SELECT coalesce((
    SELECT max(n) FROM (
        SELECT count(*) AS n FROM lease e JOIN lane l ON l.id = e.lane_id
         WHERE CASE %(kind)s WHEN 'pool' THEN l.pool_id = %(id)s WHEN 'class' THEN l.work_class_id = %(id)s
                             WHEN 'tenant' THEN l.tenant_id = %(id)s
                             WHEN 'tool' THEN %(id)s::bigint = ANY (l.tools) ELSE false END
         GROUP BY e.pool_id) x), 0)::bigint AS running,
    coalesce((
    SELECT sum(s.slots) FROM worker_session s JOIN worker w ON w.id = s.worker_id JOIN pool p ON p.id = s.pool_id
     WHERE s.pool_id = %(pool_id)s::bigint AND s.closed_at IS NULL AND NOT w.draining AND NOT w.quarantined
       AND (s.last_seen_at > now() - make_interval(secs => p.lease_ttl_s)
            OR EXISTS (SELECT 1 FROM demand d WHERE d.session_id = s.id AND d.until > now()))), 0)::bigint AS live_slots

-- name: policy_user_maxima
-- Users of a tenant that have a maximum of their own.
SELECT name, max FROM tenant_user WHERE tenant_id = %(tenant_id)s AND max IS NOT NULL ORDER BY name

-- name: policy_live_work
-- What would be left hanging if one object went: waiting and running tasks, classes and open sessions of a pool.
WITH mine AS (
    SELECT l.id FROM lane l JOIN capset s ON s.id = l.capset_id
     WHERE CASE %(kind)s WHEN 'pool' THEN l.pool_id = %(id)s WHEN 'class' THEN l.work_class_id = %(id)s
                         WHEN 'tenant' THEN l.tenant_id = %(id)s WHEN 'tool' THEN %(id)s::bigint = ANY (l.tools)
                         ELSE %(slug)s = ANY (s.names) END
), d AS (
    SELECT coalesce(sum(queued), 0)::bigint AS queued, coalesce(sum(scheduled), 0)::bigint AS scheduled,
           coalesce(sum(held), 0)::bigint AS held
      FROM (SELECT lane_id, queued, scheduled, held FROM lane_depth
            UNION ALL SELECT lane_id, queued, scheduled, held FROM lane_delta) x
     WHERE lane_id IN (SELECT id FROM mine)
)
SELECT d.*, (SELECT count(*) FROM lease WHERE lane_id IN (SELECT id FROM mine)) AS running,
       (SELECT count(*) FROM work_class c WHERE %(kind)s = 'pool' AND c.pool_id = %(id)s AND c.archived_at IS NULL) AS classes,
       (SELECT count(*) FROM worker_session s JOIN capset c ON c.id = s.capset_id
         WHERE s.closed_at IS NULL AND s.last_seen_at > now() - interval '24 hours'
           AND CASE %(kind)s WHEN 'pool' THEN s.pool_id = %(id)s WHEN 'tenant' THEN s.tenant_id = %(id)s
                             WHEN 'capability' THEN %(slug)s = ANY (c.names) ELSE false END) AS sessions
  FROM d

-- name: policy_revoke_keys
-- Keys that were bound to a tenant or pool that goes.
UPDATE api_key SET revoked_at = now()
 WHERE revoked_at IS NULL
   AND CASE %(kind)s WHEN 'tenant' THEN tenant_id = %(id)s WHEN 'pool' THEN pool_id = %(id)s ELSE false END

-- name: list_policy_versions
-- Edits of the policy, newest first: each is one version.
SELECT id AS version, at, actor_name AS actor, action, target_kind AS kind, target AS slug, reason, before, after
  FROM audit_event
 WHERE id < %(below)s AND NOT refused AND target_kind IN ('pool', 'class', 'tenant', 'tool')
   AND action ~ '^(create|patch|delete)_' ORDER BY id DESC LIMIT %(limit)s

-- name: policy_version
-- When one version was made.
SELECT at FROM audit_event
 WHERE id = %(version)s AND NOT refused AND target_kind IN ('pool', 'class', 'tenant', 'tool')
   AND action ~ '^(create|patch|delete)_'

-- name: newest_policy_version
-- The newest version, 0 before the first.
SELECT coalesce(max(id), 0) FROM audit_event
 WHERE NOT refused AND target_kind IN ('pool', 'class', 'tenant', 'tool') AND action ~ '^(create|patch|delete)_'
