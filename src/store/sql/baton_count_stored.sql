-- Adds bytes to what a tenant stores. The sum of all shares of the tenant is exact; a transaction takes any share
-- that no other one has locked, so that none waits.
--
-- Called by the triggers of the tables whose rows are counted; src/store/session/quota.ts reads the sum.
--
-- Lock: one row of stored_bytes, with skip locked. If another transaction has changed it since the statement began, the
-- update goes on from its newest version, as the lock does.
create or replace function baton_count_stored(p_tenant_id text, p_bytes bigint) returns void language plpgsql as $$
begin
  if p_bytes = 0 then return; end if;
  update stored_bytes set bytes = bytes + p_bytes where tenant_id = p_tenant_id and share = (
    select share from stored_bytes where tenant_id = p_tenant_id order by share limit 1 for no key update skip locked);
  if not found then
    insert into stored_bytes (tenant_id, share, bytes)
    values (p_tenant_id, floor(random() * 2147483647)::integer, p_bytes);
  end if;
end $$;
