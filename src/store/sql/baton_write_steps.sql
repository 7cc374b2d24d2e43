-- Writes responses and ends of steps of several runs in one transaction, and returns their answers in the order of the
-- writes. If one fails, none is written: the caller repeats each alone.
--
-- Called by writeSteps (src/store/work/step-writes.ts).
--
-- Locks: those of each write, in the order of the runs' ids, so that two groups and a heartbeat cannot deadlock. A
-- group does not wait long for a session that another transaction has locked: the other sessions would wait, too.
create or replace function baton_write_steps(p_writes jsonb) returns json
language plpgsql set lock_timeout = '50ms' as $$
declare
  v_answers json[] := array_fill(null::json, array[jsonb_array_length(p_writes)]);
  v_write jsonb;
  v_at integer;
begin
  for v_write, v_at in
    select e.write, e.at from jsonb_array_elements(p_writes) with ordinality as e (write, at)
    order by e.write ->> 'runId'
  loop
    v_answers[v_at] := case v_write ->> 'kind'
      when 'finish' then baton_finish_step((v_write ->> 'runId')::uuid, (v_write ->> 'epoch')::bigint,
        (v_write ->> 'claimId')::uuid, v_write -> 'finish', '{}')
      else baton_write_response((v_write ->> 'runId')::uuid, (v_write ->> 'epoch')::bigint,
        (v_write ->> 'claimId')::uuid, v_write -> 'response', v_write -> 'events')::json end;
  end loop;
  return array_to_json(v_answers);
end $$;
