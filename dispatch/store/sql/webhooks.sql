-- name: insert_webhook
-- A new address.
INSERT INTO webhook (name, kind, url, events, tenant_id, pool_id, created_by)
VALUES (%(name)s, %(kind)s, %(url)s, %(events)s::varchar[], %(tenant_id)s, %(pool_id)s, %(created_by)s) RETURNING id

-- name: list_webhooks
-- Addresses in id order with the number of messages that wait (counted to 10,000); `tenants` narrows to those of tenants.
SELECT w.*, t.slug AS tenant, p.slug AS pool,
       (SELECT count(*) FROM (SELECT 1 FROM webhook_delivery d WHERE d.webhook_id = w.id AND d.state = 0 LIMIT 10000) x)
       ::int AS pending
  FROM webhook w LEFT JOIN tenant t ON t.id = w.tenant_id LEFT JOIN pool p ON p.id = w.pool_id
 WHERE w.id > %(after)s AND (%(tenants)s::bigint[] IS NULL OR w.tenant_id = ANY (%(tenants)s::bigint[]))
   AND (%(pool_id)s::bigint IS NULL OR w.pool_id = %(pool_id)s)
   AND (%(id)s::bigint IS NULL OR w.id = %(id)s)
 ORDER BY w.id LIMIT %(limit)s

-- name: lock_webhook
-- One address, locked against other commands.
SELECT * FROM webhook WHERE id = %(id)s FOR NO KEY UPDATE

-- name: update_webhook
-- Another name, address, choice of events, or on and off; switched on it starts without a past.
UPDATE webhook
   SET name = %(name)s, url = %(url)s, events = %(events)s::varchar[], enabled = %(enabled)s::bool,
       note = CASE WHEN %(enabled)s::bool THEN '' ELSE note END,
       failing_since = CASE WHEN %(fresh)s::bool THEN NULL ELSE failing_since END,
       quiet_until = CASE WHEN %(fresh)s::bool THEN NULL ELSE quiet_until END
 WHERE id = %(id)s

-- name: rotate_webhook
-- A new secret; the one before it signs too for a while.
UPDATE webhook SET generation = generation + 1, old_until = now() + make_interval(secs => %(overlap_s)s::float8)
 WHERE id = %(id)s RETURNING generation, old_until

-- name: delete_webhook
-- An address goes, with all messages to it.
WITH d AS (DELETE FROM webhook_delivery WHERE webhook_id = %(id)s) DELETE FROM webhook WHERE id = %(id)s

-- name: enqueue_webhook
-- One message to each address that listens to this kind of event, of this tenant and pool (null: of none).
INSERT INTO webhook_delivery (webhook_id, type, data)
SELECT w.id, %(type)s::varchar, %(data)s::jsonb FROM webhook w
 WHERE w.enabled AND %(type)s::varchar = ANY (w.events) AND (w.tenant_id IS NULL OR w.tenant_id = %(tenant_id)s::bigint)
   AND (w.pool_id IS NULL OR w.pool_id = %(pool_id)s::bigint)

-- name: insert_delivery
-- One message to one address.
INSERT INTO webhook_delivery (webhook_id, type, data) VALUES (%(webhook_id)s, %(type)s, %(data)s::jsonb) RETURNING id

-- name: list_deliveries
-- Messages to one address, newest first.
SELECT d.id, d.message, d.type, d.data, d.state, d.tries, d.next_at, d.created_at, d.tried_at, d.status, d.latency_ms,
       d.response, d.error
  FROM webhook_delivery d
 WHERE d.webhook_id = %(webhook_id)s AND d.id < %(below)s AND (%(state)s::int IS NULL OR d.state = %(state)s)
   AND (%(id)s::bigint IS NULL OR d.id = %(id)s)
 ORDER BY d.id DESC LIMIT %(limit)s

-- name: redeliver
-- A message goes out again at once, under the same message id; none while it waits anyway.
UPDATE webhook_delivery SET state = 0, tries = 0, next_at = now()
 WHERE id = %(id)s AND webhook_id = %(webhook_id)s AND state <> 0 RETURNING id

