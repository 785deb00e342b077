-- name: doctor_database
-- The server: version, clock, connections, what holds old transactions open.
SELECT current_setting('server_version_num')::int / 10000 AS version, clock_timestamp() AS clock,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int AS connections,
       current_setting('max_connections')::int AS max_connections,
       (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8 FROM pg_stat_activity
         WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'active') AS idle_transaction_s,
       current_setting('fsync') AS fsync, current_setting('autovacuum') AS autovacuum,
       pg_database_size(current_database()) AS bytes

-- name: doctor_leaders
-- Pools whose dispatcher is silent or slow.
SELECT p.slug, extract(epoch FROM now() - l.beat_at)::float8 AS beat_age_s, l.cycle_ms
  FROM pool p LEFT JOIN pool_leader l ON l.pool_id = p.id WHERE p.archived_at IS NULL ORDER BY p.slug

-- name: doctor_processes
-- Processes with a pulse by kind.
SELECT kind, count(*)::int AS count FROM process WHERE beat_at > now() - interval '5 seconds' GROUP BY 1

-- name: doctor_work
-- Work that should have moved: leases past their time, tasks past their due time, what is set aside, how old the newest
-- sample is, and how many changes of lane counts wait to be folded.
SELECT (SELECT count(*) FROM lease WHERE expires_at < now() - interval '1 minute') AS overdue_leases,
       (SELECT count(*) FROM (SELECT 1 FROM task WHERE state = 0 AND run_at < now() - interval '1 minute' LIMIT 10000) x) AS overdue_tasks,
       (SELECT count(*) FROM (SELECT 1 FROM task WHERE state = 3 LIMIT 10000) x) AS held,
       (SELECT extract(epoch FROM now() - max(at))::float8 FROM queue_sample WHERE step = 1) AS sample_age_s,
       (SELECT count(*) FROM (SELECT 1 FROM lane_delta LIMIT 200000) x) AS unfolded,
       (SELECT count(*) FROM settlement) AS settlements,
       (SELECT count(*) FROM alert WHERE resolved_at IS NULL AND severity = 'critical') AS critical_alerts,
       (SELECT count(*) FROM webhook WHERE NOT enabled) AS webhooks_off

-- name: doctor_indexes
-- Indexes that cannot be used, that nobody has used while they grew, or that hold far more than their rows need.
SELECT s.indexrelname AS name, s.relname AS table, pg_relation_size(s.indexrelid) AS bytes, s.idx_scan AS scans,
       i.indisvalid AS valid, i.indisunique AS unique, greatest(c.reltuples, 0)::bigint AS rows
  FROM pg_stat_user_indexes s JOIN pg_index i ON i.indexrelid = s.indexrelid JOIN pg_class c ON c.oid = s.indexrelid
 WHERE NOT i.indisvalid OR pg_relation_size(s.indexrelid) > 10000000
 ORDER BY 3 DESC

-- name: doctor_tables
-- Tables with many dead rows that vacuum has not come to.
SELECT relname AS table, n_live_tup AS live, n_dead_tup AS dead, last_autovacuum
  FROM pg_stat_user_tables WHERE n_dead_tup > 50000 AND n_dead_tup > n_live_tup / 5 ORDER BY n_dead_tup DESC
