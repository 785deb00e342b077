-- name: begin_idempotent
-- Take the key for a first call; a record older than 24 h, or left without an answer for ten minutes, counts no more.
INSERT INTO idempotency_key AS k (api_key_id, path, key, body_hash) VALUES (%(owner)s, %(path)s, %(key)s, %(body_hash)s)
ON CONFLICT (api_key_id, path, key) DO UPDATE
   SET body_hash = excluded.body_hash, status = NULL, answer = NULL, created_at = now()
 WHERE k.created_at < now() - interval '24 hours'
    OR (k.status IS NULL AND k.created_at < now() - interval '10 minutes')
RETURNING id

-- name: find_idempotent
-- What the first call with a key sent and got.
SELECT body_hash, status, answer FROM idempotency_key
 WHERE api_key_id = %(owner)s AND path = %(path)s AND key = %(key)s

-- name: finish_idempotent
-- Keep the answer of a first call.
UPDATE idempotency_key SET status = %(status)s, answer = %(answer)s::jsonb
 WHERE api_key_id = %(owner)s AND path = %(path)s AND key = %(key)s AND status IS NULL

-- name: abandon_idempotent
-- A first call that was refused frees its key.
DELETE FROM idempotency_key WHERE api_key_id = %(owner)s AND path = %(path)s AND key = %(key)s AND status IS NULL
