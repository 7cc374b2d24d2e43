-- Marks parts of a session as pruned, stripped of media or limited, which changes its view. The first mark stays,
-- and says when.
--
-- Called by baton_finish_maintenance.
--
-- Lock: the caller holds the session.
create or replace function baton_mark_parts(p_session uuid, p_marks jsonb) returns void language plpgsql as $$
begin
  if coalesce(jsonb_array_length(p_marks), 0) = 0 then return; end if;
  update sessions set view_version = view_version + 1 where id = p_session;
  update parts set
    compacted_at =
      case when (mark ->> 'pruned')::boolean then coalesce(compacted_at, clock_timestamp()) else compacted_at end,
    media_stripped_at = case when (mark ->> 'mediaStripped')::boolean
      then coalesce(media_stripped_at, clock_timestamp()) else media_stripped_at end,
    earlier_view_limits = case when (mark ->> 'viewLimitChars')::integer is distinct from view_limit and mark ? 'viewLimitChars'
      then coalesce(earlier_view_limits, '[]') || jsonb_build_object('until', clock_timestamp(), 'chars', view_limit)
      else earlier_view_limits end,
    view_limit = coalesce((mark ->> 'viewLimitChars')::integer, view_limit),
    original_tokens = coalesce(original_tokens, (mark ->> 'originalTokens')::integer)
  -- `offset 0` as in baton_take_branch.
  from (select p_session as id, mark from jsonb_array_elements(p_marks) as mark offset 0) as marked
  where session_id = marked.id and message_id = (mark ->> 'messageId')::uuid and idx = (mark ->> 'index')::integer;
end $$;
