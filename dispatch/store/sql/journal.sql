-- name: lock_lease_for_checkpoint
-- One delivered lease under its token, and whose it is.
SELECT l.task_id, s.api_key_id, t.tenant_id, l.pool_id
  FROM lease l JOIN worker_session s ON s.id = l.session_id JOIN task t ON t.id = l.task_id
 WHERE l.task_id = %(task_id)s AND l.token = %(token)s AND l.delivered_at IS NOT NULL
   FOR NO KEY UPDATE OF l

-- name: journal_size
-- How much a task's journal holds: entries and bytes.
SELECT count(*)::int AS entries, coalesce(sum(octet_length(data::text)), 0)::bigint AS bytes
  FROM journal_entry WHERE task_id = %(task_id)s AND append

-- name: replace_checkpoint
-- A checkpoint that replaces takes the place of the one before; appended entries stay.
DELETE FROM journal_entry WHERE task_id = %(task_id)s AND NOT append

-- name: append_journal
-- Checkpoints of running or released tasks.
INSERT INTO journal_entry (task_id, token, data, append)
SELECT task_id, token, data::jsonb, append
  FROM unnest(%(task_ids)s::bigint[], %(tokens)s::bigint[], %(data)s::text[], %(append)s::bool[])
       x(task_id, token, data, append)

-- name: journal_newest
-- The newest entries of one task's journal, newest first; long ones cut, with how long they are.
SELECT id, at, append, left(data::text, %(chars)s) AS text, length(data::text) AS length
  FROM journal_entry WHERE task_id = %(task_id)s ORDER BY id DESC LIMIT %(limit)s

-- name: read_journals
-- The checkpoint journals of tasks, oldest entry first.
SELECT task_id, append, data FROM journal_entry WHERE task_id = ANY(%(task_ids)s::bigint[]) ORDER BY task_id, id
