-- name: cancel_lock_lease
-- The live lease of one task, locked before the task (the order of every statement that touches both).
SELECT task_id, session_id FROM lease WHERE task_id = %(task_id)s FOR NO KEY UPDATE

-- name: cancel_lock_task
-- The task, locked; its state is the newest one even where the lock had to wait.
SELECT id, state, pool_id, tenant_id, cancel_requested FROM task WHERE id = %(task_id)s FOR NO KEY UPDATE

-- name: cancel_waiting
-- A waiting task (locked before) is cancelled for good.
UPDATE task SET state = 6, finished_at = now(), queued_at = NULL, run_at = NULL, cancel_requested = true,
                cancel_reason = %(reason)s, reason = %(reason)s
 WHERE id = %(task_id)s AND state + 0 IN (0, 1, 3) RETURNING id

-- name: cancel_leased
-- A running task (lease and task locked before): every end from now on is `cancelled`, the agent is told.
WITH l AS (
    UPDATE lease SET directive = 2, directive_at = now() WHERE task_id = %(task_id)s
)
UPDATE task SET cancel_requested = true, cancel_reason = %(reason)s WHERE id = %(task_id)s AND state + 0 = 2 RETURNING id

-- name: requeue_dead
-- Dead tasks among these start a new life at the back of their lanes; the others are left alone. `before` is what they
-- died of. A deadline that has passed would kill them again at once, so it goes.
WITH k AS MATERIALIZED (
    SELECT id, reason, attempts, losses, handbacks, error, fingerprint, finished_at FROM task
     WHERE id = ANY (%(task_ids)s::bigint[]) AND state + 0 = 5 ORDER BY id FOR NO KEY UPDATE
)
UPDATE task t
   SET state = 1, enqueued_at = now(), queued_at = now(), run_at = NULL, finished_at = NULL,
       deadline = CASE WHEN t.deadline > now() THEN t.deadline END,
       attempts = 0, losses = 0, handbacks = 0, cancel_requested = false, cancel_reason = '',
       result = NULL, error = NULL, reason = '', fingerprint = ''
  FROM k WHERE t.id = k.id
RETURNING t.id, t.pool_id, t.tenant_id, k.reason, k.attempts, k.losses, k.handbacks, k.error, k.fingerprint,
          k.finished_at
