-- name: triage_counts
-- The newest dead letters (task_died), counted by fingerprint, class, tenant and age: steps of a quarter of an hour for
-- six hours, then 24 (up to a day) and 25 (older). Letters without an error have the fingerprint `none`.
WITH d AS MATERIALIZED (
    SELECT t.id, t.fingerprint, t.reason, t.work_class_id, t.tenant_id, t.finished_at, t.attempts
      FROM task t
     WHERE t.state = 5 AND (%(tenants)s::bigint[] IS NULL OR t.tenant_id = ANY (%(tenants)s::bigint[]))
       AND (%(pool_id)s::bigint IS NULL OR t.pool_id = %(pool_id)s)
       AND (%(fingerprint)s::text IS NULL OR t.fingerprint = %(fingerprint)s)
     ORDER BY t.finished_at DESC, t.id DESC LIMIT %(limit)s
), g AS (
    SELECT coalesce(nullif(d.fingerprint, ''), 'none') AS fingerprint, d.work_class_id, d.tenant_id, d.reason,
           CASE WHEN now() - d.finished_at < interval '6 hours'
                THEN greatest(0, floor(extract(epoch FROM now() - d.finished_at) / 900))::int
                WHEN now() - d.finished_at < interval '1 day' THEN 24 ELSE 25 END AS step,
           count(*)::int AS count, min(d.finished_at) AS first_at, max(d.finished_at) AS last_at, max(d.id) AS newest,
           min(d.attempts)::int AS attempts_min, max(d.attempts)::int AS attempts_max
      FROM d GROUP BY 1, 2, 3, 4, 5
)
SELECT g.*, c.slug AS class, n.slug AS tenant,
       extract(epoch FROM now() - g.first_at)::float8 AS first_age_s, extract(epoch FROM now() - g.last_at)::float8 AS last_age_s
  FROM g JOIN work_class c ON c.id = g.work_class_id JOIN tenant n ON n.id = g.tenant_id

-- name: triage_decided
-- Moves with every decision about a group.
SELECT coalesce(sum(version), 0)::bigint FROM dead_group

-- name: triage_samples
-- One letter of each group, its newest.
SELECT id, type, reason, error FROM task WHERE id = ANY (%(task_ids)s::bigint[])

-- name: triage_marks
-- What people decided about these groups.
SELECT fingerprint, status, status_at, ignore_above_per_h, ignore_above_total, assignee, note, version, updated_at, updated_by,
       extract(epoch FROM now() - status_at)::float8 AS status_age_s
  FROM dead_group WHERE fingerprint = ANY (%(fingerprints)s::text[])

-- name: lock_dead_group
-- The row of a group, made at its first triage, locked.
INSERT INTO dead_group (fingerprint) VALUES (%(fingerprint)s)
ON CONFLICT (fingerprint) DO UPDATE SET fingerprint = excluded.fingerprint
RETURNING *

-- name: save_dead_group
-- A decision about a group (locked before).
UPDATE dead_group
   SET status = %(status)s::text, status_at = CASE WHEN status = %(status)s::text AND NOT %(again)s THEN status_at ELSE now() END,
       ignore_above_per_h = %(ignore_above_per_h)s, ignore_above_total = %(ignore_above_total)s,
       assignee = %(assignee)s, note = %(note)s, version = version + 1, updated_at = now(), updated_by = %(by)s
 WHERE fingerprint = %(fingerprint)s
RETURNING *

-- name: triage_versions
-- Failed attempts of the dead letters of one group by version of their agents, the last day first.
SELECT coalesce(nullif(s.version, ''), '–') AS version, a.outcome, count(*)::int AS count, max(a.ended_at) AS last_at,
       min(a.ended_at) AS first_at, count(DISTINCT a.worker_id)::int AS workers
  FROM attempt a LEFT JOIN worker_session s ON s.id = a.session_id
 WHERE a.task_id = ANY (%(task_ids)s::bigint[]) AND a.counted
 GROUP BY 1, 2 ORDER BY max(a.ended_at) DESC LIMIT 50

-- name: triage_live_versions
-- Versions of the agents that are live now, with the time since when.
SELECT s.version, min(s.opened_at) AS since, count(*)::int AS sessions FROM worker_session s
 WHERE s.closed_at IS NULL AND s.version <> '' AND s.last_seen_at > now() - interval '2 minutes'
 GROUP BY 1

-- name: triage_people
-- Who may be given a group: people with the global role that acts on them.
SELECT email FROM "user" WHERE role = 'operator' AND is_active ORDER BY email LIMIT 200

-- name: list_saved_views
-- The views that somebody may use: his own, those for everybody, those of the tenants that he sees (null: all).
SELECT v.id, v.name, v.query, v.audience, n.slug AS tenant, u.email AS owner, v.owner_id = %(user_id)s::bigint AS mine
  FROM saved_view v JOIN "user" u ON u.id = v.owner_id LEFT JOIN tenant n ON n.id = v.tenant_id
 WHERE v.owner_id = %(user_id)s::bigint OR v.audience = 'everyone'
    OR (v.audience = 'tenant' AND (%(tenants)s::bigint[] IS NULL OR v.tenant_id = ANY (%(tenants)s::bigint[])))
 ORDER BY v.owner_id = %(user_id)s::bigint DESC, v.name, v.id LIMIT 200

-- name: save_view
-- A view under a name of its owner; the same name again replaces it.
INSERT INTO saved_view (name, query, owner_id, audience, tenant_id)
VALUES (%(name)s, %(query)s, %(user_id)s, %(audience)s, %(tenant_id)s)
ON CONFLICT (owner_id, name) DO UPDATE
   SET query = excluded.query, audience = excluded.audience, tenant_id = excluded.tenant_id
RETURNING id, name, query, audience

-- name: delete_view
-- One view goes; only the owner's own, or any for an operator.
DELETE FROM saved_view WHERE id = %(id)s AND (owner_id = %(user_id)s::bigint OR (%(any)s AND audience <> 'private')) RETURNING name, query, audience
