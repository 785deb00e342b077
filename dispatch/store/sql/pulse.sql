-- name: database_now
-- The database's clock, the only one that decides anything.
SELECT now() AS now

-- name: register_process
-- A process of ours says hello.
INSERT INTO process (kind, host, pid, info) VALUES (%(kind)s, %(host)s, %(pid)s, %(info)s::jsonb) RETURNING id

-- name: beat_process
-- A pulse; after a gap the process counts as up from now on. No row: it was pruned while it was away.
UPDATE process
   SET beat_at = now(), info = coalesce(%(info)s::jsonb, info),
       up_since = CASE WHEN beat_at < now() - interval '3 seconds' THEN now() ELSE up_since END
 WHERE id = %(process_id)s RETURNING id

-- name: end_process
-- An orderly end: the row goes, so that nobody waits for its pulse to grow cold. Web rows stay: reclaim needs to know
-- that there has been a web process at all.
DELETE FROM process WHERE id = %(process_id)s AND kind <> 'web'

-- name: web_spans
-- From when to when each web process was up without a gap: to now while it pulses.
SELECT up_since, CASE WHEN beat_at > now() - interval '2 seconds' THEN now() ELSE beat_at END AS up_to
  FROM process WHERE kind = 'web'
