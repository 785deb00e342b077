-- name: numbers_pool
-- The pool, its leader and the database's clock; `policy_version` grows with every edit of anything.
SELECT now() AS at, p.id, p.slug, p.budget, l.epoch, l.cycle_ms, extract(epoch FROM now() - l.beat_at)::float8 AS beat_age_s,
       (p.version + (SELECT coalesce(sum(version), 0) FROM work_class) + (SELECT coalesce(sum(version), 0) FROM tenant)
        + (SELECT coalesce(sum(version), 0) FROM tool))::bigint AS policy_version
  FROM pool p LEFT JOIN pool_leader l ON l.pool_id = p.id
 WHERE p.slug = %(slug)s AND p.archived_at IS NULL

-- name: numbers_pools
-- All pools by name.
SELECT slug FROM pool WHERE archived_at IS NULL ORDER BY slug

-- name: numbers_classes
-- The classes of a pool.
SELECT id, slug, weight, version, min, max, level, slo_queue_s, slo_done_s,
       paused AND (paused_until IS NULL OR paused_until > now()) AS paused
  FROM work_class WHERE pool_id = %(pool_id)s AND archived_at IS NULL ORDER BY level, weight DESC, slug

-- name: numbers_tenants
-- The tenants that the caller may see.
SELECT id, slug, weight, version, nominal, max,
       paused AND (paused_until IS NULL OR paused_until > now()) AS paused
  FROM tenant WHERE archived_at IS NULL AND (%(tenants)s::bigint[] IS NULL OR id = ANY (%(tenants)s::bigint[])) ORDER BY slug

-- name: numbers_lanes
-- Lanes that hold anything: depth from folded counts plus unfolded changes, what runs from live leases, and the age of
-- the task that has been startable longest (one index probe a lane), which counts from a resume where that came later.
WITH d AS (
    SELECT lane_id, sum(queued)::bigint AS queued, sum(scheduled)::bigint AS scheduled, sum(held)::bigint AS held,
           sum(dead)::bigint AS dead
      FROM (SELECT lane_id, queued, scheduled, held, dead FROM lane_depth
            UNION ALL SELECT lane_id, queued, scheduled, held, dead FROM lane_delta) x
     GROUP BY lane_id
), r AS (
    SELECT lane_id, count(*) AS running, count(*) FILTER (WHERE promoted) AS promoted
      FROM lease WHERE pool_id = %(pool_id)s GROUP BY lane_id
)
SELECT l.id, l.work_class_id AS class_id, l.tenant_id, l.user_id, l.capset_id, l.tools,
       coalesce(d.queued, 0) AS queued, coalesce(d.scheduled, 0) AS scheduled, coalesce(d.held, 0) AS held,
       coalesce(d.dead, 0) AS dead, coalesce(r.running, 0) AS running, coalesce(r.promoted, 0) AS promoted,
       extract(epoch FROM now() - greatest(o.queued_at,
               CASE WHEN p.paused_until <= now() THEN p.paused_until END,
               CASE WHEN c.paused_until <= now() THEN c.paused_until END,
               CASE WHEN n.paused_until <= now() THEN n.paused_until END,
               (SELECT max(x.paused_until) FROM tool x WHERE x.id = ANY (l.tools) AND x.paused_until <= now())))::float8 AS age_s
  FROM lane l
  JOIN pool p ON p.id = l.pool_id
  JOIN work_class c ON c.id = l.work_class_id
  JOIN tenant n ON n.id = l.tenant_id
  LEFT JOIN d ON d.lane_id = l.id
  LEFT JOIN r ON r.lane_id = l.id
  LEFT JOIN LATERAL (
      SELECT t.queued_at FROM task t WHERE d.queued > 0 AND t.lane_id = l.id AND t.state = 1 ORDER BY t.queued_at LIMIT 1
  ) o ON true
 WHERE l.pool_id = %(pool_id)s
   AND (%(tenants)s::bigint[] IS NULL OR l.tenant_id = ANY (%(tenants)s::bigint[]))
   AND (r.running > 0 OR d.queued > 0 OR d.scheduled > 0 OR d.held > 0 OR d.dead > 0)

