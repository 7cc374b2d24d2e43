-- Ends a compaction or prune: marks, summary, state, usage, events and what comes next commit together. Null: the
-- worker is fenced.
--
-- Called by finishMaintenance (src/store/work/maintenance.ts).
--
-- Locks: baton_lock_claimed_run takes the locks in statements of its own, so that everything after it reads what
-- the previous holder committed.
create or replace function baton_finish_maintenance(p_run uuid, p_epoch bigint, p_claim uuid, p_finish jsonb)
returns json
language plpgsql as $$
declare
  v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
begin
  if v_run.id is null then return null; end if;
  perform baton_mark_parts(v_run.session_id, p_finish -> 'marks');
  if p_finish -> 'compaction' is not null then
    perform baton_close_compaction(v_run.session_id, p_run, p_finish -> 'compaction');
  end if;
  return baton_take_branch(v_run, p_finish);
end $$;