-- name: take_deliveries
-- Due messages, one address after the other: at most `each` of an address, one of an address that fails, none before
-- its quiet time is over; `busy` of them are on their way already. They are this process's for `hold_s` seconds.
WITH d AS MATERIALIZED (
    SELECT x.id, x.next_at, w.id AS webhook_id
      FROM webhook w
      LEFT JOIN unnest(%(busy_ids)s::bigint[], %(busy)s::int[]) b(id, count) ON b.id = w.id
     CROSS JOIN LATERAL (
        SELECT d.id, d.next_at FROM webhook_delivery d
         WHERE d.webhook_id = w.id AND d.state = 0 AND d.next_at <= statement_timestamp()
         ORDER BY d.next_at, d.id
         LIMIT greatest(0, CASE WHEN w.failing_since IS NULL THEN %(each)s ELSE 1 END - coalesce(b.count, 0))
           FOR UPDATE SKIP LOCKED
     ) x
     WHERE w.enabled AND (w.quiet_until IS NULL OR w.quiet_until <= now())
), e AS (
    SELECT id FROM d ORDER BY row_number() OVER (PARTITION BY webhook_id ORDER BY next_at, id), next_at, id
     LIMIT %(limit)s
)
UPDATE webhook_delivery d
   SET tries = d.tries + 1, tried_at = now(), next_at = now() + make_interval(secs => %(hold_s)s)
  FROM e, webhook w WHERE d.id = e.id AND w.id = d.webhook_id
RETURNING d.id, d.webhook_id, d.message, d.type, d.data, d.tries, d.created_at, w.url, w.kind, w.generation,
          coalesce(w.old_until > now(), false) AS both_secrets

-- name: mark_delivered
-- A message has arrived.
UPDATE webhook_delivery
   SET state = 1, status = %(status)s, latency_ms = %(latency_ms)s, response = %(response)s, error = ''
 WHERE id = %(id)s

-- name: mark_answering
-- The address answers again: what it had to wait for goes out now.
WITH w AS (
    UPDATE webhook SET failing_since = NULL, quiet_until = NULL WHERE id = %(id)s AND failing_since IS NOT NULL
    RETURNING id
)
UPDATE webhook_delivery d SET next_at = now() FROM w
 WHERE d.webhook_id = w.id AND d.state = 0 AND d.next_at > now()
   AND d.tried_at < now() - make_interval(secs => %(hold_s)s)

-- name: mark_failed
-- A try failed; the message is tried again (`delay_s`) or given up (null), unless somebody else has it by now.
UPDATE webhook_delivery
   SET state = CASE WHEN %(delay_s)s::float8 IS NULL THEN 2 ELSE 0 END, status = %(status)s,
       latency_ms = %(latency_ms)s, response = %(response)s, error = %(error)s,
       next_at = now() + make_interval(secs => coalesce(%(delay_s)s::float8, 0))
 WHERE id = %(id)s AND state = 0 AND tries = %(tries)s

-- name: mark_failing
-- The address of a failed try keeps quiet for a moment; for how many seconds it has failed now.
UPDATE webhook
   SET failing_since = coalesce(failing_since, now()), quiet_until = now() + make_interval(secs => %(quiet_s)s::float8)
 WHERE id = %(id)s AND enabled
RETURNING name, extract(epoch FROM now() - failing_since)::float8 AS failing_s

-- name: disable_webhook
-- An address is given up until somebody switches it on again.
UPDATE webhook SET enabled = false, note = %(note)s WHERE id = %(id)s AND enabled RETURNING name, tenant_id, pool_id

-- name: flooded_webhooks
-- Addresses with more than so many messages waiting.
SELECT w.id FROM webhook w
 WHERE w.enabled AND (SELECT count(*) FROM (SELECT 1 FROM webhook_delivery d WHERE d.webhook_id = w.id AND d.state = 0
                                             LIMIT %(most)s + 1) x) > %(most)s
 ORDER BY w.id

-- name: prune_deliveries
-- Forget what is over: all but the newest of each address, everything after a week, and what its address has left behind.
DELETE FROM webhook_delivery d
 USING (SELECT w.id, (SELECT x.id FROM webhook_delivery x WHERE x.webhook_id = w.id
                       ORDER BY x.id DESC OFFSET %(keep)s LIMIT 1) AS below FROM webhook w) w
 WHERE d.webhook_id = w.id AND ((d.state <> 0 AND d.id <= w.below) OR d.created_at < now() - interval '7 days')

-- name: drop_orphan_deliveries
-- Messages to addresses that were deleted while a task ended.
DELETE FROM webhook_delivery d WHERE NOT EXISTS (SELECT 1 FROM webhook w WHERE w.id = d.webhook_id)
