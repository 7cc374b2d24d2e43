-- The event of a user message that has entered the transcript. It carries the parts of a small message; of a large
-- one, its size and where to read it.
--
-- Called by baton_drain_inbox and baton_close_compaction.
create or replace function baton_message_created(p_session uuid, p_message uuid, p_seq bigint, p_parts jsonb,
  p_bytes bigint)
returns jsonb language plpgsql stable as $$
begin
  return jsonb_build_object('type', 'message:created', 'data', jsonb_build_object(
    'messageId', baton_public_id('msg', p_message), 'seq', p_seq, 'role', 'user') || case
      when p_bytes <= 16384 then jsonb_build_object('parts', p_parts)
      else jsonb_build_object('contentRef', jsonb_build_object(
        'sizeBytes', p_bytes,
        'href',
        '/v1/sessions/' || baton_public_id('ses', p_session) || '/messages?after=' || p_seq - 1 || '&limit=1')) end);
end $$;
