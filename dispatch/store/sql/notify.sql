-- name: notify
-- Hints, heard when the transaction commits.
SELECT pg_notify(channel, payload) FROM unnest(%(channels)s::text[], %(payloads)s::text[]) x(channel, payload)
