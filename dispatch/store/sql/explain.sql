-- name: explain_task
-- One task as the explanation needs it; times in microseconds.
SELECT t.id, t.state, t.pool_id, t.tenant_id, t.lane_id, t.type, t.cost_hint, t.last_worker_id, t.starts, t.reason,
       t.priority, t.enqueued_at, (extract(epoch FROM t.enqueued_at) * 1000000)::bigint AS enqueued,
       (extract(epoch FROM t.run_at) * 1000000)::bigint AS run_at, t.queued_at, t.created_at,
       coalesce(greatest(0, extract(epoch FROM now() - t.queued_at)), 0)::float8 AS waited_s,
       (extract(epoch FROM now()) * 1000000)::bigint AS now
  FROM task t WHERE t.id = %(task_id)s

-- name: explain_place
-- How many queued tasks of the lane start before and after one, counted up to a bound each.
SELECT (SELECT count(*) FROM (
            SELECT 1 FROM task t WHERE t.lane_id = %(lane_id)s AND t.state = 1
               AND (t.priority > %(priority)s OR (t.priority = %(priority)s
                    AND (t.enqueued_at, t.id) < (%(enqueued_at)s::timestamptz, %(task_id)s::bigint))) LIMIT %(bound)s) x)::int AS ahead,
       (SELECT count(*) FROM (
            SELECT 1 FROM task t WHERE t.lane_id = %(lane_id)s AND t.state = 1
               AND (t.priority < %(priority)s OR (t.priority = %(priority)s
                    AND (t.enqueued_at, t.id) > (%(enqueued_at)s::timestamptz, %(task_id)s::bigint))) LIMIT %(bound)s) x)::int AS behind

-- name: explain_rate
-- Starts per second of a class, from its newest samples.
SELECT coalesce(sum(dispatched) / greatest(1, extract(epoch FROM max(at) - min(at))), 0)::float8 AS starts_per_s
  FROM queue_sample
 WHERE step = 1 AND pool_id = %(pool_id)s AND class_id = %(class_id)s AND at > now() - interval '1 minute'

-- name: explain_names
-- The names of what an explanation speaks of; since when and why it is paused, where it is.
SELECT 'pool' AS kind, id, slug AS name, paused_at AS since, pause_reason AS why FROM pool WHERE id = %(pool_id)s
UNION ALL SELECT 'class', id, slug, paused_at, pause_reason FROM work_class WHERE id = ANY (%(class)s::bigint[])
UNION ALL SELECT 'tenant', id, slug, paused_at, pause_reason FROM tenant WHERE id = ANY (%(tenant)s::bigint[])
UNION ALL SELECT 'tool', id, slug, paused_at, pause_reason FROM tool WHERE id = ANY (%(tool)s::bigint[])
UNION ALL SELECT 'budget', id, slug, NULL, '' FROM budget WHERE id = ANY (%(budget)s::bigint[])
UNION ALL SELECT 'user', id, name, NULL, '' FROM tenant_user WHERE id = ANY (%(user)s::bigint[])
UNION ALL SELECT 'worker', id, name, NULL, '' FROM worker WHERE id = ANY (%(worker)s::bigint[])
