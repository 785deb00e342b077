-- name: list_processes
-- Our own processes that had a pulse lately, by kind.
SELECT id, kind, host, pid, started_at, info, extract(epoch FROM now() - beat_at)::float8 AS beat_age_s
  FROM process WHERE beat_at > now() - interval '1 hour' ORDER BY kind, id

-- name: list_leaders
-- Who dispatches each pool, how fast, and since which change of leadership.
SELECT p.slug AS pool, p.paused AND (p.paused_until IS NULL OR p.paused_until > now()) AS paused, p.paused_until,
       p.paused_by, p.pause_reason, l.epoch, l.cycle_no, l.cycle_ms, l.last_cycle_at, r.kind, r.host, r.pid,
       extract(epoch FROM now() - l.beat_at)::float8 AS beat_age_s
  FROM pool p JOIN pool_leader l ON l.pool_id = p.id LEFT JOIN process r ON r.id = l.process_id ORDER BY p.slug

-- name: describe_database
-- Version, size, connections and the newest migration.
SELECT current_setting('server_version') AS version, pg_database_size(current_database()) AS bytes,
       (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database())::int AS connections,
       (SELECT name FROM django_migrations WHERE app = 'dispatch' ORDER BY id DESC LIMIT 1) AS migration,
       pg_postmaster_start_time() AS started_at

-- name: is_future
-- Whether a time is still to come, by the database's clock.
SELECT %(at)s::timestamptz > now()
