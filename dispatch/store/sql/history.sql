-- name: class_history
-- The oldest queue age of each class in each step of a span, by steps back from now (index sample_at).
SELECT c.slug, max(q.oldest_age_s) AS oldest_age_s,
       (floor(extract(epoch FROM now()) / %(step_s)s::int)
        - floor(extract(epoch FROM q.at) / %(step_s)s::int))::int AS back
  FROM queue_sample q
  JOIN pool p ON p.id = q.pool_id AND p.slug = %(pool)s
  JOIN work_class c ON c.id = q.class_id
 WHERE q.step = 1 AND q.tenant_id IS NULL AND q.at > now() - make_interval(secs => %(span_s)s::int)
 GROUP BY 1, 3
