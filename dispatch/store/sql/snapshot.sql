-- name: snapshot_policy
-- The database's clock in microseconds and the whole policy of a pool as JSON texts, in one statement: the reader only
-- parses what has changed. An ended pause is none. Tenants' and tools' limits hold per pool, their pauses everywhere;
-- of users only those that differ from the default (weight 1, the tenant's maximum), and tenants' own maxima in classes.
SELECT (extract(epoch FROM now()) * 1000000)::bigint AS now,
       (SELECT row_to_json(x)::text FROM (
        SELECT p.slug, p.policy, p.budget, p.promotion_slots, p.user_max, p.max_task_cost, p.debt_halflife_s,
               p.reclaim_min_runtime_s, p.reclaim_dead_zone, p.reclaim_per_round, p.offer_ttl_s, p.lease_ttl_s,
               p.cost_unit, EXISTS (SELECT 1 FROM budget WHERE archived_at IS NULL) AS budgets,
               p.paused AND (p.paused_until IS NULL OR p.paused_until > now()) AS paused
          FROM pool p WHERE p.id = %(pool_id)s) x) AS pool,
       (SELECT json_agg(x)::text FROM (
        SELECT id, weight, min, max, lend, level, aging_step_s, max_wait_s, default_cost, preempt,
               paused AND (paused_until IS NULL OR paused_until > now()) AS paused
          FROM work_class WHERE pool_id = %(pool_id)s ORDER BY id) x) AS classes,
       (SELECT json_agg(x)::text FROM (
        SELECT id, weight, nominal, max, borrow, user_max,
               paused AND (paused_until IS NULL OR paused_until > now()) AS paused
          FROM tenant ORDER BY id) x) AS tenants,
       (SELECT json_agg(x)::text FROM (
        SELECT tenant_id, id AS user_id, NULL::bigint AS class_id, weight, max FROM tenant_user
         WHERE weight <> 1 OR max IS NOT NULL
        UNION ALL SELECT tenant_id, NULL, work_class_id, 1, max FROM tenant_class WHERE max IS NOT NULL) x) AS users,
       (SELECT json_agg(x)::text FROM (
        SELECT id, max, (extract(epoch FROM cooldown_until) * 1000000)::bigint AS cooldown_until,
               paused AND (paused_until IS NULL OR paused_until > now()) AS paused
          FROM tool ORDER BY id) x) AS tools

-- name: snapshot_sessions
-- Sessions that count as capacity (called within the TTL, or a parked claim whose web process pulses) with what they
-- ask for now: their claims add up, minus offers not yet picked up, cut to the free slots.
WITH d AS (
    SELECT d.session_id, sum(d.wanted) AS wanted FROM demand d LEFT JOIN process p ON p.id = d.process_id
     WHERE d.pool_id = %(pool_id)s AND d.until > now()
       AND (d.process_id IS NULL OR p.beat_at > now() - interval '3 seconds')
     GROUP BY d.session_id
), l AS (
    SELECT session_id, count(*) AS leases, count(*) FILTER (WHERE delivered_at IS NULL) AS offered, sum(charged) AS load
      FROM lease WHERE pool_id = %(pool_id)s GROUP BY session_id
)
SELECT s.id, s.worker_id, s.capset_id, s.tenant_id, s.slots, w.weight, w.deficit, coalesce(l.load, 0)::bigint AS load,
       greatest(0, least(coalesce(d.wanted, 0) - coalesce(l.offered, 0), s.slots - coalesce(l.leases, 0)))::int AS free
  FROM worker_session s JOIN worker w ON w.id = s.worker_id
  LEFT JOIN d ON d.session_id = s.id LEFT JOIN l ON l.session_id = s.id
 WHERE s.pool_id = %(pool_id)s AND s.closed_at IS NULL
   AND (d.session_id IS NOT NULL OR s.last_seen_at > now() - make_interval(secs => %(lease_ttl_s)s))
   AND NOT w.draining AND NOT w.quarantined AND NOT (w.paused AND (w.paused_until IS NULL OR w.paused_until > now()))
 ORDER BY s.id

-- name: snapshot_loads
-- What runs, counted per lane from live leases, offers included.
SELECT lane_id, count(*)::int AS running, (count(*) FILTER (WHERE promoted))::int AS promoted,
       (count(*) FILTER (WHERE directive = 1))::int AS yielding
  FROM lease WHERE pool_id = %(pool_id)s GROUP BY lane_id ORDER BY lane_id

-- name: snapshot_heads
-- Active lanes by skip scan over the index of queued tasks, each with its first tasks in start order: cost grows with
-- the lanes that have work, not with the backlog, and no lane hides another one.
WITH RECURSIVE active AS (
    (SELECT lane_id FROM task WHERE state = 1 ORDER BY lane_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.lane_id FROM task t WHERE t.state = 1 AND t.lane_id > a.lane_id ORDER BY t.lane_id LIMIT 1)
      FROM active a WHERE a.lane_id IS NOT NULL
)
SELECT a.lane_id, h.id, h.enqueued_at, h.cost_hint, h.type, h.last_worker_id, h.again
  FROM active a JOIN lane n ON n.id = a.lane_id AND n.pool_id = %(pool_id)s
 CROSS JOIN LATERAL (
    SELECT t.id, (extract(epoch FROM t.enqueued_at) * 1000000)::bigint AS enqueued_at, t.cost_hint, t.type,
           t.last_worker_id, t.losses = 1 AND t.last_outcome IN (2, 3) AS again
      FROM task t WHERE t.lane_id = a.lane_id AND t.state = 1
     ORDER BY t.priority DESC, t.enqueued_at, t.id LIMIT %(heads)s
 ) h

-- name: snapshot_more_heads
-- More heads of lanes whose first ones were not enough.
SELECT n.lane_id, h.id, h.enqueued_at, h.cost_hint, h.type, h.last_worker_id, h.again
  FROM unnest(%(lane_ids)s::bigint[]) n(lane_id)
 CROSS JOIN LATERAL (
    SELECT t.id, (extract(epoch FROM t.enqueued_at) * 1000000)::bigint AS enqueued_at, t.cost_hint, t.type,
           t.last_worker_id, t.losses = 1 AND t.last_outcome IN (2, 3) AS again
      FROM task t WHERE t.lane_id = n.lane_id AND t.state = 1
     ORDER BY t.priority DESC, t.enqueued_at, t.id LIMIT %(heads)s
 ) h

-- name: snapshot_oldest
-- The oldest startable task of each active lane, wanted only where age decides. Age is that of `enqueued_at`: a task
-- that was reclaimed, retried, released or preempted keeps it. One probe per priority in use, of the same index.
SELECT n.lane_id, o.id, (extract(epoch FROM o.enqueued_at) * 1000000)::bigint AS enqueued_at, o.cost_hint, o.type,
       o.last_worker_id
  FROM unnest(%(lane_ids)s::bigint[]) n(lane_id)
 CROSS JOIN LATERAL (
    WITH RECURSIVE first AS (
        (SELECT t.id, t.priority, t.enqueued_at, t.cost_hint, t.type, t.last_worker_id
           FROM task t WHERE t.lane_id = n.lane_id AND t.state = 1
          ORDER BY t.priority DESC, t.enqueued_at, t.id LIMIT 1)
        UNION ALL
        SELECT l.* FROM first CROSS JOIN LATERAL (
            SELECT t.id, t.priority, t.enqueued_at, t.cost_hint, t.type, t.last_worker_id
              FROM task t WHERE t.lane_id = n.lane_id AND t.state = 1 AND t.priority < first.priority
             ORDER BY t.priority DESC, t.enqueued_at, t.id LIMIT 1
        ) l
    )
    SELECT * FROM first ORDER BY enqueued_at, id LIMIT 1
 ) o

-- name: snapshot_depths
-- How much each lane has queued: folded counts plus what the triggers appended since.
SELECT lane_id, sum(queued)::bigint AS queued FROM (
    SELECT lane_id, queued FROM lane_depth WHERE lane_id = ANY(%(lane_ids)s::bigint[])
    UNION ALL
    SELECT lane_id, queued FROM lane_delta WHERE lane_id = ANY(%(lane_ids)s::bigint[])
) x GROUP BY lane_id

-- name: snapshot_lanes
-- What never changes about lanes.
SELECT a.id, a.work_class_id, a.tenant_id, a.user_id, c.names, a.tools
  FROM lane a JOIN capset c ON c.id = a.capset_id WHERE a.id = ANY(%(lane_ids)s::bigint[])

-- name: snapshot_capsets
-- Capability sets by id.
SELECT id, names FROM capset WHERE id = ANY(%(capset_ids)s::bigint[])

-- name: snapshot_overruns
-- Running tasks that have cost a tenth (and a unit) more than they were charged (time counts where time is the cost,
-- what agents report counts everywhere), locked so that none can end before
-- the new charge is written.
SELECT l.task_id, l.lane_id, l.session_id, (extract(epoch FROM l.delivered_at) * 1000000)::bigint AS started_at,
       l.charged, l.directive <> 0 AS yielding, x.cost
  FROM lease l CROSS JOIN LATERAL (SELECT greatest(
            CASE WHEN %(by_time)s::bool THEN (extract(epoch FROM now() - l.delivered_at) * 1000000)::bigint END,
            l.progress_cost) AS cost) x
 WHERE l.pool_id = %(pool_id)s AND l.delivered_at IS NOT NULL
   AND x.cost > l.charged + l.charged / 10 + 1000000
 ORDER BY l.task_id LIMIT %(limit)s FOR NO KEY UPDATE OF l SKIP LOCKED

-- name: snapshot_yieldable
-- Running tasks of the given classes that may be asked to yield, youngest first; locked like overruns, since the plan
-- charges theirs as well.
SELECT l.task_id, l.lane_id, l.session_id, (extract(epoch FROM l.delivered_at) * 1000000)::bigint AS started_at,
       l.charged, l.directive <> 0 AS yielding, (extract(epoch FROM now() - l.delivered_at) * 1000000)::bigint AS cost
  FROM lease l JOIN lane a ON a.id = l.lane_id
 WHERE l.pool_id = %(pool_id)s AND l.delivered_at IS NOT NULL AND a.work_class_id = ANY(%(class_ids)s::bigint[])
 ORDER BY l.delivered_at DESC, l.task_id LIMIT %(limit)s FOR NO KEY UPDATE OF l SKIP LOCKED
