-- name: lock_edited
-- One task, locked, with what an edit may change.
SELECT id, state, pool_id, tenant_id, priority, run_at, deadline, max_attempts, max_runtime_s, progress_timeout_s,
       cost_hint / 1000000.0::float8 AS cost FROM task WHERE id = %(task_id)s FOR NO KEY UPDATE

-- name: edit_task
-- An edit of a waiting task (locked before): the fields named in `given` get their new values; a time to start decides
-- between scheduled and queued, a hold comes before both. A task that stays queued keeps its queue age. One that was
-- handed back too often may be handed back as often again.
WITH n AS (
    SELECT id, CASE WHEN 'run_at' = ANY (%(given)s::text[]) THEN %(run_at)s::timestamptz ELSE run_at END AS run_at,
           CASE WHEN %(held)s::bool IS NULL THEN state = 3 ELSE %(held)s::bool END AS held
      FROM task WHERE id = %(task_id)s
), s AS (
    SELECT id, run_at, CASE WHEN held THEN 3 WHEN run_at > now() THEN 0 ELSE 1 END AS state FROM n
)
UPDATE task t
   SET state = s.state, run_at = s.run_at, queued_at = CASE WHEN s.state = 1 THEN coalesce(t.queued_at, now()) END,
       reason = CASE WHEN s.state = 3 AND t.state <> 3 THEN %(reason)s::text WHEN s.state <> 3 AND t.state = 3 THEN ''
                     ELSE t.reason END,
       handbacks = CASE WHEN s.state <> 3 AND t.state = 3 AND t.reason = 'max_handbacks' THEN 0 ELSE t.handbacks END,
       priority = CASE WHEN 'priority' = ANY (%(given)s::text[]) THEN %(priority)s::smallint ELSE t.priority END,
       payload = CASE WHEN 'payload' = ANY (%(given)s::text[]) THEN %(payload)s::jsonb ELSE t.payload END,
       cost_hint = CASE WHEN 'cost' = ANY (%(given)s::text[]) THEN %(cost)s::bigint ELSE t.cost_hint END,
       deadline = CASE WHEN 'deadline' = ANY (%(given)s::text[]) THEN %(deadline)s::timestamptz ELSE t.deadline END,
       max_attempts = CASE WHEN 'max_attempts' = ANY (%(given)s::text[]) THEN %(max_attempts)s::smallint
                           ELSE t.max_attempts END,
       max_runtime_s = CASE WHEN 'max_runtime_s' = ANY (%(given)s::text[]) THEN %(max_runtime_s)s::float8
                            ELSE t.max_runtime_s END,
       progress_timeout_s = CASE WHEN 'progress_timeout_s' = ANY (%(given)s::text[]) THEN %(progress_timeout_s)s::float8
                                 ELSE t.progress_timeout_s END
  FROM s WHERE t.id = s.id
RETURNING t.id, t.state, t.priority, t.run_at, t.deadline, t.max_attempts, t.max_runtime_s, t.progress_timeout_s,
          t.cost_hint / 1000000.0::float8 AS cost
