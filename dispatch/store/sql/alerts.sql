-- name: raise_alerts
-- One open alert per (rule, subject); a repeat shows that it still holds, with what is true now. Rows that were written:
-- the new ones (`fresh`) and those that changed or had not been seen for a while.
INSERT INTO alert AS a (rule, subject, severity, text, evidence, pool_id, class_id, tenant_id)
SELECT x.rule, x.subject, x.severity, x.text, x.evidence::jsonb, x.pool_id, x.class_id, x.tenant_id
  FROM unnest(%(rules)s::text[], %(subjects)s::text[], %(severities)s::text[], %(texts)s::text[], %(evidences)s::text[],
              %(pools)s::bigint[], %(classes)s::bigint[], %(tenants)s::bigint[])
       x(rule, subject, severity, text, evidence, pool_id, class_id, tenant_id)
 ORDER BY x.rule, x.subject
ON CONFLICT (rule, subject) WHERE resolved_at IS NULL
DO UPDATE SET seen_at = now(), severity = excluded.severity, text = excluded.text, evidence = excluded.evidence
    WHERE a.text <> excluded.text OR a.severity <> excluded.severity OR a.evidence <> excluded.evidence
       OR a.seen_at < now() - interval '5 seconds'
RETURNING a.rule, a.subject, xmax = 0 AS fresh

-- name: resolve_alerts
-- Findings that do not hold any more: those of a rule about these subjects, or (`others`) about all but these; a pool
-- narrows to its own.
UPDATE alert SET resolved_at = now()
 WHERE rule = %(rule)s AND resolved_at IS NULL AND (subject = ANY (%(subjects)s::text[])) <> %(others)s::bool
   AND (%(pool_id)s::bigint IS NULL OR pool_id = %(pool_id)s)

-- name: list_alerts
-- Alerts newest first; `tenants` narrows to a tenant's own, `pool_id` to those of one pool or of none.
SELECT * FROM (
    SELECT a.*, p.slug AS pool, c.slug AS class, t.slug AS tenant,
           alert_state(a) AS state,
           CASE WHEN a.silence_id IS NOT NULL THEN 'silenced' WHEN a.inhibited_by IS NOT NULL THEN 'inhibited' END AS muted
      FROM alert a LEFT JOIN pool p ON p.id = a.pool_id LEFT JOIN work_class c ON c.id = a.class_id
      LEFT JOIN tenant t ON t.id = a.tenant_id
     WHERE a.id < %(below)s
       AND (%(tenants)s::bigint[] IS NULL OR a.tenant_id = ANY (%(tenants)s::bigint[]))
       AND (%(pool_id)s::bigint IS NULL OR a.pool_id IS NULL OR a.pool_id = %(pool_id)s)
       AND (%(rule)s::text IS NULL OR a.rule = %(rule)s) AND (%(severity)s::text IS NULL OR a.severity = %(severity)s)
       AND (%(open)s::bool IS NULL OR (a.resolved_at IS NULL) = %(open)s::bool)
       AND (%(id)s::bigint IS NULL OR a.id = %(id)s)
) x
 WHERE %(state)s::text IS NULL OR x.state = %(state)s
 ORDER BY x.id DESC LIMIT %(limit)s

-- name: lock_alert
-- One alert, locked.
SELECT * FROM alert WHERE id = %(id)s FOR UPDATE

-- name: ack_alert
-- Somebody has seen it, and keeps it quiet until a time (null: until it is resolved) or until it gets worse.
UPDATE alert SET acked_at = now(), acked_by = %(by)s, acked_until = %(until)s, acked_severity = severity, note = %(note)s
 WHERE id = %(id)s

-- name: open_alerts
-- The open alerts, the newest 5,000, with the words that silences match.
SELECT a.id, a.pool_id, a.rule, a.subject, a.severity, p.slug AS pool, c.slug AS class, t.slug AS tenant,
       a.silence_id, a.inhibited_by
  FROM alert a LEFT JOIN pool p ON p.id = a.pool_id LEFT JOIN work_class c ON c.id = a.class_id
  LEFT JOIN tenant t ON t.id = a.tenant_id
 WHERE a.resolved_at IS NULL ORDER BY a.id DESC LIMIT 5000

-- name: mute_alerts
-- Say of alerts what keeps them quiet.
UPDATE alert a SET silence_id = x.silence_id, inhibited_by = x.inhibited_by
  FROM unnest(%(ids)s::bigint[], %(silences)s::bigint[], %(inhibitors)s::bigint[]) x(id, silence_id, inhibited_by)
 WHERE a.id = x.id

-- name: active_silences
-- Silences whose time it is.
SELECT id, matcher FROM silence WHERE starts_at <= now() AND ends_at > now() ORDER BY id