-- name: numbers_service
-- Slot-seconds and starts of each class and tenant inside the window, from ended attempts and live leases.
SELECT l.work_class_id AS class_id, l.tenant_id, sum(x.slot_s)::float8 AS slot_s, sum(x.started)::bigint AS started
  FROM (
    SELECT lane_id, extract(epoch FROM a.ended_at - greatest(a.delivered_at, now() - make_interval(secs => %(window_s)s))) AS slot_s,
           (a.delivered_at > now() - make_interval(secs => %(window_s)s))::int AS started
      FROM attempt a
     WHERE a.pool_id = %(pool_id)s AND a.ended_at > now() - make_interval(secs => %(window_s)s)
       AND a.delivered_at IS NOT NULL
    UNION ALL
    SELECT lane_id, extract(epoch FROM now() - greatest(e.delivered_at, now() - make_interval(secs => %(window_s)s))),
           (e.delivered_at > now() - make_interval(secs => %(window_s)s))::int
      FROM lease e WHERE e.pool_id = %(pool_id)s AND e.delivered_at IS NOT NULL
  ) x JOIN lane l ON l.id = x.lane_id
 WHERE %(tenants)s::bigint[] IS NULL OR l.tenant_id = ANY (%(tenants)s::bigint[])
 GROUP BY 1, 2

-- name: numbers_waits
-- Percentiles of the wait for the first start, of first starts inside the window, and how many met the class's SLO.
SELECT x.class_id, percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY x.wait_s) AS waits,
       avg((x.wait_s <= c.slo_queue_s)::int)::float8 AS met
  FROM (
    SELECT t.work_class_id AS class_id, t.tenant_id,
           extract(epoch FROM a.granted_at - t.enqueued_at)::float8 AS wait_s
      FROM attempt a JOIN task t ON t.id = a.task_id
     WHERE a.pool_id = %(pool_id)s AND a.ended_at > now() - make_interval(secs => %(window_s)s)
       AND a.granted_at > now() - make_interval(secs => %(window_s)s) AND a.attempt = 1 AND a.delivered_at IS NOT NULL
    UNION ALL
    SELECT t.work_class_id, t.tenant_id, extract(epoch FROM e.granted_at - t.enqueued_at)::float8
      FROM lease e JOIN task t ON t.id = e.task_id
     WHERE e.pool_id = %(pool_id)s AND e.granted_at > now() - make_interval(secs => %(window_s)s) AND e.attempt = 1
  ) x JOIN work_class c ON c.id = x.class_id
 WHERE x.wait_s >= 0  -- a requeue moved enqueued_at past earlier starts
   AND (%(tenants)s::bigint[] IS NULL OR x.tenant_id = ANY (%(tenants)s::bigint[]))
 GROUP BY 1

-- name: numbers_arrivals
-- Tasks submitted inside the window by class. Ids grow with time, so a binary search over the primary key finds where
-- the window starts; nothing older is read.
WITH RECURSIVE b (lo, hi) AS (
    SELECT 0::bigint, (SELECT coalesce(max(id), 0) + 1 FROM task)
    UNION ALL
    SELECT CASE WHEN x.old THEN x.id + 1 ELSE b.lo END, CASE WHEN x.old THEN b.hi ELSE (b.lo + b.hi) / 2 END
      FROM b LEFT JOIN LATERAL (
          SELECT t.id, t.created_at <= now() - make_interval(secs => %(window_s)s) AS old
            FROM task t WHERE t.id >= (b.lo + b.hi) / 2 AND t.id < b.hi ORDER BY t.id LIMIT 1
      ) x ON true
     WHERE b.lo < b.hi
)
SELECT t.work_class_id AS class_id, count(*) AS arrived
  FROM task t
 WHERE t.id >= (SELECT max(lo) FROM b) AND t.pool_id = %(pool_id)s
   AND t.created_at > now() - make_interval(secs => %(window_s)s)
   AND (%(tenants)s::bigint[] IS NULL OR t.tenant_id = ANY (%(tenants)s::bigint[]))
 GROUP BY 1

-- name: numbers_workers
-- Workers with an open session (heard of within the last hour, or with leases): what they have and when they called.
SELECT w.id, w.name, w.deficit, w.draining, w.quarantined,
       w.paused AND (w.paused_until IS NULL OR w.paused_until > now()) AS paused,
       s.slots, s.running, s.alive, extract(epoch FROM now() - s.last_seen_at)::float8 AS last_seen_s, s.parked,
       s.late, ARRAY(SELECT DISTINCT unnest(c.names) FROM capset c WHERE c.id = ANY (s.capsets) ORDER BY 1) AS capabilities
  FROM worker w CROSS JOIN LATERAL (
    SELECT coalesce(sum(x.slots) FILTER (WHERE x.alive), max(x.slots), 0)::bigint AS slots,
           coalesce(sum(x.leases), 0)::bigint AS running, coalesce(bool_or(x.alive), false) AS alive,
           coalesce(bool_or(x.parked), false) AS parked, max(x.last_seen_at) AS last_seen_at,
           max(x.last_seen_at) < now() - make_interval(secs => 2 * %(heartbeat_every_s)s) AS late,
           array_agg(x.capset_id) AS capsets
      FROM (
        SELECT s.slots, s.capset_id, s.last_seen_at, d.parked,
               (SELECT count(*) FROM lease l WHERE l.session_id = s.id) AS leases,
               d.parked OR s.last_seen_at > now() - make_interval(secs => %(lease_ttl_s)s) AS alive
          FROM worker_session s CROSS JOIN LATERAL (
              SELECT EXISTS (SELECT 1 FROM demand d WHERE d.session_id = s.id AND d.until > now()) AS parked) d
         WHERE s.worker_id = w.id AND s.closed_at IS NULL AND s.last_seen_at > now() - interval '24 hours'
      ) x
  ) s
 WHERE w.pool_id = %(pool_id)s AND s.last_seen_at IS NOT NULL
   AND (s.running > 0 OR s.last_seen_at > now() - interval '1 hour')
 ORDER BY w.name LIMIT %(limit)s

