-- The bytes of a delivery, which stay the same over all attempts.
--
-- Called by baton_write_deliveries and testWebhook (src/store/around/webhooks.ts).
create or replace function baton_delivery_body(p_id uuid, p_type text, p_data json) returns bytea
language plpgsql as $$
begin
  return convert_to(json_build_object(
    'id', baton_public_id('dlv', p_id),
    'type', p_type,
    'timestamp', to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'data', p_data)::text, 'UTF8');
end $$;
