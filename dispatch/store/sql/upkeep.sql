-- name: fold_lane_deltas
-- Move appended changes of lane counts into the folded counts. One folder at a time: the deleted rows are its own.
WITH g AS (
    DELETE FROM lane_delta WHERE id IN (SELECT id FROM lane_delta ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
    RETURNING lane_id, queued, scheduled, held, dead
), x AS (
    SELECT lane_id, sum(queued) AS queued, sum(scheduled) AS scheduled, sum(held) AS held, sum(dead) AS dead
      FROM g GROUP BY lane_id ORDER BY lane_id
)
INSERT INTO lane_depth AS d (lane_id, queued, scheduled, held, dead)
SELECT lane_id, queued, scheduled, held, dead FROM x ORDER BY lane_id
ON CONFLICT (lane_id) DO UPDATE
   SET queued = d.queued + excluded.queued, scheduled = d.scheduled + excluded.scheduled,
       held = d.held + excluded.held, dead = d.dead + excluded.dead

-- name: close_silent_sessions
-- Sessions end 24 h after their last call, unless they still hold leases.
WITH k AS MATERIALIZED (
    SELECT s.id FROM worker_session s
     WHERE s.closed_at IS NULL AND s.last_seen_at < now() - interval '24 hours'
       AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.session_id = s.id)
     ORDER BY s.id LIMIT 1000 FOR NO KEY UPDATE OF s SKIP LOCKED
)
UPDATE worker_session s SET closed_at = now() FROM k WHERE s.id = k.id

-- name: drop_dead_demand
-- Parked claims past their time, and those of web processes without a pulse.
DELETE FROM demand d
 WHERE d.until < now() - interval '5 seconds'
    OR (d.process_id IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM process p WHERE p.id = d.process_id AND p.beat_at > now() - interval '10 seconds'))

-- name: drop_stale_processes
-- Pulses that stopped: an hour for most, a day for web ones (reclaim asks when there was one).
DELETE FROM process WHERE beat_at < now() - CASE WHEN kind = 'web' THEN interval '1 day' ELSE interval '1 hour' END

-- name: drop_old_decisions
-- The decision record is a ring of an hour.
DELETE FROM decision WHERE id IN (
    SELECT id FROM decision WHERE at < now() - interval '1 hour' ORDER BY id LIMIT 5000)

-- name: drop_old_idempotency_keys
-- Answers to Idempotency-Keys are kept for 24 h.
DELETE FROM idempotency_key WHERE id IN (
    SELECT id FROM idempotency_key WHERE created_at < now() - interval '24 hours' ORDER BY id LIMIT 5000)

-- name: drop_orphan_settlements
-- Settlements of pools that nobody dispatches any more.
DELETE FROM settlement s WHERE NOT EXISTS (SELECT 1 FROM pool p WHERE p.id = s.pool_id AND p.archived_at IS NULL)

-- name: end_pauses_pool
-- Pauses that ran out are taken off; `paused_until` stays, since queue ages count from the end of a pause.
WITH k AS (SELECT id, paused_until FROM pool WHERE paused AND paused_until <= now() ORDER BY id FOR NO KEY UPDATE)
UPDATE pool x SET paused = false, paused_at = NULL, paused_by = '', pause_reason = ''
  FROM k WHERE x.id = k.id RETURNING x.id

-- name: end_pauses_class
-- The same for classes.
WITH k AS (SELECT id FROM work_class WHERE paused AND paused_until <= now() ORDER BY id FOR NO KEY UPDATE)
UPDATE work_class x SET paused = false, paused_at = NULL, paused_by = '', pause_reason = ''
  FROM k WHERE x.id = k.id RETURNING x.id

-- name: end_pauses_tenant
-- The same for tenants.
WITH k AS (SELECT id FROM tenant WHERE paused AND paused_until <= now() ORDER BY id FOR NO KEY UPDATE)
UPDATE tenant x SET paused = false, paused_at = NULL, paused_by = '', pause_reason = ''
  FROM k WHERE x.id = k.id RETURNING x.id

