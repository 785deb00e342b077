-- name: department_users
-- The users of a tenant by id.
SELECT id, name, max FROM tenant_user WHERE tenant_id = %(tenant_id)s AND id = ANY (%(ids)s::bigint[])

-- name: tenant_slugs
-- The names of some tenants, in their order.
SELECT id, slug FROM tenant WHERE id = ANY (%(ids)s::bigint[]) AND archived_at IS NULL ORDER BY slug

-- name: usage_days
-- What a tenant's attempts that ended since a time cost, by day (UTC), pool, class and user.
SELECT date_trunc('day', a.ended_at AT TIME ZONE 'UTC')::date AS day, p.slug AS pool, c.slug AS class, u.name AS user,
       count(*) AS attempts, count(*) FILTER (WHERE a.state = 4) AS succeeded,
       coalesce(sum(a.cost), 0)::bigint AS cost,
       coalesce(sum(extract(epoch FROM a.ended_at - a.delivered_at)), 0)::float8 AS slot_s
  FROM attempt a
  JOIN lane l ON l.id = a.lane_id
  JOIN pool p ON p.id = l.pool_id
  JOIN work_class c ON c.id = l.work_class_id
  JOIN tenant_user u ON u.id = l.user_id
 WHERE a.ended_at >= %(since)s AND a.delivered_at IS NOT NULL
   AND a.pool_id IN (SELECT id FROM pool)
   AND l.tenant_id = %(tenant_id)s
 GROUP BY 1, 2, 3, 4
 ORDER BY 1 DESC, 7 DESC, 2, 3, 4
 LIMIT %(limit)s

-- name: usage_since
-- The begin of the day (UTC) so many days ago, today being the first.
SELECT date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - make_interval(days => %(days)s - 1) AS since
