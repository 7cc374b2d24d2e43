-- JSON that is kept as text, as `toWrittenJson` (src/store/db/json.ts) writes it. Its numbers have all digits, and its keys their order.
--
-- Called by baton_delivery_data and baton_given.
create or replace function baton_written(p_value jsonb) returns json
language plpgsql immutable as $$
begin
  return case when jsonb_typeof(p_value -> '@json') = 'string' then (p_value ->> '@json')::json else p_value::json end;
end $$;