-- name: end_pauses_tool
-- The same for tools.
WITH k AS (SELECT id FROM tool WHERE paused AND paused_until <= now() ORDER BY id FOR NO KEY UPDATE)
UPDATE tool x SET paused = false, paused_at = NULL, paused_by = '', pause_reason = ''
  FROM k WHERE x.id = k.id RETURNING x.id

-- name: end_pauses_worker
-- The same for workers.
WITH k AS (SELECT id FROM worker WHERE paused AND paused_until <= now() ORDER BY id FOR NO KEY UPDATE)
UPDATE worker x SET paused = false, paused_at = NULL, paused_by = '', pause_reason = ''
  FROM k WHERE x.id = k.id RETURNING x.id

-- name: broken_leases
-- I1: a task is leased exactly when one lease names it. One look at a task per lease: a join might read all tasks.
SELECT count(*)::int FROM lease l WHERE (SELECT t.state FROM task t WHERE t.id = l.task_id) IS DISTINCT FROM 2

-- name: orphan_tasks
-- I1, the other way: leased tasks without a lease, among those that moved lately.
SELECT count(*)::int FROM task t
 WHERE t.state = 2 AND t.id > (SELECT coalesce(max(id), 0) - %(window)s FROM task)
   AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.task_id = t.id)

-- name: drifted_lanes
-- I2: the counts kept of lanes against the rows themselves, in each state that is counted; how many lanes differ.
-- Queued tasks are counted lane by lane up to a bound. Of the other states all rows are read in the order of their own
-- index, and a state with more rows than the bound is left out.
WITH said AS MATERIALIZED (
    SELECT lane_id, sum(queued) AS queued, sum(scheduled) AS scheduled, sum(held) AS held, sum(dead) AS dead
      FROM (SELECT lane_id, queued, scheduled, held, dead FROM lane_depth
            UNION ALL SELECT lane_id, queued, scheduled, held, dead FROM lane_delta) d
     GROUP BY lane_id
), scheduled AS MATERIALIZED (
    SELECT lane_id FROM task WHERE state = 0 ORDER BY pool_id, run_at LIMIT %(bound)s
), held AS MATERIALIZED (
    SELECT lane_id FROM task WHERE state = 3 ORDER BY pool_id, id LIMIT %(bound)s
), dead AS MATERIALIZED (
    SELECT lane_id FROM task WHERE state = 5 ORDER BY finished_at, id LIMIT %(bound)s
), whole AS (
    SELECT (SELECT count(*) FROM scheduled) < %(bound)s AS scheduled, (SELECT count(*) FROM held) < %(bound)s AS held,
           (SELECT count(*) FROM dead) < %(bound)s AS dead
), rows AS (
    SELECT lane_id, sum(s) AS scheduled, sum(h) AS held, sum(d) AS dead
      FROM (SELECT lane_id, 1 AS s, 0 AS h, 0 AS d FROM scheduled UNION ALL SELECT lane_id, 0, 1, 0 FROM held
            UNION ALL SELECT lane_id, 0, 0, 1 FROM dead) x GROUP BY lane_id
)
SELECT count(*)::int FROM (
    SELECT y.lane_id FROM (
        SELECT said.lane_id, said.queued,
               (SELECT count(*) FROM (SELECT 1 FROM task t WHERE t.lane_id = said.lane_id AND t.state = 1 LIMIT %(deep)s) x
               ) AS rows
          FROM said
    ) y WHERE y.rows < %(deep)s AND y.queued <> y.rows
    UNION
    SELECT lane_id FROM said FULL JOIN rows USING (lane_id) CROSS JOIN whole
     WHERE whole.scheduled AND coalesce(said.scheduled, 0) <> coalesce(rows.scheduled, 0)
        OR whole.held AND coalesce(said.held, 0) <> coalesce(rows.held, 0)
        OR whole.dead AND coalesce(said.dead, 0) <> coalesce(rows.dead, 0)
) z
