-- name: queue_marks
-- Changes of the policy inside a span, newest first, among the newest entries of the audit.
SELECT x.at, x.actor_name, x.action, x.target_kind, x.target, x.before, x.after
  FROM (SELECT * FROM audit_event ORDER BY id DESC LIMIT 500) x
 WHERE x.at > now() - make_interval(secs => %(span_s)s) AND NOT x.refused
   AND x.target_kind IN ('pool', 'class', 'tenant', 'tool') AND x.action ~ '^(patch|pause|resume)'
   AND (%(tenants)s::bigint[] IS NULL OR x.tenant_id IS NULL OR x.tenant_id = ANY (%(tenants)s::bigint[]))
 ORDER BY x.id DESC LIMIT 20
