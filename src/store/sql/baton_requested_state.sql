-- The context state of a session whose compaction or prune was requested through the API.
--
-- Called by baton_take_requested and baton_take_branch.
create or replace function baton_requested_state() returns jsonb language sql immutable as $$
  select '{"pending": {"reason": "manual", "force": true, "stripMedia": false}}'::jsonb
$$;
