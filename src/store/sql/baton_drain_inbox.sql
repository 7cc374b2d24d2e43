-- Turns the messages that wait for a run into one message of the transcript, and returns its number. The parts stand
-- in the order of arrival; of several messages, the first part of each has its queuedNo. The message has the id of the
-- first. At most 100 messages of 1 MiB together, and at least one, are taken: the rest waits for the next step. Null:
-- no message waits.
--
-- Called by baton_begin_step.
--
-- Lock: the caller holds the session and the claimed run. `is not distinct from` keeps the planner with the index
-- of waiting messages: with `=` it would take the index by run, which finds all messages that the run ever took.
create or replace function baton_drain_inbox(p_session uuid, p_run uuid, p_step integer) returns bigint
language plpgsql as $$
declare
  v_tenant text;
  v_upto bigint;
  v_bytes bigint;
  v_seq bigint;
  v_message uuid;
  v_items jsonb;
  v_ids jsonb;
  v_parts jsonb;
begin
  select max(seq), max(bytes) into v_upto, v_bytes from (
    select seq, row_number() over by_seq as no, sum(content_bytes) over by_seq as bytes from inbox
      where session_id = p_session and consumed_message_seq is null and run_id is not distinct from p_run
      window by_seq as (order by seq rows unbounded preceding) limit 100
  ) as waiting where no = 1 or bytes <= 1048576;
  if v_upto is null then return null; end if;
  select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('id', baton_public_id('msg', id), 'enqueuedAt', enqueued_at,
      'delivery', delivery, 'origin', nullif(origin, 'user')))
      order by seq),
    jsonb_agg(baton_public_id('msg', id) order by seq), (array_agg(id order by seq))[1]
    into v_items, v_ids, v_message from inbox
    where session_id = p_session and consumed_message_seq is null and run_id is not distinct from p_run
      and seq <= v_upto;
  select jsonb_agg(
      case when total > 1 and ord = 1 then part || jsonb_build_object('queuedNo', no) else part end order by no, ord)
    into v_parts from (
      select content, row_number() over (order by seq) as no, count(*) over () as total from inbox
      where session_id = p_session and consumed_message_seq is null and run_id is not distinct from p_run
      and seq <= v_upto
    ) as taken, jsonb_array_elements(content) with ordinality as e (part, ord);
  update sessions set message_seq = message_seq + 1
    where id = p_session returning message_seq, tenant_id into v_seq, v_tenant;
  update inbox set consumed_message_seq = v_seq
    where session_id = p_session and consumed_message_seq is null and run_id is not distinct from p_run
      and seq <= v_upto;
  insert into messages (id, tenant_id, session_id, seq, role, run_id, step_no, metadata, finished_at)
    values (v_message, v_tenant, p_session, v_seq, 'user', p_run, p_step,
      jsonb_build_object('inbox', v_items), clock_timestamp());
  insert into parts (session_id, message_id, idx, tenant_id, type, content)
    select p_session, v_message, e.ord - 1, v_tenant, e.part ->> 'type', e.part
    from jsonb_array_elements(v_parts) with ordinality as e (part, ord);
  perform baton_append_events(p_session, p_run, jsonb_build_array(
    jsonb_build_object('type', 'message:dequeued', 'data', jsonb_build_object(
      'count', jsonb_array_length(v_ids), 'ids', v_ids, 'coalesced', jsonb_array_length(v_ids) > 1)),
    baton_message_created(p_session, v_message, v_seq, v_parts, v_bytes)));
  return v_seq;
end $$;
