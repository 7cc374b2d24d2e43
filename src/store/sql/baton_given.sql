-- An answer to a call as it is compared: neither the order of keys nor the spelling of numbers counts.
--
-- Called by findCallState and compareOutputs (src/store/changes/call-answers.ts).
create or replace function baton_given(p_given jsonb) returns jsonb
language plpgsql immutable as $$
begin
  return p_given
    || case when p_given ? 'output' then jsonb_build_object('output', baton_written(p_given -> 'output')::jsonb) else '{}' end
    || case when p_given ? 'args' then jsonb_build_object('args', baton_written(p_given -> 'args')::jsonb) else '{}' end;
end $$;
