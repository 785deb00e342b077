-- name: database_now
-- The database's clock, the only one that decides anything.
SELECT now() AS now
