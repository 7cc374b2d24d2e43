-- A page of the view: with p_after = 0 the summary and the messages from the start of the view on, else the
-- messages after p_after; at most 2000. next_after is where the next page begins, null after the last. Earlier
-- messages change only with sessions.view_version. Each part has its state and its marks beside it: merging them
-- here would double the time of a large view. The output of a pruned call is not read.
--
-- Called by readFirstPage (src/store/session/context.ts), readViewPage and readNewestOfView (src/store/transcript/views.ts), and the
-- functions that begin a step.
--
-- In PL/pgSQL, as every function that a step calls: a SQL function that cannot be inlined is planned again by every
-- query that calls it. With a generic plan: Postgres guesses that a plan for the given number is a little cheaper, and
-- would make one for every step, which costs more than all that the plan then reads.
create or replace function baton_view(p_session uuid, p_after bigint default 0, out view json, out next_after bigint)
language plpgsql stable set plan_cache_mode = 'force_generic_plan' as $$
declare
  v_first bigint;
  v_summary bigint;
begin
  select greatest(view_start_seq, p_after + 1), case when p_after = 0 then summary_message_seq end
    into v_first, v_summary from sessions where id = p_session;
  select coalesce(json_agg(json_build_object(
      'id', m.id, 'seq', m.seq, 'role', m.role, 'model', m.model, 'parts', p.parts)
      order by m.is_summary desc, m.seq), '[]'),
    case when count(*) filter (where not m.is_summary) = 2000 then max(m.seq) filter (where not m.is_summary) end
    into view, next_after
  from (
    (select id, seq, role, model, is_summary from messages where session_id = p_session and seq = v_summary)
    union all
    (select id, seq, role, model, is_summary from messages
      where session_id = p_session and seq >= v_first and not is_summary
        and not superseded and reverted_no is null and (role = 'user' or finish_reason is not null)
      order by seq limit 2000)
  ) m
  cross join lateral (
    select coalesce(json_agg(json_build_array(
      case when parts.compacted_at is null then parts.content else parts.content - 'output' end,
      parts.state,
      case when coalesce(parts.compacted_at, parts.media_stripped_at) is not null or parts.view_limit is not null then
        json_strip_nulls(json_build_object(
          'pruned', case when parts.compacted_at is not null then true end,
          'viewLimitChars', parts.view_limit,
          'mediaStripped', case when parts.media_stripped_at is not null then true end))
      end) order by parts.idx), '[]') as parts
    from parts where parts.session_id = p_session and parts.message_id = m.id
  ) p;
end $$;
