-- name: take_leadership
-- A new leader raises the epoch: cycles of the one before find no row any more.
INSERT INTO pool_leader (pool_id, epoch, process_id, backend_pid, beat_at, memory)
VALUES (%(pool_id)s, 1, %(process_id)s, %(backend_pid)s, now(), '{}')
ON CONFLICT (pool_id) DO UPDATE
   SET epoch = pool_leader.epoch + 1, process_id = excluded.process_id, backend_pid = excluded.backend_pid,
       beat_at = now()
RETURNING epoch

-- name: depose_stuck
-- End the lock holder's backend when its leader has shown no pulse for 3 s. The lock's own holder is asked for, so that
-- a number that PostgreSQL has given to somebody else meanwhile is left alone.
SELECT pg_terminate_backend(k.pid) AS ended, k.pid
  FROM pool_leader l
  JOIN pg_locks k ON k.locktype = 'advisory' AND k.granted AND k.classid = %(section)s::bigint::oid
                 AND k.objid = l.pool_id::oid AND k.pid = l.backend_pid
                 AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
 WHERE l.pool_id = %(pool_id)s AND l.beat_at < now() - interval '3 seconds'

-- name: depose_stuck_cycle
-- And the backend of the cycle that such a leader has left open: its lock on the pool's row would keep the next leader
-- waiting. Known by that lock, and by a client that says nothing (or takes nothing) in the middle of a transaction.
SELECT pg_terminate_backend(a.pid) AS ended, a.pid
  FROM pool_leader l
  JOIN pg_locks k ON k.locktype = 'relation' AND k.granted AND k.relation = 'pool_leader'::regclass
                 AND k.mode = 'RowExclusiveLock'
                 AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  JOIN pg_stat_activity a ON a.pid = k.pid
 WHERE l.pool_id = %(pool_id)s AND l.beat_at < now() - interval '3 seconds' AND a.pid <> pg_backend_pid()
   AND (a.state = 'idle in transaction' AND a.state_change < now() - interval '1 second'
        OR a.wait_event = 'ClientWrite')

-- name: depose_silent
-- End the lock holder's backend when it has been idle for 10 s: a healthy holder shows itself every second.
SELECT pg_terminate_backend(a.pid) AS ended, a.pid
  FROM pg_locks k JOIN pg_stat_activity a ON a.pid = k.pid
 WHERE k.locktype = 'advisory' AND k.granted AND k.classid = %(section)s::bigint::oid AND k.objid = %(number)s::bigint::oid
   AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND a.state = 'idle' AND a.state_change < now() - interval '10 seconds'

-- name: active_pools
-- Pools that need a leader.
SELECT id, slug FROM pool WHERE archived_at IS NULL ORDER BY id
