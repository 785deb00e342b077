-- name: detector_classes
-- The last minutes of each class in steps, counted back from now: what waited all the time of a step (startable), the
-- age at its end, means and sums. From the samples of one second.
SELECT q.class_id AS id, floor(extract(epoch FROM now() - q.at) / %(step_s)s)::int AS back,
       min(greatest(0, q.queued - q.limited))::bigint AS queued, round(avg(q.running))::bigint AS running,
       (array_agg(q.oldest_age_s ORDER BY q.at DESC))[1] AS oldest_age_s, sum(q.dispatched)::bigint AS dispatched,
       sum(q.slot_s)::float8 AS slot_s, coalesce(avg(q.target), 0)::float8 AS target, sum_counts(q.waits) AS waits,
       sum(q.queue_n)::bigint AS queue_n, sum(q.queue_met)::bigint AS queue_met, sum(q.done_n)::bigint AS done_n,
       sum(q.done_met)::bigint AS done_met
  FROM queue_sample q
 WHERE q.step = 1 AND q.pool_id = %(pool_id)s AND q.at > now() - make_interval(secs => %(span_s)s)
   AND q.class_id IS NOT NULL AND q.tenant_id IS NULL
 GROUP BY 1, 2

-- name: detector_tenants
-- The last minutes of each tenant in the steps of ten seconds that the sampler wrote; `tenant_id` null: the pool, which
-- has a line in every step.
SELECT q.tenant_id AS id, round(extract(epoch FROM q.at))::bigint AS at, sum(greatest(0, q.queued - q.limited))::bigint AS queued,
       sum(q.running)::bigint AS running
  FROM queue_sample q
 WHERE q.step = 10 AND q.pool_id = %(pool_id)s AND q.at > now() - make_interval(secs => %(span_s)s)
   AND (q.tenant_id IS NOT NULL OR q.class_id IS NULL)
 GROUP BY 1, 2

-- name: detector_deaths
-- Dead letters by tenant and type among the newest 20,000: within the window, in the hour before it, and with a
-- lost agent at the end.
SELECT x.tenant_id, n.slug AS tenant, x.type, count(*) FILTER (WHERE x.lately) AS lately,
       count(*) FILTER (WHERE NOT x.lately) AS before,
       count(*) FILTER (WHERE x.lost) AS lost
  FROM (
    SELECT t.tenant_id, t.type, t.finished_at > now() - make_interval(secs => %(window_s)s) AS lately,
           t.last_outcome = 2 AND t.finished_at > now() - make_interval(secs => %(lost_window_s)s) AS lost
      FROM task t
     WHERE t.state = 5 AND t.finished_at > now() - make_interval(secs => %(window_s)s + 3600) AND t.pool_id = %(pool_id)s
     ORDER BY t.finished_at DESC LIMIT 20000
  ) x JOIN tenant n ON n.id = x.tenant_id
 GROUP BY 1, 2, 3 HAVING bool_or(x.lately) OR bool_or(x.lost)

-- name: detector_stalls
-- Attempts that stalled within the window, by worker.
SELECT a.worker_id, max(a.worker_name) AS worker, count(*) AS stalled
  FROM attempt a
 WHERE a.outcome IN (1, 3, 4) AND a.outcome = 3 AND a.ended_at > now() - make_interval(secs => %(window_s)s)
   AND a.pool_id = %(pool_id)s
 GROUP BY 1

-- name: reconciler_lag
-- How late the working reconciler ran its last sweep, in seconds.
SELECT max((info->>'lag_s')::float8) AS lag_s FROM process
 WHERE kind = 'reconciler' AND beat_at > now() - interval '10 seconds' AND (info->>'working')::bool

-- name: open_subjects
-- What is open of some rules.
SELECT rule, subject FROM alert WHERE resolved_at IS NULL AND rule = ANY (%(rules)s::text[])

-- name: backtest_points
-- Recorded steps of one resolution, oldest first: of classes, of tenants (their classes together), and of the pool,
-- which has a line in every step that was sampled.
SELECT q.class_id, NULL::bigint AS tenant_id, q.at, greatest(0, q.queued - q.limited) AS queued, q.running, q.oldest_age_s,
       q.dispatched, q.slot_s, coalesce(q.target, 0) AS target, q.waits, q.queue_n, q.queue_met, q.done_n, q.done_met, q.slots
  FROM queue_sample q
 WHERE q.step = %(step)s AND q.pool_id = %(pool_id)s AND q.at > now() - make_interval(secs => %(span_s)s)
   AND q.tenant_id IS NULL
UNION ALL
SELECT NULL, q.tenant_id, q.at, sum(greatest(0, q.queued - q.limited))::bigint, sum(q.running)::bigint, NULL, 0, 0, 0, '{}', 0, 0,
       0, 0, NULL
  FROM queue_sample q
 WHERE q.step = %(step)s AND q.pool_id = %(pool_id)s AND q.at > now() - make_interval(secs => %(span_s)s)
   AND q.tenant_id IS NOT NULL
 GROUP BY 2, 3
 ORDER BY 3
