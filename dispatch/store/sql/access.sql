-- name: find_key
-- The live key of a prefix, what it is bound to, and for how many seconds a cache may believe it.
SELECT k.id, k.digest, k.name, k.scopes, k.tenant_id, k.pool_id,
       least(%(ttl_s)s::float8, coalesce(extract(epoch FROM k.expires_at - now())::float8, %(ttl_s)s::float8)) AS ttl_s,
       k.last_used_at IS NULL OR k.last_used_at < now() - interval '1 minute' AS stale
  FROM api_key k
 WHERE k.prefix = %(prefix)s AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())

-- name: touch_key
-- Remember the use of a key at most once a minute; never wait for another process that does the same.
UPDATE api_key SET last_used_at = now()
 WHERE id = (SELECT id FROM api_key
              WHERE id = %(key_id)s AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')
                FOR NO KEY UPDATE SKIP LOCKED)

-- name: list_memberships
-- The tenants of one person with role and payload right.
SELECT tenant_id, role, view_payloads FROM membership WHERE user_id = %(user_id)s

-- name: insert_key
-- A new key; only its digest is stored.
INSERT INTO api_key (prefix, digest, name, scopes, tenant_id, pool_id, expires_at, created_by)
VALUES (%(prefix)s, %(digest)s, %(name)s, %(scopes)s::varchar[], %(tenant_id)s, %(pool_id)s, %(expires_at)s, %(created_by)s)
RETURNING id, (SELECT slug FROM tenant WHERE id = tenant_id) AS tenant, (SELECT slug FROM pool WHERE id = pool_id) AS pool

-- name: list_keys
-- Keys in id order, never with their digest; `tenants` limits a tenant's admin to the tenant's own.
SELECT k.id, k.prefix, k.name, k.scopes, t.slug AS tenant, p.slug AS pool, k.created_at, k.created_by,
       k.expires_at, k.revoked_at, k.last_used_at
  FROM api_key k LEFT JOIN tenant t ON t.id = k.tenant_id LEFT JOIN pool p ON p.id = k.pool_id
 WHERE k.id > %(after)s AND (%(tenants)s::bigint[] IS NULL OR k.tenant_id = ANY (%(tenants)s::bigint[]))
   AND (%(pool_id)s::bigint IS NULL OR k.pool_id = %(pool_id)s)
 ORDER BY k.id LIMIT %(limit)s

-- name: revoke_key
-- Revoke once; no row when the key is unknown, foreign or revoked already.
UPDATE api_key SET revoked_at = now()
 WHERE id = %(key_id)s AND revoked_at IS NULL
   AND (%(tenants)s::bigint[] IS NULL OR tenant_id = ANY (%(tenants)s::bigint[]))
   AND (%(pool_id)s::bigint IS NULL OR pool_id = %(pool_id)s)
RETURNING id, prefix, name, tenant_id

-- name: lock_key
-- A live key, locked; no row when it is unknown, foreign, revoked or over.
SELECT id, prefix, name, scopes, tenant_id, pool_id, expires_at FROM api_key
 WHERE id = %(key_id)s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
   AND (%(tenants)s::bigint[] IS NULL OR tenant_id = ANY (%(tenants)s::bigint[]))
   AND (%(pool_id)s::bigint IS NULL OR pool_id = %(pool_id)s) FOR UPDATE

-- name: outlive_key
-- A rotated key lives on for the overlap, never longer than before.
UPDATE api_key SET expires_at = least(expires_at, now() + make_interval(secs => %(overlap_s)s::float8))
 WHERE id = %(key_id)s RETURNING expires_at

-- name: describe_caller
-- The names of what a key is bound to, and what time it is.
SELECT (SELECT slug FROM tenant WHERE id = %(tenant_id)s::bigint) AS tenant,
       (SELECT slug FROM pool WHERE id = %(pool_id)s::bigint) AS pool, now() AS at
