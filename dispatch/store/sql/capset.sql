-- name: intern_capsets
-- Capability sets that are not known yet come into being, and so do their names. Sets arrive as JSON arrays of
-- sorted names, so that sets of different lengths fit one parameter.
WITH sets AS (SELECT x::jsonb AS names FROM unnest(%(sets)s::text[]) x),
n AS (
    INSERT INTO capability (slug) SELECT DISTINCT e FROM sets, jsonb_array_elements_text(sets.names) e ORDER BY 1
    ON CONFLICT (slug) DO NOTHING
)
INSERT INTO capset (names)
SELECT DISTINCT ARRAY(SELECT jsonb_array_elements_text(sets.names)) AS names FROM sets ORDER BY 1
ON CONFLICT (names) DO NOTHING

-- name: find_capsets
-- The ids of capability sets.
SELECT c.id, c.names FROM capset c
 WHERE c.names IN (SELECT ARRAY(SELECT jsonb_array_elements_text(x::jsonb))::varchar[] FROM unnest(%(sets)s::text[]) x)