-- name: numbers_leases
-- Live leases of workers, the one that ends first first.
SELECT s.worker_id, e.task_id, c.slug AS class, e.expires_at, e.renewed_at, e.delivered_at, e.progress_step,
       e.progress_fraction, e.progress_note, e.progress_timeout_s,
       extract(epoch FROM now() - e.progress_at)::float8 AS progress_age_s
  FROM lease e
  JOIN worker_session s ON s.id = e.session_id
  JOIN lane l ON l.id = e.lane_id
  JOIN work_class c ON c.id = l.work_class_id
 WHERE s.worker_id = ANY (%(worker_ids)s::bigint[]) ORDER BY e.expires_at, e.task_id LIMIT %(limit)s

-- name: numbers_dead_newest
-- The newest dead letters.
SELECT t.id, t.type, c.slug AS class, n.slug AS tenant, t.reason, t.error, t.finished_at, t.attempts, t.fingerprint
  FROM task t JOIN work_class c ON c.id = t.work_class_id JOIN tenant n ON n.id = t.tenant_id
 WHERE t.state = 5 AND t.pool_id = %(pool_id)s
   AND (%(tenants)s::bigint[] IS NULL OR t.tenant_id = ANY (%(tenants)s::bigint[]))
 ORDER BY t.finished_at DESC, t.id DESC LIMIT %(limit)s

-- name: numbers_dead_lately
-- How many tasks died within the last hour.
SELECT count(*) AS new_1h FROM task t
 WHERE t.state = 5 AND t.finished_at > now() - interval '1 hour' AND t.pool_id = %(pool_id)s
   AND (%(tenants)s::bigint[] IS NULL OR t.tenant_id = ANY (%(tenants)s::bigint[]))

-- name: numbers_dead_kinds
-- How many kinds of death there are (groups by fingerprint and reason), and how many began within the last hour.
SELECT count(*) AS groups, count(*) FILTER (WHERE first_at > now() - interval '1 hour') AS new_1h
  FROM (SELECT min(t.finished_at) AS first_at FROM task t
         WHERE t.state = 5 AND t.pool_id = (SELECT id FROM pool WHERE slug = %(pool)s)
           AND (%(tenants)s::bigint[] IS NULL OR t.tenant_id = ANY (%(tenants)s::bigint[]))
         GROUP BY t.fingerprint, t.reason) g

-- name: numbers_dead_groups
-- Dead letters by what they died of, the largest groups first.
SELECT t.fingerprint, t.reason, count(*) AS count, min(t.finished_at) AS first_at, max(t.finished_at) AS last_at,
       max(t.id) AS newest, max(t.error ->> 'message') AS message
  FROM task t
 WHERE t.state = 5 AND t.pool_id = %(pool_id)s
   AND (%(tenants)s::bigint[] IS NULL OR t.tenant_id = ANY (%(tenants)s::bigint[]))
 GROUP BY 1, 2 ORDER BY 3 DESC, 1 LIMIT %(limit)s

-- name: numbers_supply
-- The live sessions of workers one by one: what each offers, for which tenant (null: all), what it holds.
SELECT s.worker_id, s.tenant_id, s.capset_id, s.slots,
       (SELECT count(*) FROM lease l WHERE l.session_id = s.id) AS leases
  FROM worker_session s JOIN worker w ON w.id = s.worker_id JOIN pool p ON p.id = w.pool_id
 WHERE s.worker_id = ANY (%(worker_ids)s::bigint[]) AND s.closed_at IS NULL
   AND (s.last_seen_at > now() - make_interval(secs => p.lease_ttl_s)
        OR EXISTS (SELECT 1 FROM demand d WHERE d.session_id = s.id AND d.until > now()))

-- name: numbers_capsets
-- Names of capability sets.
SELECT id, names FROM capset WHERE id = ANY (%(ids)s::bigint[])

-- name: numbers_accounts
-- What the share accounts of the classes say: their virtual time, weight and the clock of the root.
SELECT node, data FROM share_account WHERE pool_id = %(pool_id)s AND (node = 'root' OR node ~ '^c[0-9]+$')
