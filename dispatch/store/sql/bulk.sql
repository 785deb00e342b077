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
    SELECT id, reason, attempts, losses, handbacks, error, fingerprint, finished_at FROM task
     WHERE id = ANY (%(task_ids)s::bigint[]) AND state + 0 = 5 ORDER BY id FOR NO KEY UPDATE
)
UPDATE task t SET state = 6, finished_at = now(), cancel_requested = true, cancel_reason = %(reason)s::text, reason = %(reason)s::text
  FROM k WHERE t.id = k.id
RETURNING t.id, t.pool_id, t.tenant_id, k.reason, k.attempts, k.losses, k.handbacks, k.error, k.fingerprint, k.finished_at

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

-- name: bulk_breakdown
-- What the frozen tasks of a job are now, by class and tenant: counted over the first `limit` of them. `verdict` is empty
-- for those that can be acted on; `late` ones have a deadline that has passed, `stopped` ones belong to something paused.
SELECT c.slug AS class, n.slug AS tenant, x.verdict, count(*)::int AS count,
       count(*) FILTER (WHERE x.deadline < now())::int AS late,
       count(*) FILTER (WHERE c.paused OR n.paused OR p.paused)::int AS stopped
  FROM (SELECT t.work_class_id, t.tenant_id, t.pool_id, t.deadline,
               CASE WHEN %(action)s::text <> 'cancel' AND t.state <> 5 THEN 'not dead any more'
                    WHEN %(action)s::text = 'cancel' AND t.state > 3 THEN 'over already'
                    WHEN %(action)s::text = 'cancel' AND t.cancel_requested THEN 'asked to stop already'
                    ELSE '' END AS verdict
          FROM (SELECT task_id FROM bulk_item WHERE job_id = %(id)s ORDER BY task_id LIMIT %(limit)s) i
          JOIN task t ON t.id = i.task_id) x
  JOIN work_class c ON c.id = x.work_class_id
  JOIN tenant n ON n.id = x.tenant_id
  JOIN pool p ON p.id = x.pool_id
 GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3

-- name: bulk_first
-- The first tasks of a job in the order in which they are taken: its canary.
SELECT t.id, t.type, c.slug AS class, n.slug AS tenant, t.finished_at, t.attempts, t.state
  FROM (SELECT task_id FROM bulk_item WHERE job_id = %(id)s ORDER BY task_id LIMIT %(limit)s) i
  JOIN task t ON t.id = i.task_id
  JOIN work_class c ON c.id = t.work_class_id
  JOIN tenant n ON n.id = t.tenant_id
 ORDER BY t.id

-- name: bulk_pace_now
-- What classes do just now: starts a second over the last five minutes, and how long their latest attempts ran.
SELECT c.slug AS class, count(*)::float8 / 300 AS starts_per_s,
       avg(extract(epoch FROM a.ended_at - a.delivered_at)) FILTER (WHERE a.delivered_at IS NOT NULL)::float8 AS runtime_s
  FROM attempt a JOIN lane l ON l.id = a.lane_id JOIN work_class c ON c.id = l.work_class_id
 WHERE a.ended_at > now() - interval '5 minutes' AND c.slug = ANY (%(classes)s::text[])
 GROUP BY 1

-- name: bulk_results
-- What became of the tasks of a job, in order, after a task.
SELECT i.task_id, c.slug AS class, n.slug AS tenant, t.type, i.state AS item, t.state, i.reason
  FROM bulk_item i
  LEFT JOIN task t ON t.id = i.task_id
  LEFT JOIN work_class c ON c.id = t.work_class_id
  LEFT JOIN tenant n ON n.id = t.tenant_id
 WHERE i.job_id = %(id)s AND i.task_id > %(after)s ORDER BY i.task_id LIMIT %(limit)s

-- name: undo_requeued
-- Requeued tasks of a job that nobody has started since are what they were before, by the audit's word; their number.
WITH k AS MATERIALIZED (
    SELECT t.id, t.tenant_id FROM task t
     WHERE t.id IN (SELECT task_id FROM bulk_item WHERE job_id = %(id)s AND state = 1) AND t.state + 0 = 1
       AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.task_id = t.id AND a.ended_at >= t.enqueued_at)
     ORDER BY t.id LIMIT %(limit)s FOR NO KEY UPDATE
), b AS (
    SELECT k.id, k.tenant_id,
           (SELECT e.before FROM audit_event e WHERE e.target_kind = 'task' AND e.target = k.id::text
               AND e.action = 'requeue' AND (e.after ->> 'bulk')::bigint = %(id)s ORDER BY e.id DESC LIMIT 1) AS was
      FROM k
), u AS (
    UPDATE task t
       SET state = 5, queued_at = NULL, finished_at = coalesce((b.was ->> 'finished_at')::timestamptz, now()),
           reason = b.was ->> 'reason', attempts = (b.was ->> 'attempts')::smallint, losses = (b.was ->> 'losses')::smallint,
           handbacks = (b.was ->> 'handbacks')::int, error = b.was -> 'error', fingerprint = b.was ->> 'fingerprint'
      FROM b WHERE t.id = b.id AND b.was IS NOT NULL AND t.state + 0 = 1
    RETURNING t.id, t.tenant_id
), i AS (
    UPDATE bulk_item i SET state = 2, reason = 'taken back before it started' FROM u
     WHERE i.job_id = %(id)s AND i.task_id = u.id
), j AS (
    UPDATE bulk_job j SET done = j.done - (SELECT count(*) FROM u), skipped = j.skipped + (SELECT count(*) FROM u)
     WHERE j.id = %(id)s
)
INSERT INTO audit_event (at, actor_kind, actor_id, actor_name, action, target_kind, target, tenant_id, before, after, reason)
SELECT now(), %(actor_kind)s, %(actor_id)s, %(actor_name)s, 'undo_requeue', 'task', u.id::text, u.tenant_id,
       '{"state": "queued"}'::jsonb, jsonb_build_object('state', 'dead', 'bulk', %(id)s::bigint), %(reason)s
  FROM u
