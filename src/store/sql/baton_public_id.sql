-- The id of a row as the API shows it: a prefix and the digits of the UUID.
--
-- Called by the functions that write events.
create or replace function baton_public_id(p_prefix text, p_id uuid) returns text
language sql immutable as $$ select p_prefix || '_' || replace(p_id::text, '-', '') $$;
