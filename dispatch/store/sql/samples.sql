-- name: sampled_pools
-- Pools whose queues are sampled.
SELECT id, slug FROM pool WHERE archived_at IS NULL ORDER BY id

-- name: advance_sample_mark
-- How far the sampler of a pool had come, and up to when it counts flows now: a little behind the clock, so that what
-- ended before but commits late is seen. `crossed`: a step of ten seconds has ended since the tenants were written.
WITH old AS (
    SELECT * FROM sample_mark WHERE pool_id = %(pool_id)s
), t AS (
    SELECT now() - make_interval(secs => %(lag_s)s) AS flow_to, now() - make_interval(secs => %(most_s)s) AS earliest
), new AS (
    INSERT INTO sample_mark (pool_id, decision_id, flow_to, tenants_to)
    SELECT %(pool_id)s, coalesce((SELECT max(id) FROM decision WHERE pool_id = %(pool_id)s), 0), t.flow_to, t.flow_to FROM t
    ON CONFLICT (pool_id) DO UPDATE
       SET flow_to = excluded.flow_to,
           decision_id = greatest(sample_mark.decision_id, excluded.decision_id),
           tenants_to = CASE WHEN date_bin('10 seconds', excluded.flow_to, '2000-01-01')
                                  > date_bin('10 seconds', sample_mark.tenants_to, '2000-01-01')
                             THEN excluded.flow_to ELSE sample_mark.tenants_to END
    RETURNING flow_to, tenants_to, decision_id
)
SELECT now() AS at, new.flow_to, new.decision_id,
       old.decision_id AS decision_from,
       coalesce(greatest(old.flow_to, t.earliest), t.flow_to - interval '1 second') AS flow_from,
       greatest(old.tenants_to, t.earliest) AS tenants_from,
       old.pool_id IS NOT NULL AND new.tenants_to > old.tenants_to AS crossed,
       date_bin('10 seconds', new.flow_to, '2000-01-01') - interval '10 seconds' AS step_at
  FROM new CROSS JOIN t LEFT JOIN old ON true

-- name: sample_decisions
-- What the dispatcher handed out since the last sample, by class/tenant/tier, and by class. Decisions of one pool commit
-- in the order of their ids; the first sample looks a second back.
SELECT e.key, e.value::bigint AS count, false AS of_class
  FROM decision d CROSS JOIN LATERAL jsonb_each_text(d.by_tier) e
 WHERE d.pool_id = %(pool_id)s AND d.at > now() - interval '5 minutes' AND d.id <= %(upto)s
   AND (d.id > %(after)s::bigint OR (%(after)s::bigint IS NULL AND d.at > now() - interval '1 second'))
UNION ALL
SELECT e.key, e.value::bigint, true
  FROM decision d CROSS JOIN LATERAL jsonb_each_text(d.by_class) e
 WHERE d.pool_id = %(pool_id)s AND d.at > now() - interval '5 minutes' AND d.id <= %(upto)s
   AND (d.id > %(after)s::bigint OR (%(after)s::bigint IS NULL AND d.at > now() - interval '1 second'))

