-- name: resolve_names
-- Ids and limits of the pools, classes, tenants and tools that a batch names.
SELECT 'pool' AS kind, slug, id, NULL::bigint AS pool_id, NULL::integer AS max_queued, NULL::integer AS submit_per_minute,
       false AS stops
  FROM pool WHERE slug = ANY (%(pools)s::varchar[]) AND archived_at IS NULL
UNION ALL
SELECT 'class', slug, id, pool_id, NULL, NULL, false
  FROM work_class WHERE slug = ANY (%(classes)s::varchar[]) AND archived_at IS NULL
UNION ALL
SELECT 'tenant', slug, id, NULL, max_queued, submit_per_minute,
       EXISTS (SELECT 1 FROM budget b WHERE b.tenant_id = tenant.id AND b.on_breach = 'stop' AND b.archived_at IS NULL)
  FROM tenant WHERE slug = ANY (%(tenants)s::varchar[]) AND archived_at IS NULL
UNION ALL
SELECT 'tool', slug, id, NULL, NULL, NULL, false
  FROM tool WHERE slug = ANY (%(tools)s::varchar[]) AND archived_at IS NULL

-- name: find_slug
-- The id behind one name.
SELECT id FROM pool WHERE %(kind)s = 'pool' AND slug = %(slug)s AND archived_at IS NULL
UNION ALL SELECT id FROM work_class WHERE %(kind)s = 'class' AND slug = %(slug)s AND archived_at IS NULL
UNION ALL SELECT id FROM tenant WHERE %(kind)s = 'tenant' AND slug = %(slug)s AND archived_at IS NULL
UNION ALL SELECT id FROM tool WHERE %(kind)s = 'tool' AND slug = %(slug)s AND archived_at IS NULL

-- name: find_users
-- Users by (tenant, name).
SELECT u.tenant_id, u.name, u.id
  FROM unnest(%(tenants)s::bigint[], %(names)s::varchar[]) AS x (tenant_id, name)
  JOIN tenant_user u ON u.tenant_id = x.tenant_id AND u.name = x.name

-- name: insert_users
-- Users that come into being, in key order so that two batches never wait for each other in a circle.
INSERT INTO tenant_user (tenant_id, name)
SELECT tenant_id, name FROM unnest(%(tenants)s::bigint[], %(names)s::varchar[]) AS x (tenant_id, name) ORDER BY 1, 2
ON CONFLICT DO NOTHING

-- name: find_lanes
-- Lanes by their whole key, with the position in the question.
SELECT x.n, l.id
  FROM unnest(%(pools)s::bigint[], %(classes)s::bigint[], %(tenants)s::bigint[], %(users)s::bigint[],
              %(capsets)s::bigint[], %(tools)s::text[])
       WITH ORDINALITY AS x (pool_id, work_class_id, tenant_id, user_id, capset_id, tools, n)
  JOIN lane l ON l.pool_id = x.pool_id AND l.work_class_id = x.work_class_id AND l.tenant_id = x.tenant_id
             AND l.user_id = x.user_id AND l.capset_id = x.capset_id AND l.tools = x.tools::bigint[]

-- name: insert_lanes
-- Make the lanes that are missing, in key order.
INSERT INTO lane (pool_id, work_class_id, tenant_id, user_id, capset_id, tools)
SELECT pool_id, work_class_id, tenant_id, user_id, capset_id, tools::bigint[]
  FROM unnest(%(pools)s::bigint[], %(classes)s::bigint[], %(tenants)s::bigint[], %(users)s::bigint[],
              %(capsets)s::bigint[], %(tools)s::text[]) AS x (pool_id, work_class_id, tenant_id, user_id, capset_id, tools)
 ORDER BY 1, 2, 3, 4, 5, 6
ON CONFLICT DO NOTHING

-- name: lock_tenant_limits
-- One submit at a time for each tenant that has a limit to keep, locks in id order, until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('submit', x.tenant_id))
  FROM (SELECT tenant_id FROM unnest(%(tenants)s::bigint[]) AS t (tenant_id) ORDER BY 1) AS x

-- name: tenant_waiting
-- Waiting tasks (queued, scheduled, held) of each tenant over all pools: folded counts plus unfolded changes.
SELECT l.tenant_id, coalesce(sum(x.waiting), 0)::bigint AS waiting
  FROM lane l JOIN (
       SELECT lane_id, queued + scheduled + held AS waiting FROM lane_depth
       UNION ALL
       SELECT lane_id, queued + scheduled + held FROM lane_delta) AS x ON x.lane_id = l.id
 WHERE l.tenant_id = ANY (%(tenants)s::bigint[]) GROUP BY 1

