-- name: insert_audit
-- One entry of the append-only audit.
INSERT INTO audit_event (at, actor_kind, actor_id, actor_name, action, target_kind, target, tenant_id,
                         before, after, reason, request_id, refused)
VALUES (now(), %(actor_kind)s, %(actor_id)s, %(actor_name)s, %(action)s, %(target_kind)s, %(target)s, %(tenant_id)s,
        %(before)s::jsonb, %(after)s::jsonb, %(reason)s, %(request_id)s, %(refused)s)

-- name: list_audit
-- Newest first below a cursor, refused ones and those of our own processes where asked; `tenants` limits to the tenants
-- that the caller may see. Filters that are null ask for nothing.
SELECT id, at, actor_kind, actor_name, action, target_kind, target, before, after, reason, request_id, refused
  FROM audit_event
 WHERE id < %(below)s AND (%(refused)s OR NOT refused) AND (%(system)s OR actor_kind <> 'system')
   AND (%(tenants)s::bigint[] IS NULL OR tenant_id = ANY (%(tenants)s::bigint[]))
   AND (%(actor)s::text IS NULL OR actor_name = %(actor)s) AND (%(action)s::text IS NULL OR action = %(action)s)
   AND (%(target_kind)s::text IS NULL OR target_kind = %(target_kind)s)
   AND (%(target)s::text IS NULL OR target = %(target)s)
   AND (%(only)s::text IS NULL OR refused = (%(only)s = 'refused'))
   AND (%(since)s::timestamptz IS NULL OR at >= %(since)s::timestamptz)
   AND (%(until)s::timestamptz IS NULL OR at < %(until)s::timestamptz)
 ORDER BY id DESC LIMIT %(limit)s

-- name: last_link
-- The end of the audit's chain.
SELECT seq, hash, event_id FROM audit_link ORDER BY seq DESC LIMIT 1

-- name: unlinked_audit
-- Committed entries after the last one chained, in id order, as long as no transaction that may still commit an earlier
-- id is open: every id below was given to a transaction that has ended. The second covers one that has drawn its id but
-- not yet its transaction number.
SELECT e.id, (extract(epoch FROM e.at) * 1000000)::bigint AS at, e.actor_kind, e.actor_id, e.actor_name, e.action,
       e.target_kind, e.target, e.tenant_id, e.before::text, e.after::text, e.reason, e.request_id, e.refused
  FROM audit_event e
 WHERE e.id > %(after)s AND e.at < now() - make_interval(secs => %(settle_s)s::float8)
   AND age(e.xmin) > age((pg_snapshot_xmin(pg_current_snapshot())::text::bigint %% 4294967296)::text::xid)
 ORDER BY e.id LIMIT %(limit)s

-- name: append_links
-- Links after the last one; a doubled place or entry is an error.
INSERT INTO audit_link (seq, event_id, hash)
SELECT seq, event_id, decode(hash, 'hex')
  FROM unnest(%(seqs)s::bigint[], %(ids)s::bigint[], %(hashes)s::text[]) x(seq, event_id, hash)

-- name: chained_audit
-- Links with their entries, in the order of the chain.
SELECT k.seq, k.event_id, k.hash, e.id, (extract(epoch FROM e.at) * 1000000)::bigint AS at, e.actor_kind, e.actor_id,
       e.actor_name, e.action, e.target_kind, e.target, e.tenant_id, e.before::text, e.after::text, e.reason,
       e.request_id, e.refused
  FROM audit_link k LEFT JOIN audit_event e ON e.id = k.event_id
 WHERE k.seq > %(after)s ORDER BY k.seq LIMIT %(limit)s

-- name: stray_audit
-- Entries without a link: those before the last chained one came from elsewhere; of the others, only those that should
-- have been chained long ago.
SELECT e.id, e.id < %(chained)s::bigint AS inserted FROM audit_event e
 WHERE NOT EXISTS (SELECT 1 FROM audit_link k WHERE k.event_id = e.id)
   AND (e.id < %(chained)s::bigint OR e.at < now() - make_interval(secs => %(patience_s)s::float8))
 ORDER BY e.id LIMIT %(limit)s

-- name: task_audit
-- What operators and submitters did to one task, oldest first.
SELECT at, actor_name, action, reason FROM audit_event
 WHERE target_kind = 'task' AND target = %(target)s AND NOT refused ORDER BY id