-- name: sample_flow
-- What happened between two times, by class and tenant: starts, their waits (first starts) in buckets, ends by outcome,
-- slot-seconds, deaths, and what the class's SLOs say. From attempts that ended since, and live leases.
WITH s AS (
    SELECT a.lane_id, a.task_id, a.attempt, a.granted_at, a.delivered_at, a.ended_at, a.outcome, a.state
      FROM attempt a
     WHERE a.pool_id = %(pool_id)s AND a.ended_at > %(since)s AND a.delivered_at <= %(until)s
    UNION ALL
    SELECT l.lane_id, l.task_id, l.attempt, l.granted_at, l.delivered_at, NULL, NULL, NULL
      FROM lease l WHERE l.pool_id = %(pool_id)s AND l.delivered_at <= %(until)s
), x AS (
    SELECT n.work_class_id AS class_id, n.tenant_id, s.outcome, s.state,
           extract(epoch FROM least(s.ended_at, %(until)s::timestamptz) - greatest(s.delivered_at, %(since)s::timestamptz)) AS slot_s,
           s.delivered_at > %(since)s AS started, s.ended_at <= %(until)s AS ended,
           CASE WHEN s.delivered_at > %(since)s AND s.attempt = 1 AND s.granted_at >= t.enqueued_at
                THEN extract(epoch FROM s.granted_at - t.enqueued_at)::float8 END AS wait_s,
           CASE WHEN s.ended_at <= %(until)s AND s.state IN (4, 5)
                THEN extract(epoch FROM s.ended_at - t.enqueued_at)::float8 END AS done_s,
           c.slo_queue_s, c.slo_done_s
      FROM s JOIN lane n ON n.id = s.lane_id JOIN work_class c ON c.id = n.work_class_id
      LEFT JOIN task t ON t.id = s.task_id AND (s.delivered_at > %(since)s OR s.state IN (4, 5))
), flows AS (
    SELECT class_id, tenant_id, count(*) FILTER (WHERE started) AS started, greatest(0, sum(slot_s))::float8 AS slot_s,
           coalesce(sum(wait_s), 0)::float8 AS wait_s,
           count(*) FILTER (WHERE wait_s IS NOT NULL AND slo_queue_s IS NOT NULL) AS queue_n,
           count(*) FILTER (WHERE wait_s <= slo_queue_s) AS queue_met,
           count(*) FILTER (WHERE done_s IS NOT NULL AND slo_done_s IS NOT NULL) AS done_n,
           count(*) FILTER (WHERE done_s <= slo_done_s AND state = 4) AS done_met
      FROM x GROUP BY 1, 2
), w AS (
    SELECT class_id, tenant_id, jsonb_object_agg(bucket, count) AS waits FROM (
        SELECT class_id, tenant_id, width_bucket(wait_s, %(buckets)s::float8[]) AS bucket, count(*)
          FROM x WHERE wait_s IS NOT NULL GROUP BY 1, 2, 3) y GROUP BY 1, 2
), e AS (
    SELECT class_id, tenant_id, jsonb_object_agg(outcome, count) AS ends FROM (
        SELECT class_id, tenant_id, outcome, count(*) FROM x WHERE ended GROUP BY 1, 2, 3) y GROUP BY 1, 2
), d AS (
    SELECT t.work_class_id AS class_id, t.tenant_id, count(*) AS dead
      FROM task t
     WHERE t.state = 5 AND t.finished_at > %(since)s AND t.finished_at <= %(until)s AND t.pool_id = %(pool_id)s
     GROUP BY 1, 2
)
SELECT class_id, tenant_id, coalesce(started, 0) AS started, coalesce(slot_s, 0)::float8 AS slot_s,
       coalesce(wait_s, 0)::float8 AS wait_s, coalesce(queue_n, 0) AS queue_n, coalesce(queue_met, 0) AS queue_met,
       coalesce(done_n, 0) AS done_n, coalesce(done_met, 0) AS done_met,
       coalesce(w.waits, '{}') AS waits, coalesce(e.ends, '{}') AS ends, coalesce(d.dead, 0) AS dead
  FROM flows FULL JOIN d USING (class_id, tenant_id)
  LEFT JOIN w USING (class_id, tenant_id) LEFT JOIN e USING (class_id, tenant_id)

-- name: insert_samples
-- Samples of one pool and one moment, once.
INSERT INTO queue_sample (at, step, pool_id, class_id, tenant_id, covered_s, queued, limited, scheduled, held, running,
                          slots, target, oldest_age_s, limited_oldest_age_s, dispatched, started, dead, slot_s, waits,
                          ends, queue_n, queue_met, done_n, done_met)
