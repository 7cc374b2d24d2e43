-- Moves one tool call from one of the given states to another. False: it was in none of them, and nothing is
-- written. A cut output names its original size and brings the whole output as a blob, which equal outputs of the
-- tenant share. A question is kept with the call, for the worker that goes on with it after the answer. A call of unknown
-- outcome that was answered, started again and interrupted again loses its answer.
--
-- Called by baton_move_calls and baton_finish_step.
--
-- Lock: the caller holds the session and the run. The upsert of the blob locks a blob that exists, so that garbage
-- collection cannot delete it before the reference is committed.
create or replace function baton_move_call(p_session uuid, p_move jsonb, p_blob_bytes bytea)
returns boolean language plpgsql as $$
declare
  v_message uuid := (p_move ->> 'messageId')::uuid;
  v_idx integer := (p_move ->> 'index')::integer;
  v_to text := p_move ->> 'to';
  v_tenant text;
  v_blob uuid;
begin
  update parts set
    state = v_to,
    answer = case when (p_move ->> 'forgetsAnswer')::boolean then null else answer end,
    question = coalesce(p_move -> 'question', question),
    content = case when p_move -> 'output' is null then content
      else content || jsonb_build_object('output', p_move -> 'output') end,
    truncated = truncated or p_move -> 'originalTokens' is not null,
    original_tokens = coalesce((p_move ->> 'originalTokens')::integer, original_tokens),
    started_at = case
      when v_to = 'running' then clock_timestamp()
      when v_to = 'pending' then null
      when p_move ->> 'ranMs' is not null
        then clock_timestamp() - make_interval(secs => (p_move ->> 'ranMs')::double precision / 1000)
      else started_at end,
    finished_at = case when v_to in ('completed', 'error', 'denied') then clock_timestamp() else finished_at end
    where session_id = p_session and message_id = v_message and idx = v_idx and p_move -> 'from' ? state
    returning tenant_id into v_tenant;
  if not found then return false; end if;
  if p_blob_bytes is not null then
    insert into blobs (id, tenant_id, sha256, media_type, size_bytes, bytes)
      values ((p_move -> 'blob' ->> 'id')::uuid, v_tenant, decode(p_move -> 'blob' ->> 'sha256', 'hex'),
        p_move -> 'blob' ->> 'mediaType', length(p_blob_bytes), p_blob_bytes)
      on conflict (tenant_id, sha256) do update set created_at = clock_timestamp() returning id into v_blob;
    insert into blob_refs (blob_id, session_id, tenant_id) values (v_blob, p_session, v_tenant)
      on conflict do nothing;
    update parts set content = content || jsonb_build_object('outputBlobId', baton_public_id('blob', v_blob))
      where session_id = p_session and message_id = v_message and idx = v_idx;
  end if;
  return true;
end $$;
