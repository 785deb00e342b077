-- name: insert_bulk
-- A new job; its tasks are frozen in the same transaction.
INSERT INTO bulk_job (action, filter, state, reason, actor_kind, actor_id, actor_name, tenant_ids, pool_id, rate_per_s,
                      max_in_flight, canary, stop_above)
VALUES (%(action)s, %(filter)s::jsonb, 'dry_run', %(reason)s, %(actor_kind)s, %(actor_id)s, %(actor_name)s,
        %(tenant_ids)s::bigint[], %(pool_id)s, %(rate_per_s)s, %(max_in_flight)s, %(canary)s, %(stop_above)s)
RETURNING id

-- name: count_frozen
-- How many tasks the job has frozen.
UPDATE bulk_job SET matched = (SELECT count(*) FROM bulk_item WHERE job_id = %(id)s) WHERE id = %(id)s

-- name: get_bulk
-- One job.
SELECT * FROM bulk_job WHERE id = %(id)s

-- name: lock_bulk
-- One job, locked against its execution and other commands.
SELECT * FROM bulk_job WHERE id = %(id)s FOR UPDATE

-- name: list_bulk
-- Jobs newest first; `tenants` narrows to jobs that touch these tenants only.
SELECT * FROM bulk_job
 WHERE id < %(below)s AND (%(tenants)s::bigint[] IS NULL OR tenant_ids <@ %(tenants)s::bigint[])
   AND (%(pool_id)s::bigint IS NULL OR pool_id = %(pool_id)s)
 ORDER BY id DESC LIMIT %(limit)s

-- name: bulk_skipped
-- The tasks that a job skipped, and why.
SELECT task_id, reason FROM bulk_item WHERE job_id = %(id)s AND state = 2 ORDER BY task_id LIMIT %(limit)s

-- name: start_bulk
-- A frozen job starts, with another pace or reason where given.
UPDATE bulk_job
   SET state = %(state)s, started_at = now(), paced_at = now(), new = %(new)s, reason = %(reason)s,
       rate_per_s = %(rate_per_s)s, max_in_flight = %(max_in_flight)s, canary = %(canary)s, stop_above = %(stop_above)s,
       actor_kind = %(actor_kind)s, actor_id = %(actor_id)s, actor_name = %(actor_name)s
 WHERE id = %(id)s

-- name: set_bulk_state
-- A command on a job (locked before): pause, resume, abort.
UPDATE bulk_job
   SET state = %(state)s::text, resumes = CASE WHEN %(state)s::text = 'paused' THEN state ELSE resumes END,
       paced_at = now(), note = %(note)s, finished_at = CASE WHEN %(state)s::text = 'aborted' THEN now() END
 WHERE id = %(id)s

-- name: bulk_active
-- Jobs that have something to do.
SELECT id FROM bulk_job WHERE state IN ('running', 'canary') ORDER BY id

-- name: lock_bulk_active
-- A job that runs, locked; none while somebody else has it in hand.
SELECT *, (extract(epoch FROM now() - paced_at) * 1000000)::bigint AS elapsed
  FROM bulk_job WHERE id = %(id)s AND state IN ('running', 'canary') FOR UPDATE SKIP LOCKED

-- name: settle_bulk_items
-- What became of the tasks that moved: ended well, or dead again.
WITH k AS (
    SELECT i.id, t.state FROM bulk_item i JOIN task t ON t.id = i.task_id
     WHERE i.job_id = %(id)s AND i.state = 1 AND t.state IN (4, 5, 6) LIMIT %(limit)s
), u AS (
    UPDATE bulk_item i SET state = CASE WHEN k.state = 5 THEN 4 ELSE 3 END FROM k WHERE i.id = k.id RETURNING i.state
)
UPDATE bulk_job j
   SET well = j.well + (SELECT count(*) FROM u WHERE state = 3), again = j.again + (SELECT count(*) FROM u WHERE state = 4)
 WHERE j.id = %(id)s RETURNING well, again

-- name: take_bulk_items
-- The next tasks of a job (locked before).
SELECT task_id FROM bulk_item WHERE job_id = %(id)s AND state = 0 ORDER BY task_id LIMIT %(limit)s

-- name: mark_bulk_items
-- What was done with them: a reason means skipped.
UPDATE bulk_item i SET state = CASE WHEN x.reason = '' THEN 1 ELSE 2 END, reason = x.reason
  FROM unnest(%(task_ids)s::bigint[], %(reasons)s::text[]) x(task_id, reason)
 WHERE i.job_id = %(id)s AND i.task_id = x.task_id AND i.state = 0

-- name: advance_bulk
-- The job after one step.
UPDATE bulk_job
   SET state = %(state)s::text, done = done + %(done)s, skipped = skipped + %(skipped)s, credit = %(credit)s, paced_at = now(),
       note = %(note)s, finished_at = CASE WHEN %(state)s::text IN ('done', 'stopped') THEN now() END
 WHERE id = %(id)s

-- name: discard_dead
-- Dead tasks among these are given up for good: cancelled, with the reason; the others are left alone.
WITH k AS MATERIALIZED (
    SELECT id, reason, attempts, error, fingerprint FROM task
     WHERE id = ANY (%(task_ids)s::bigint[]) AND state + 0 = 5 ORDER BY id FOR NO KEY UPDATE
)
UPDATE task t SET state = 6, finished_at = now(), cancel_requested = true, cancel_reason = %(reason)s::text, reason = %(reason)s::text
  FROM k WHERE t.id = k.id
RETURNING t.id, t.pool_id, t.tenant_id, k.reason, k.attempts, 0 AS losses, 0 AS handbacks, k.error, k.fingerprint

-- name: insert_audit_tasks
-- One entry for each of many tasks.
INSERT INTO audit_event (at, actor_kind, actor_id, actor_name, action, target_kind, target, tenant_id, before, after, reason)
SELECT now(), %(actor_kind)s, %(actor_id)s, %(actor_name)s, %(action)s, 'task', x.target, x.tenant_id, x.before::jsonb,
       %(after)s::jsonb, %(reason)s
  FROM unnest(%(targets)s::text[], %(tenant_ids)s::bigint[], %(befores)s::text[]) x(target, tenant_id, before)

-- name: dead_groups
-- Dead letters by what they died of, the largest groups first.
SELECT * FROM (
    SELECT t.fingerprint, t.reason, count(*)::bigint AS count, min(t.finished_at) AS first_at, max(t.finished_at) AS last_at,
           count(*) FILTER (WHERE t.finished_at > now() - interval '1 hour')::bigint AS new_1h,
           max(t.id) AS newest, max(t.error ->> 'message') AS message, array_agg(DISTINCT t.type) AS types
      FROM task t
     WHERE t.state = 5 AND (%(tenants)s::bigint[] IS NULL OR t.tenant_id = ANY (%(tenants)s::bigint[]))
       AND (%(pool_id)s::bigint IS NULL OR t.pool_id = %(pool_id)s)
     GROUP BY 1, 2
) g
 WHERE %(count)s::bigint IS NULL OR g.count < %(count)s
    OR (g.count = %(count)s AND (g.fingerprint, g.reason) > (%(fingerprint)s, %(reason)s))
 ORDER BY g.count DESC, g.fingerprint, g.reason LIMIT %(limit)s