SELECT %(at)s, %(step)s, %(pool_id)s, x.class_id, x.tenant_id, %(covered_s)s, x.queued, x.limited, x.scheduled, x.held,
       x.running, x.slots, x.target, x.oldest_age_s, x.limited_oldest_age_s, x.dispatched, x.started, x.dead, x.slot_s,
       x.waits, x.ends, x.queue_n, x.queue_met, x.done_n, x.done_met
  FROM jsonb_to_recordset(%(rows)s::jsonb)
       x(class_id bigint, tenant_id bigint, queued bigint, limited bigint, scheduled bigint, held bigint, running bigint,
         slots bigint, target float8, oldest_age_s float8, limited_oldest_age_s float8, dispatched bigint, started bigint,
         dead bigint, slot_s float8, waits bigint[], ends bigint[], queue_n bigint, queue_met bigint, done_n bigint,
         done_met bigint)
ON CONFLICT DO NOTHING

-- name: add_flow_totals
-- Add what happened to the totals.
INSERT INTO flow_total AS f (pool_id, class_id, tenant_id, dispatched_w, dispatched_g, dispatched_p, started, dead, slot_s,
                             wait_s, waits, ends)
SELECT %(pool_id)s, x.class_id, x.tenant_id, x.w, x.g, x.p, x.started, x.dead, x.slot_s, x.wait_s, x.waits, x.ends
  FROM jsonb_to_recordset(%(rows)s::jsonb)
       x(class_id bigint, tenant_id bigint, w bigint, g bigint, p bigint, started bigint, dead bigint, slot_s float8,
         wait_s float8, waits bigint[], ends bigint[])
 ORDER BY x.class_id, x.tenant_id
ON CONFLICT (pool_id, class_id, tenant_id) DO UPDATE
   SET dispatched_w = f.dispatched_w + excluded.dispatched_w, dispatched_g = f.dispatched_g + excluded.dispatched_g,
       dispatched_p = f.dispatched_p + excluded.dispatched_p, started = f.started + excluded.started,
       dead = f.dead + excluded.dead, slot_s = f.slot_s + excluded.slot_s, wait_s = f.wait_s + excluded.wait_s,
       waits = add_counts(f.waits, excluded.waits), ends = add_counts(f.ends, excluded.ends)

-- name: roll_up_samples
-- Whole steps of the coarser resolution that the finer one has filled and that are not there yet, per pool, the oldest
-- first, at most so many: running it again changes nothing, and after a pause it goes on where it was.
WITH p AS (
    SELECT o.id AS pool_id, make_interval(secs => %(target)s) AS width,
           (SELECT max(q.at) + make_interval(secs => %(target)s) FROM queue_sample q
             WHERE q.step = %(target)s AND q.pool_id = o.id AND q.class_id IS NOT NULL AND q.tenant_id IS NULL) AS mark,
           (SELECT max(q.at) + make_interval(secs => CASE WHEN %(source)s = 1 THEN 0 ELSE %(source)s END) FROM queue_sample q
             WHERE q.step = %(source)s AND q.pool_id = o.id AND q.class_id IS NOT NULL AND q.tenant_id IS NULL) AS filled
      FROM pool o
), r AS (
    SELECT p.pool_id, p.width, date_bin(p.width, least(p.filled, now() - interval '3 seconds'), '2000-01-01') AS hi,
           date_bin(p.width, (SELECT min(q.at) FROM queue_sample q
                               WHERE q.step = %(source)s AND q.pool_id = p.pool_id AND q.at >= coalesce(p.mark, '-infinity')),
                    '2000-01-01') AS lo
      FROM p WHERE p.filled IS NOT NULL
)
INSERT INTO queue_sample (at, step, pool_id, class_id, tenant_id, covered_s, queued, limited, scheduled, held, running,
                          slots, target, oldest_age_s, limited_oldest_age_s, dispatched, started, dead, slot_s, waits,
                          ends, queue_n, queue_met, done_n, done_met)
