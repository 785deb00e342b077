-- name: find_task
-- Where a task belongs: what decides who may see it.
SELECT id, pool_id, tenant_id FROM task WHERE id = %(task_id)s

-- name: get_task
-- One task with its names, its lease (if one lives) and its age as of now.
SELECT t.id, t.type, t.state, t.payload, t.priority, t.key, t.cost_hint, t.run_at, t.created_at, t.enqueued_at,
       t.queued_at, t.finished_at, t.deadline, t.max_attempts, t.max_runtime_s, t.progress_timeout_s, t.starts,
       t.attempts, t.losses, t.handbacks, t.cancel_requested, t.result, t.error, t.reason, t.fingerprint, t.lane_id,
       t.tenant_id, p.slug AS pool, c.slug AS class, n.slug AS tenant, u.name AS "user", s.names AS capabilities,
       ARRAY(SELECT o.slug FROM tool o WHERE o.id = ANY (l.tools) ORDER BY 1) AS tools,
       coalesce(t.max_attempts, c.max_attempts) AS attempts_allowed,
       CASE WHEN t.state = 1 THEN greatest(0, extract(epoch FROM now() - t.queued_at))::float8 END AS queue_age_s,
       e.token, e.granted_at, e.delivered_at, e.expires_at, e.attempt AS lease_attempt, e.directive, e.progress_at,
       e.progress_step, e.progress_fraction, e.progress_note, w.name AS worker, w.id AS worker_id
  FROM task t
  JOIN lane l ON l.id = t.lane_id
  JOIN pool p ON p.id = t.pool_id
  JOIN work_class c ON c.id = t.work_class_id
  JOIN tenant n ON n.id = t.tenant_id
  JOIN tenant_user u ON u.id = l.user_id
  JOIN capset s ON s.id = l.capset_id
  LEFT JOIN lease e ON e.task_id = t.id
  LEFT JOIN worker_session x ON x.id = e.session_id
  LEFT JOIN worker w ON w.id = x.worker_id
 WHERE t.id = %(task_id)s

-- name: task_attempts
-- Every ended attempt of one task, in order.
SELECT attempt, worker_name AS worker, granted_at, delivered_at, ended_at, outcome, counted, error, reason, cost, progress, late
  FROM attempt WHERE task_id = %(task_id)s ORDER BY id
