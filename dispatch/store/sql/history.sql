-- name: series
-- Samples of the classes of a pool in steps back from now (index sample_at): a tenant's part where one is given.
SELECT c.slug, c.slo_queue_s, (floor(extract(epoch FROM now()) / %(step_s)s::int)
        - floor(extract(epoch FROM q.at) / %(step_s)s::int))::int AS back,
       max(q.oldest_age_s) AS oldest_age_s, avg(q.queued)::float8 AS queued, avg(q.running)::float8 AS running,
       sum(q.dispatched)::float8 AS dispatched, count(*)::int AS samples,
       ((array_agg(q.queued ORDER BY q.at DESC))[1])::float8 AS queued_last
  FROM queue_sample q
  JOIN pool p ON p.id = q.pool_id AND p.slug = %(pool)s
  JOIN work_class c ON c.id = q.class_id
 WHERE q.step = 1 AND q.at > now() - make_interval(secs => %(span_s)s::int)
   AND q.tenant_id IS NOT DISTINCT FROM %(tenant_id)s::bigint
   AND (%(class)s::text IS NULL OR c.slug = %(class)s)
 GROUP BY 1, 2, 3

-- name: series_end
-- The database's clock, milliseconds since 1970.
SELECT (extract(epoch FROM now()) * 1000)::bigint AS now
