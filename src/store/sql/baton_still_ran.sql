-- Names of the tools of the last step that were still running when the cancel was requested and have finished
-- since. A call of unknown outcome that is settled after the cancel counts: it may have run on. An output that a
-- client gave does not.
--
-- Called by baton_write_branch.
create or replace function baton_still_ran(p_run uuid) returns jsonb language plpgsql stable as $$
begin
  return (select coalesce(jsonb_agg(p.tool_name order by m.seq, p.idx), '[]')
    from runs r
    join messages m on m.run_id = r.id and m.step_no = r.pending_no and m.role = 'assistant' and not m.superseded
    join parts p on p.session_id = m.session_id and p.message_id = m.id and p.type = 'tool'
    where r.id = p_run and p.started_at is not null and p.finished_at >= r.cancel_requested_at
      and not coalesce(p.answer -> 'given' ->> 'kind' in ('output', 'content'), false));
end $$;
