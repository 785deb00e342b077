-- name: queue_next
-- The first tasks of some lanes: queues take turns by their tenant's weight, each in its own order (at most `each` of a
-- lane are looked at, one index range a lane).
SELECT x.id, x.type, x.priority, n.slug AS tenant, u.name AS "user", x.waited_s, x.nth,
       greatest(0, extract(epoch FROM now() - x.enqueued_at))::float8 AS since_enqueued_s
  FROM (
    SELECT t.id, t.type, t.priority, l.tenant_id, l.user_id, t.enqueued_at,
           greatest(0, extract(epoch FROM now() - t.queued_at))::float8 AS waited_s,
           row_number() OVER (PARTITION BY l.tenant_id ORDER BY t.nth, t.enqueued_at, t.id) AS nth
      FROM lane l CROSS JOIN LATERAL (
        SELECT k.id, k.type, k.priority, k.enqueued_at, k.queued_at,
               row_number() OVER (ORDER BY k.priority DESC, k.enqueued_at, k.id) AS nth
          FROM (SELECT t.id, t.type, t.priority, t.enqueued_at, t.queued_at FROM task t
                 WHERE t.lane_id = l.id AND t.state = 1 ORDER BY t.priority DESC, t.enqueued_at, t.id LIMIT %(each)s) k) t
     WHERE l.id = ANY (%(lane_ids)s::bigint[])
  ) x JOIN tenant n ON n.id = x.tenant_id JOIN tenant_user u ON u.id = x.user_id
 ORDER BY x.nth / greatest(n.weight, 0.001), x.enqueued_at, x.id LIMIT %(each)s

-- name: queue_names
-- Names of users and tools.
SELECT 'user' AS kind, id, name FROM tenant_user WHERE id = ANY (%(users)s::bigint[])
UNION ALL SELECT 'tool', id, slug FROM tool WHERE id = ANY (%(tools)s::bigint[])
