-- name: renew_leases
-- Renew live leases of these sessions by (task, token) and store their progress. The progress clock moves when it is
-- the first report, or when step or fraction grew and the fingerprint is not the one before. Missing rows are lost.
WITH x AS (
    SELECT * FROM unnest(%(task_ids)s::bigint[], %(tokens)s::bigint[], %(session_ids)s::bigint[],
                         %(reported)s::bool[], %(steps)s::bigint[], %(fractions)s::float8[], %(notes)s::text[],
                         %(fingerprints)s::text[], %(costs)s::bigint[])
           x(task_id, token, session_id, reported, step, fraction, note, fingerprint, cost)
), k AS MATERIALIZED (
    SELECT x.*, l.pool_id,
           x.reported AND ((l.progress_step IS NULL AND l.progress_fraction IS NULL AND l.progress_note = ''
                            AND l.progress_fingerprint = '' AND l.progress_cost IS NULL)
               OR ((x.step > coalesce(l.progress_step, -1) OR x.fraction > coalesce(l.progress_fraction, -1))
                   AND coalesce(x.fingerprint, '') IS DISTINCT FROM nullif(l.progress_fingerprint, ''))) AS moved
      FROM x JOIN lease l ON l.task_id = x.task_id AND l.token = x.token AND l.session_id = x.session_id
     WHERE l.delivered_at IS NOT NULL
     ORDER BY l.task_id FOR NO KEY UPDATE OF l
)
UPDATE lease l
   SET expires_at = now() + make_interval(secs => p.lease_ttl_s), renewed_at = now(), extensions = 0,
       progress_at = CASE WHEN k.moved THEN now() ELSE l.progress_at END,
       progress_step = greatest(l.progress_step, k.step),
       progress_fraction = greatest(l.progress_fraction, k.fraction),
       progress_note = coalesce(k.note, l.progress_note),
       progress_fingerprint = coalesce(k.fingerprint, l.progress_fingerprint),
       progress_cost = greatest(l.progress_cost, k.cost)
  FROM k JOIN pool p ON p.id = k.pool_id
 WHERE l.task_id = k.task_id AND l.token = k.token
RETURNING l.task_id, l.token, l.session_id, l.expires_at, l.directive

-- name: relax_commit
-- A lost renewal is only an earlier renewal: heartbeats need not wait for the disk.
SET LOCAL synchronous_commit = off

-- name: fleet_size
-- Sessions that were heard of within their pool's TTL.
SELECT count(*)::int AS sessions FROM worker_session s JOIN pool p ON p.id = s.pool_id
 WHERE s.pool_id = %(pool_id)s AND s.closed_at IS NULL
   AND s.last_seen_at > now() - make_interval(secs => p.lease_ttl_s)