-- name: insert_silence
-- A new silence; without a start it begins now.
INSERT INTO silence (matcher, tenant_id, starts_at, ends_at, author, note)
VALUES (%(matcher)s::jsonb, %(tenant_id)s, coalesce(%(starts_at)s::timestamptz, now()), %(ends_at)s, %(author)s, %(note)s)
RETURNING id

-- name: list_silences
-- Silences newest first.
SELECT s.*, CASE WHEN s.ends_at <= now() THEN 'over' WHEN s.starts_at > now() THEN 'pending' ELSE 'active' END AS state
  FROM silence s
 WHERE s.id < %(below)s AND (%(tenants)s::bigint[] IS NULL OR s.tenant_id = ANY (%(tenants)s::bigint[]))
   AND (%(id)s::bigint IS NULL OR s.id = %(id)s)
 ORDER BY s.id DESC LIMIT %(limit)s

-- name: lock_silence
-- One silence, locked.
SELECT * FROM silence WHERE id = %(id)s FOR UPDATE

-- name: end_silence
-- A silence ends before its time.
UPDATE silence SET ends_at = now(), starts_at = least(starts_at, now()) WHERE id = %(id)s AND ends_at > now()

-- name: stale_alerts
-- Open alerts whose ground is gone: of an outage when a web process has been up for a whole TTL without a gap, of a task
-- that is not set aside any more, of a pool that is gone, and of a worker that is not in quarantine (an
-- operator's word resolves that at once).
SELECT a.rule, a.subject FROM alert a LEFT JOIN pool o ON o.id = a.pool_id
 WHERE a.resolved_at IS NULL
   AND (o.archived_at IS NOT NULL
        OR a.rule = 'web_outage' AND a.seen_at < now() - make_interval(secs => coalesce(o.lease_ttl_s, 0))
            AND EXISTS (SELECT 1 FROM process p
                         WHERE p.kind = 'web' AND p.beat_at > now() - interval '3 seconds'
                           AND p.up_since <= now() - make_interval(secs => coalesce(o.lease_ttl_s, 0)))
        OR a.rule = 'quarantine'
            AND NOT EXISTS (SELECT 1 FROM worker w WHERE w.quarantined AND 'worker:' || w.id = a.subject)
        OR a.rule = 'max_handbacks'
            AND NOT EXISTS (SELECT 1 FROM task t WHERE t.id = (a.evidence->>'task_id')::bigint AND t.state = 3))
 ORDER BY a.rule, a.subject LIMIT 1000

-- name: untold_alerts
-- Alerts whose state is not what was told last, and how each stands: firing ones that are not muted, have held for a
-- while, and are new, worse than told, or due again; acknowledged and resolved ones that had been told as firing.
WITH s AS (
    SELECT a.*, alert_state(a) AS state
      FROM alert a WHERE a.resolved_at IS NULL OR a.told <> ''
     ORDER BY a.id DESC LIMIT 5000
)
SELECT s.id, s.rule, s.subject, s.severity, s.state, s.text, s.evidence, s.pool_id, s.tenant_id, s.fired_at, s.resolved_at,
       s.acked_by, s.acked_until, s.note, p.slug AS pool, c.slug AS class, t.slug AS tenant
  FROM s LEFT JOIN pool p ON p.id = s.pool_id LEFT JOIN work_class c ON c.id = s.class_id
  LEFT JOIN tenant t ON t.id = s.tenant_id
 WHERE (s.state = 'firing' AND s.silence_id IS NULL AND s.inhibited_by IS NULL
            AND s.fired_at <= now() - make_interval(secs => %(wait_s)s)
            AND (s.told <> 'firing' OR s.told_at <= now() - make_interval(secs => %(repeat_s)s)
                 OR array_position(ARRAY['info', 'warning', 'critical'], s.severity::text)
                    > array_position(ARRAY['info', 'warning', 'critical'], s.told_severity::text)))
    OR (s.state = 'acknowledged' AND s.told = 'firing')
    OR (s.state = 'resolved' AND s.told <> '')
 ORDER BY s.rule, s.pool_id, s.tenant_id, s.id

-- name: mark_told
-- What was told; a resolved alert is not looked at again.
UPDATE alert a SET told = CASE WHEN x.state = 'resolved' THEN '' ELSE x.state END, told_severity = a.severity, told_at = now()
  FROM unnest(%(ids)s::bigint[], %(states)s::text[]) x(id, state) WHERE a.id = x.id

-- name: drop_old_alerts
-- Alerts and silences that have been over for as long as the coarsest samples are kept.
WITH s AS (
    DELETE FROM silence WHERE ends_at < now() - make_interval(days => %(days)s)
)
DELETE FROM alert WHERE id IN (
    SELECT id FROM alert WHERE resolved_at < now() - make_interval(days => %(days)s) AND told = '' ORDER BY id LIMIT 5000)