SELECT x.at, %(target)s, x.pool_id, x.class_id, x.tenant_id, x.covered_s, round(x.queued / x.over), round(x.limited / x.over),
       round(x.scheduled / x.over), round(x.held / x.over), round(x.running / x.over), round(x.slots), x.target,
       x.oldest_age_s, x.limited_oldest_age_s, x.dispatched, x.started, x.dead, x.slot_s, x.waits, x.ends, x.queue_n,
       x.queue_met, x.done_n, x.done_met
  FROM (
    SELECT date_bin(r.width, q.at, '2000-01-01') AS at, q.pool_id, q.class_id, q.tenant_id, sum(q.covered_s) AS covered_s,
           -- a tenant without a sample had nothing; a class without one was not looked at
           CASE WHEN q.tenant_id IS NULL THEN sum(q.covered_s) ELSE %(target)s END AS over,
           sum(q.queued * q.covered_s) AS queued, sum(q.limited * q.covered_s) AS limited,
           sum(q.scheduled * q.covered_s) AS scheduled, sum(q.held * q.covered_s) AS held,
           sum(q.running * q.covered_s) AS running, avg(q.slots) AS slots, avg(q.target) AS target,
           max(q.oldest_age_s) AS oldest_age_s, max(q.limited_oldest_age_s) AS limited_oldest_age_s,
           sum(q.dispatched) AS dispatched, sum(q.started) AS started, sum(q.dead) AS dead, sum(q.slot_s) AS slot_s,
           sum_counts(q.waits) AS waits, sum_counts(q.ends) AS ends, sum(q.queue_n) AS queue_n,
           sum(q.queue_met) AS queue_met, sum(q.done_n) AS done_n, sum(q.done_met) AS done_met
      FROM r JOIN queue_sample q ON q.step = %(source)s AND q.pool_id = r.pool_id AND q.at >= r.lo
       AND q.at < least(r.hi, r.lo + %(most)s * r.width)
     GROUP BY 1, 2, 3, 4, r.width
  ) x
ON CONFLICT DO NOTHING

-- name: drop_old_samples
-- Samples past their time that the coarser resolution has; twice the time, and they go without (nobody sampled on).
DELETE FROM queue_sample WHERE ctid = ANY (ARRAY(
    SELECT q.ctid
      FROM (SELECT o.id, (SELECT max(r.at) FROM queue_sample r WHERE r.step = %(next)s::int AND r.pool_id = o.id) AS rolled
              FROM pool o) p
      JOIN queue_sample q ON q.pool_id = p.id AND q.step = %(step)s AND q.at < now() - make_interval(secs => %(keep_s)s)
     WHERE %(next)s::int IS NULL OR q.at < now() - make_interval(secs => 2 * %(keep_s)s) OR q.at < p.rolled
     LIMIT 20000))

-- name: sample_series
-- Lines over a span, drawn in whole multiples of a resolution: by class, by tenant (its classes together), by queue
-- (the classes, of what the visible tenants have in them) or the pool.
SELECT x.at, x.key, x.queued, x.running, x.oldest_age_s, x.limited, x.slots, x.target, x.dispatched, x.started, x.dead,
       x.slot_s, x.covered_s, x.waits, x.ends, x.queue_n, x.queue_met, x.done_n, x.done_met
  FROM (
    SELECT date_bin(make_interval(secs => %(bin_s)s), q.at, '2000-01-01') AS at,
           CASE %(by)s::text WHEN 'tenant' THEN q.tenant_id WHEN 'pool' THEN NULL ELSE q.class_id END AS key,
           (sum(q.queued) / count(DISTINCT q.at))::float8 AS queued, (sum(q.running) / count(DISTINCT q.at))::float8 AS running,
           (sum(q.limited) / count(DISTINCT q.at))::float8 AS limited, max(q.oldest_age_s) AS oldest_age_s,
           avg(q.slots)::float8 AS slots, avg(q.target)::float8 AS target, sum(q.dispatched)::bigint AS dispatched,
           sum(q.started)::bigint AS started, sum(q.dead)::bigint AS dead, sum(q.slot_s)::float8 AS slot_s,
           sum(q.covered_s)::float8 / greatest(1, count(DISTINCT coalesce(q.class_id, 0))) AS covered_s,
           sum_counts(q.waits) AS waits, sum_counts(q.ends) AS ends,
           sum(q.queue_n)::bigint AS queue_n, sum(q.queue_met)::bigint AS queue_met,
           sum(q.done_n)::bigint AS done_n, sum(q.done_met)::bigint AS done_met
      FROM queue_sample q
     WHERE q.step = %(step)s AND q.pool_id = %(pool_id)s AND q.at >= %(since)s AND q.at < %(until)s
       AND (q.tenant_id IS NOT NULL) = (%(by)s::text IN ('tenant', 'queue')) AND (q.class_id IS NULL) = (%(by)s::text = 'pool')
       AND (%(tenants)s::bigint[] IS NULL OR q.tenant_id = ANY (%(tenants)s::bigint[]))
     GROUP BY 1, 2
  ) x ORDER BY x.key, x.at

