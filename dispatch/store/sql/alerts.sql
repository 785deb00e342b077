-- name: list_alerts
-- Alerts newest first; `tenants` narrows to a tenant's own, `pool_id` to those of one pool or of none.
SELECT *, CASE WHEN resolved_at IS NOT NULL THEN 'resolved'
               WHEN acked_at IS NOT NULL AND (acked_until IS NULL OR acked_until > now()) THEN 'acknowledged'
               ELSE 'firing' END AS shown_state
  FROM alert
 WHERE id < %(below)s
   AND (%(tenants)s::bigint[] IS NULL OR tenant_id = ANY (%(tenants)s::bigint[]))
   AND (%(pool_id)s::bigint IS NULL OR pool_id IS NULL OR pool_id = %(pool_id)s)
   AND (%(rule)s::text IS NULL OR rule = %(rule)s) AND (%(severity)s::text IS NULL OR severity = %(severity)s)
   AND (%(open)s::bool IS NULL OR (resolved_at IS NULL) = %(open)s::bool)
   AND (%(id)s::bigint IS NULL OR id = %(id)s)
 ORDER BY id DESC LIMIT %(limit)s

-- name: lock_alert
-- One alert, locked.
SELECT * FROM alert WHERE id = %(id)s FOR UPDATE

-- name: ack_alert
-- Somebody has seen it, and keeps it quiet until a time (null: until it is resolved).
UPDATE alert SET acked_at = now(), acked_by = %(by)s, acked_until = %(until)s, note = %(note)s WHERE id = %(id)s
