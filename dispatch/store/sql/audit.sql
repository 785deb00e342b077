-- name: insert_audit
-- One entry of the append-only audit.
INSERT INTO audit_event (at, actor_kind, actor_id, actor_name, action, target_kind, target, tenant_id,
                         before, after, reason, request_id, refused)
VALUES (now(), %(actor_kind)s, %(actor_id)s, %(actor_name)s, %(action)s, %(target_kind)s, %(target)s, %(tenant_id)s,
        %(before)s::jsonb, %(after)s::jsonb, %(reason)s, %(request_id)s, %(refused)s)

-- name: list_audit
-- Newest first below a cursor, refused ones and those of our own processes where asked; `tenants` limits to the tenants
-- that the caller may see.
SELECT id, at, actor_kind, actor_name, action, target_kind, target, before, after, reason, request_id, refused
  FROM audit_event
 WHERE id < %(below)s AND (%(refused)s OR NOT refused) AND (%(system)s OR actor_kind <> 'system')
   AND (%(tenants)s::bigint[] IS NULL OR tenant_id = ANY (%(tenants)s::bigint[]))
   AND (%(actor)s::text IS NULL OR actor_name = %(actor)s) AND (%(action)s::text IS NULL OR action = %(action)s)
   AND (%(target_kind)s::text IS NULL OR target_kind = %(target_kind)s)
   AND (%(target)s::text IS NULL OR target = %(target)s)
   AND (%(only)s::text IS NULL OR refused = (%(only)s = 'refused'))
 ORDER BY id DESC LIMIT %(limit)s

-- name: task_audit
-- What operators and submitters did to one task, oldest first.
SELECT at, actor_name, action, reason FROM audit_event
 WHERE target_kind = 'task' AND target = %(target)s AND NOT refused ORDER BY id