-- name: sample_shares
-- Slot-seconds of each class over the last hour (samples of 60 s) and the last day (of 900 s).
SELECT c.slug, coalesce(sum(q.slot_s) FILTER (WHERE q.step = 60), 0)::float8 AS hour_s,
       coalesce(sum(q.slot_s) FILTER (WHERE q.step = 900), 0)::float8 AS day_s
  FROM queue_sample q JOIN pool p ON p.id = q.pool_id AND p.slug = %(pool)s JOIN work_class c ON c.id = q.class_id
 WHERE q.tenant_id IS NULL AND ((q.step = 60 AND q.at > now() - interval '1 hour')
                                OR (q.step = 900 AND q.at > now() - interval '24 hours'))
 GROUP BY 1

-- name: slo_windows
-- What the SLOs of each class judged and found kept, by window: the coarsest samples that serve the window, and finer
-- ones for what is not rolled up yet.
WITH m AS (
    SELECT greatest(r900, now() - interval '28 days') AS r900, greatest(r900, r60) AS r60, greatest(r900, r60, r10) AS r10,
           r60 AS only60, greatest(r60, r10) AS only60_10, r10 AS only10
      FROM (SELECT coalesce(max(at) FILTER (WHERE step = 900) + interval '900 seconds', '-infinity') AS r900,
                   coalesce(max(at) FILTER (WHERE step = 60) + interval '60 seconds', '-infinity') AS r60,
                   coalesce(max(at) FILTER (WHERE step = 10) + interval '10 seconds', '-infinity') AS r10
              FROM (SELECT s.step, (SELECT max(q.at) FROM queue_sample q
                                     WHERE q.step = s.step AND q.pool_id = %(pool_id)s AND q.class_id IS NOT NULL
                                       AND q.tenant_id IS NULL) AS at
                      FROM unnest('{10,60,900}'::int[]) s(step)) x) y
), q AS (
    SELECT '5m' AS name, 1 AS step, now() - interval '5 minutes' AS since
    UNION ALL SELECT '1h', 10, now() - interval '1 hour'
    UNION ALL SELECT '1h', 1, greatest(m.only10, now() - interval '1 hour') FROM m
    UNION ALL SELECT '24h', 60, now() - interval '1 day'
    UNION ALL SELECT '24h', 10, greatest(m.only60, now() - interval '1 day') FROM m
    UNION ALL SELECT '24h', 1, greatest(m.only60_10, now() - interval '1 day') FROM m
    UNION ALL SELECT '28d', 900, now() - interval '28 days'
    UNION ALL SELECT '28d', 60, m.r900 FROM m
    UNION ALL SELECT '28d', 10, greatest(m.r60, now() - interval '28 days') FROM m
    UNION ALL SELECT '28d', 1, greatest(m.r10, now() - interval '28 days') FROM m
)
SELECT q.name, s.class_id, sum(s.queue_n)::bigint AS queue_n, sum(s.queue_met)::bigint AS queue_met,
       sum(s.done_n)::bigint AS done_n, sum(s.done_met)::bigint AS done_met
  FROM q JOIN queue_sample s ON s.step = q.step AND s.pool_id = %(pool_id)s AND s.at >= q.since
   AND s.class_id IS NOT NULL AND s.tenant_id IS NULL
 GROUP BY 1, 2
