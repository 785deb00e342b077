-- name: lock_installation
-- Wait until no other process prepares this database; held until this connection ends or unlocks.
SELECT pg_advisory_lock(hashtext('evenflow installation'))

-- name: unlock_installation
-- Let the next one in.
SELECT pg_advisory_unlock(hashtext('evenflow installation'))

-- name: dispatcher_beats
-- Whether some dispatcher process showed its pulse in the last %(within_s)s seconds.
SELECT EXISTS (
    SELECT FROM process WHERE kind = 'dispatcher' AND beat_at > now() - make_interval(secs => %(within_s)s)
) AS beats
