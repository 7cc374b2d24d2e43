import { type Kysely, sql } from 'kysely';

/** What is known of models and the endpoints that serve them. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // Until when a tenant's sessions do not ask a model, by endpoint and credential. What one session is told holds its
  // tenant's others off for a few seconds: its request may have been larger than theirs. Beyond that at least two were
  // told so, and they wait as long as both; of another tenant's sessions one counts, so that no tenant holds off
  // another one alone. However many were told, a bounded number is looked at, the longest first.
  await sql`
    create function baton_pauses(p_model text, p_tenant text)
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
    end $$`.execute(db);

  // A server may be started with tools, or given another model: it is tried again once a day.
  await sql`
    create function baton_refuses_tools(p_refused_at timestamptz) returns boolean language sql stable as $$
      select coalesce(p_refused_at > clock_timestamp() - interval '1 day', false)
    $$`.execute(db);

  // What is known of the endpoints that serve a model, for whoever is about to ask it: limits, and pauses that are on.
  await sql`
    create function baton_model_memory(p_model text, p_tenant text) returns json language plpgsql stable as $$
    declare
      v_provider text := split_part(p_model, '/', 1);
      v_model text := substr(p_model, length(v_provider) + 2);
    begin
      return json_build_object('model', p_model,
        'limits', coalesce((select json_agg(json_build_object('endpoint', endpoint, 'contextWindow', context_tokens,
            'inputLimit', input_tokens, 'prior', estimator_prior,
            'refusesTools', baton_refuses_tools(tools_refused_at))) from model_limits
          where provider = v_provider and model = v_model), '[]'),
        'pauses', coalesce((select json_agg(json_build_object('endpoint', endpoint, 'credential', credential,
            'leftMs', ceil(extract(epoch from until_at - clock_timestamp()) * 1000))) from baton_pauses(v_model, p_tenant)), '[]'));
    end $$`.execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  for (const name of ['baton_model_memory', 'baton_refuses_tools', 'baton_pauses']) {
    await sql`drop function ${sql.ref(name)}`.execute(db);
  }
}
