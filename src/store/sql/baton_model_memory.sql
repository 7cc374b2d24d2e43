-- Returns the known limits of the endpoints that serve a model, the changes that they want, and the pauses that last. A worker gets it with its
-- claim.
--
-- Called by baton_claim_run.
create or replace function baton_model_memory(p_model text, p_tenant text) returns json language plpgsql stable as $$
declare
  v_provider text := split_part(p_model, '/', 1);
  v_model text := substr(p_model, length(v_provider) + 2);
  v_pauses json;
begin
  -- Apart, so that a model without a pause costs one short query.
  if exists (select 1 from provider_pauses where model = v_model and until_at > clock_timestamp()) then
    select json_agg(json_build_object('endpoint', endpoint, 'credential', credential,
        'leftMs', ceil(extract(epoch from until_at - clock_timestamp()) * 1000))) into v_pauses
      from baton_pauses(v_model, p_tenant);
  end if;
  return json_build_object('model', p_model,
    'limits', coalesce((select json_agg(json_build_object('endpoint', endpoint, 'contextWindow', context_tokens,
        'inputLimit', input_tokens, 'prior', estimator_prior,
        'refusesTools', baton_refuses_tools(tools_refused_at))) from model_limits
      where provider = v_provider and model = v_model), '[]'),
    'adaptations', coalesce((select json_agg(json_build_object('endpoint', endpoint, 'kind', kind, 'detail', detail)
        order by learned_at, kind, detail) from model_adaptations
      where tenant_id = p_tenant and provider = v_provider and model = v_model
        and baton_is_adapted(kind, learned_at)), '[]'),
    'pauses', coalesce(v_pauses, '[]'));
end $$;
