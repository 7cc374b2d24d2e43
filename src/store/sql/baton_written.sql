-- JSON that is kept as text, as `toWrittenJson` (src/store/json.ts) writes it. Its numbers have all digits.
--
-- Called by baton_delivery_data and baton_given.
create or replace function baton_written(p_value jsonb) returns jsonb
language plpgsql immutable as $$
begin
  return case when jsonb_typeof(p_value -> '@json') = 'string' then (p_value ->> '@json')::jsonb else p_value end;
end $$;
