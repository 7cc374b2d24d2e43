-- Asks the workers of runs without children to stop them, and returns those that were asked. The others are cancelled one
-- by one: those that no worker has claimed, that have children, or whose session another transaction has locked.
--
-- Called by cancelChildless (src/store/changes/cancels.ts).
--
-- Locks: session and run of one after another, in the order of the runs' ids, as heartbeats and grouped writes lock them.
-- No session is waited for.
create or replace function baton_cancel_childless(p_runs uuid[]) returns jsonb language plpgsql as $$
declare
  v_run uuid;
  v_session uuid;
  v_last bigint;
  v_cancelled jsonb := '[]';
begin
  for v_run, v_session in
    select id, session_id from runs where id = any (p_runs) and status = 'running' and claim_id is not null order by id
  loop
    perform 1 from sessions where id = v_session for no key update skip locked;
    continue when not found;
    perform 1 from runs where id = v_run and children_count = 0 for no key update;
    continue when not found;
    v_last := baton_mark_cancelling(v_session, v_run, true);
    continue when v_last is null;
    v_cancelled := v_cancelled || jsonb_build_object('runId', v_run, 'sessionId', v_session, 'eventSeq', v_last);
  end loop;
  return v_cancelled;
end $$;
