-- name: find_task
-- Where a task belongs: what decides who may see it.
SELECT id, pool_id, tenant_id FROM task WHERE id = %(task_id)s

-- name: ended_tasks
-- Which of these tasks are final.
SELECT id FROM task WHERE id = ANY(%(task_ids)s::bigint[]) AND state + 0 IN (4, 5, 6)

-- name: get_task
-- One task with its names, its lease (if one lives) and its age as of now.
SELECT t.id, t.type, t.state, t.payload, t.priority, t.key, t.cost_hint, t.run_at, t.created_at, t.enqueued_at,
       t.queued_at, t.finished_at, t.deadline, t.max_attempts, t.max_runtime_s, t.progress_timeout_s,
       t.starts + (e.delivered_at IS NOT NULL)::int AS starts,
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
SELECT attempt, token, worker_id, worker_name AS worker, granted_at, delivered_at, ended_at, outcome, counted, error, reason, cost, progress, late
  FROM attempt WHERE task_id = %(task_id)s ORDER BY id

-- name: task_pulse
-- What moves of one task while somebody looks at it: small enough to be read every second.
SELECT t.id, t.state, t.starts, t.attempts, t.losses, t.handbacks, t.priority, t.cancel_requested, t.run_at, t.finished_at,
       CASE WHEN t.state = 1 THEN greatest(0, extract(epoch FROM now() - t.queued_at))::float8 END AS queue_age_s,
       e.token, e.delivered_at, e.expires_at, e.renewed_at, e.progress_step, e.progress_fraction, e.progress_note,
       e.progress_cost, p.lease_ttl_s::float8 AS ttl_s, e.progress_timeout_s,
       extract(epoch FROM now() - coalesce(e.progress_at, e.delivered_at))::float8 AS progress_age_s,
       extract(epoch FROM now() - coalesce(e.renewed_at, e.delivered_at))::float8 AS renewed_age_s, w.name AS worker
  FROM task t
  JOIN pool p ON p.id = t.pool_id
  LEFT JOIN lease e ON e.task_id = t.id
  LEFT JOIN worker_session x ON x.id = e.session_id
  LEFT JOIN worker w ON w.id = x.worker_id
 WHERE t.id = %(task_id)s

-- name: task_picks
-- The entries of the decision ring that picked a task, newest first; a lease is granted inside its cycle, so the ring is
-- looked at around these times only (decision_at).
SELECT DISTINCT ON (d.id) d.id, d.cycle_no, d.at, d.assigned, x.pick ->> 'tier' AS tier, (x.pick ->> 'candidates')::int AS candidates,
       (x.pick ->> 'deficit')::bigint AS deficit, (x.pick ->> 'runner_up')::bigint AS runner_up,
       c.slug AS runner_class, n.slug AS runner_tenant
  FROM unnest(%(times)s::timestamptz[]) g(at)
  JOIN decision d ON d.pool_id = %(pool_id)s AND d.at BETWEEN g.at - interval '2 seconds' AND g.at + interval '2 seconds'
 CROSS JOIN LATERAL (SELECT e.pick FROM jsonb_array_elements(d.picks) e(pick) WHERE e.pick ->> 'task' = %(task_id)s::text LIMIT 1) x
  LEFT JOIN lane l ON l.id = (x.pick ->> 'runner_up')::bigint
  LEFT JOIN work_class c ON c.id = l.work_class_id
  LEFT JOIN tenant n ON n.id = l.tenant_id
 ORDER BY d.id DESC LIMIT 5
