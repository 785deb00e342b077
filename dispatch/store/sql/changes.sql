-- name: changes_horizon
-- Every task that ended before this time is visible by now: ends carry the start of their transaction, so the oldest
-- running one is the bound. One that has written nothing for a minute will not end a task any more.
SELECT least(now() - interval '100 milliseconds', min(a.xact_start)) AS horizon
  FROM pg_stat_activity a
 WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
   AND a.xact_start IS NOT NULL AND (a.backend_xid IS NOT NULL OR a.xact_start > now() - interval '1 minute')

-- name: list_changes
-- Ended tasks of some tenants (null: all) after a position, in the order in which they ended (task_finished).
SELECT t.id, t.state, t.type, t.key, t.reason, t.error, t.attempts, t.finished_at, n.slug AS tenant, c.slug AS class,
       p.slug AS pool
  FROM unnest(coalesce(%(tenants)s::bigint[], ARRAY(SELECT id FROM tenant))) x(tenant_id)
 CROSS JOIN LATERAL (
    SELECT * FROM task t
     WHERE t.tenant_id = x.tenant_id AND t.finished_at IS NOT NULL AND t.finished_at < %(horizon)s::timestamptz
       AND (t.finished_at, t.id) > (%(after)s::timestamptz, %(after_id)s::bigint)
       AND (%(pool_id)s::bigint IS NULL OR t.pool_id = %(pool_id)s)
     ORDER BY t.finished_at, t.id LIMIT %(limit)s
 ) t
  JOIN tenant n ON n.id = t.tenant_id JOIN work_class c ON c.id = t.work_class_id JOIN pool p ON p.id = t.pool_id
 ORDER BY t.finished_at, t.id LIMIT %(limit)s
