-- Until when the sessions of a tenant do not ask a model, by endpoint and credential. A pause that one session was
-- told holds the other sessions of its tenant off for 5 seconds at most, because its request may have been larger
-- than theirs. Where two sessions were told one, all wait as long as both. Of other tenants one session counts, so
-- that no tenant alone holds another off. At most 64 pauses of either kind are looked at, the longest first.
--
-- Called by pauseLeftMs (src/store/work/provider-pauses.ts) and baton_model_memory.
create or replace function baton_pauses(p_model text, p_tenant text)
returns table (endpoint text, credential text, until_at timestamptz) language plpgsql stable as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
begin
  if coalesce((select max(until_at) from provider_pauses where model = p_model) <= v_now, true) then return; end if;
  return query
    with live as (
      (select * from provider_pauses where model = p_model and until_at > v_now order by until_at desc limit 64)
      union
      (select * from provider_pauses where model = p_model and tenant_id = p_tenant and until_at > v_now limit 64)
    ), told as (
      select endpoint, credential, until_at from live
      union all
      select endpoint, credential, agreed_until_at from live where tenant_id = p_tenant and agreed_until_at is not null
    ), ranked as (
      select endpoint, credential, until_at,
        row_number() over (partition by endpoint, credential order by until_at desc) as place from told
    ), paused as (
      select endpoint, credential, until_at from ranked where place = 2
      union all
      select endpoint, credential, least(until_at, told_at + interval '5 seconds') from live where tenant_id = p_tenant
    )
    select endpoint, credential, max(until_at) from paused where until_at > v_now group by endpoint, credential;
end $$;