-- name: nth_newest_task
-- How many seconds ago the tenant's n-th newest task was submitted (n from 0); no row when there are fewer.
SELECT extract(epoch FROM clock_timestamp() - created_at)::float8 AS age_s
  FROM task WHERE tenant_id = %(tenant_id)s ORDER BY id DESC OFFSET %(n)s LIMIT 1

-- name: count_lanes
-- Lanes of each (tenant, pool), with work or without.
SELECT x.tenant_id, x.pool_id, count(l.id) AS lanes
  FROM unnest(%(tenants)s::bigint[], %(pools)s::bigint[]) AS x (tenant_id, pool_id)
  JOIN lane l ON l.tenant_id = x.tenant_id AND l.pool_id = x.pool_id GROUP BY 1, 2

-- name: queued_lanes
-- Ids of the lanes of one tenant and pool that hold queued work.
SELECT d.lane_id
  FROM (SELECT lane_id, queued FROM lane_depth UNION ALL SELECT lane_id, queued FROM lane_delta) AS d
  JOIN lane l ON l.id = d.lane_id
 WHERE l.tenant_id = %(tenant_id)s AND l.pool_id = %(pool_id)s
 GROUP BY 1 HAVING sum(d.queued) > 0

-- name: find_task_keys
-- Tasks that hold these keys already.
SELECT t.tenant_id, t.key, t.id, t.state, t.lane_id, t.content_hash
  FROM unnest(%(tenants)s::bigint[], %(keys)s::varchar[]) AS x (tenant_id, key)
  JOIN task t ON t.tenant_id = x.tenant_id AND t.key = x.key

-- name: allocate_task_ids
-- Ids in the order of the batch, which is the order inside a lane; rows are inserted in the order of their keys.
SELECT nextval(pg_get_serial_sequence('task', 'id')) AS id FROM generate_series(1, %(n)s)

-- name: insert_tasks
-- Insert a batch, rows with keys in key order; a key that somebody else holds by now leaves its row out.
-- Not due: scheduled, and its place in the lane counts from run_at. Deadline passed: dead at once, "expired".
INSERT INTO task (id, pool_id, work_class_id, tenant_id, lane_id, type, payload, priority, key, content_hash, cost_hint,
                  run_at, deadline, max_attempts, max_runtime_s, progress_timeout_s,
                  created_at, state, enqueued_at, queued_at, finished_at, reason)
SELECT x.id, x.pool_id, x.work_class_id, x.tenant_id, x.lane_id, x.type, x.payload::jsonb, x.priority, x.key,
       x.content_hash, x.cost_hint, x.run_at, x.deadline, x.max_attempts, x.max_runtime_s, x.progress_timeout_s,
       now(), CASE WHEN x.deadline <= now() THEN 5 WHEN x.run_at > now() THEN 0 ELSE 1 END,
       greatest(now(), x.run_at),
       CASE WHEN x.deadline <= now() OR x.run_at > now() THEN NULL ELSE now() END,
       CASE WHEN x.deadline <= now() THEN now() END,
       CASE WHEN x.deadline <= now() THEN 'expired' ELSE '' END
  FROM unnest(%(id)s::bigint[], %(pool_id)s::bigint[], %(work_class_id)s::bigint[], %(tenant_id)s::bigint[],
              %(lane_id)s::bigint[], %(type)s::varchar[], %(payload)s::text[], %(priority)s::smallint[],
              %(key)s::varchar[], %(content_hash)s::bytea[], %(cost_hint)s::bigint[], %(run_at)s::timestamptz[],
              %(deadline)s::timestamptz[], %(max_attempts)s::smallint[], %(max_runtime_s)s::float8[],
              %(progress_timeout_s)s::float8[])
       AS x (id, pool_id, work_class_id, tenant_id, lane_id, type, payload, priority, key, content_hash, cost_hint,
             run_at, deadline, max_attempts, max_runtime_s, progress_timeout_s)
 ORDER BY x.tenant_id, x.key NULLS LAST, x.id
ON CONFLICT (tenant_id, key) WHERE key IS NOT NULL DO NOTHING
RETURNING id, state
