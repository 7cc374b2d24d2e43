-- Adds bytes to what a tenant stores. The sum of all shares of the tenant is exact; a transaction takes any share
-- that no other one has locked, so that none waits.
--
-- Called by the triggers of the tables whose rows are counted; src/store/quota.ts reads the sum.
--
-- Lock: one row of stored_bytes, with skip locked. The update comes after it, in a statement of its own, and finds
-- the row as it was locked.
create or replace function baton_count_stored(p_tenant_id text, p_bytes bigint) returns void language plpgsql as $$
declare
  v_share integer;
begin
  if p_bytes = 0 then return; end if;
  select share into v_share from stored_bytes where tenant_id = p_tenant_id
    order by share limit 1 for no key update skip locked;
  if found then
    update stored_bytes set bytes = bytes + p_bytes where tenant_id = p_tenant_id and share = v_share;
  else
    insert into stored_bytes (tenant_id, share, bytes)
    values (p_tenant_id, floor(random() * 2147483647)::integer, p_bytes);
  end if;
end $$;
