-- Indexes the words of new messages, of users and assistants, of the sessions that are due. Returns how many messages it
-- looked at: with p_messages there are more. Null: another process is at it.
--
-- Tenants take turns, each with a few sessions. A session without more messages is due no longer; one whose run goes
-- on is due again in a minute. Done twice, or again after a crash, it changes nothing: rows and place are one
-- transaction. A message that is still being written is left for the next time.
--
-- Called by indexWords (src/store/around/message-words.ts).
--
-- Lock: waits for no session and keeps none waiting for longer than one update, except one that is to be deleted.
create or replace function baton_index_words(p_sessions integer, p_per_tenant integer, p_messages integer, p_chars integer)
returns integer language plpgsql as $$
declare
  v_due record;
  v_from bigint;
  v_upto bigint;
  v_count integer;
  v_looked integer := 0;
  v_ids uuid[] := '{}';
  v_seen timestamptz[] := '{}';
begin
  if not pg_try_advisory_xact_lock(1652651122, 'message_words'::regclass::oid::integer) then return null; end if;
  for v_due in
    with recursive tenants as (
      (select s.tenant_id as id from sessions s where s.words_due_at is not null order by s.tenant_id limit 1)
      union all
      select (select s.tenant_id from sessions s where s.words_due_at is not null and s.tenant_id > t.id
        order by s.tenant_id limit 1) from tenants t where t.id is not null
    )
    select due.* from tenants t cross join lateral (
      select s.id, s.tenant_id, s.created_at, s.words_due_at, row_number() over (order by s.words_due_at) as nth from (
        select n.id, n.tenant_id, n.created_at, n.words_due_at from sessions n
        where n.tenant_id = t.id and n.words_due_at <= clock_timestamp() order by n.words_due_at limit p_per_tenant
      ) as s
    ) as due
    where t.id is not null order by due.nth, due.words_due_at limit p_sessions
  loop
    exit when v_looked >= p_messages;
    select w.indexed_seq into v_from from session_words w join sessions s on s.id = w.session_id
      where w.session_id = v_due.id for no key update of w skip locked for key share of s skip locked;
    continue when not found;
    with looked as (
      select m.id, m.seq, m.finished_at is not null and not m.superseded and not m.is_summary as is_said,
        m.finished_at is null and not m.superseded as is_open
        from messages m where m.session_id = v_due.id and m.seq > v_from order by m.seq limit p_messages - v_looked
    ), written as (
      insert into message_words (session_id, seq, tenant_id, created_at, words)
        select v_due.id, l.seq, v_due.tenant_id, v_due.created_at, array_to_tsvector(array(
            -- So many, because a tsvector has at most a megabyte.
            select v_due.tenant_id || ' ' || word from unnest(baton_split_words(array[said.text])) as word limit 2000)
            -- The stretches of time in which the session was created: searches ask for one of them (WORD_WINDOW_BITS).
            || array(select v_due.tenant_id || ' #' || bits || ':' || (floor(extract(epoch from v_due.created_at))::bigint >> bits)
              from unnest(array[9, 12, 15, 18, 21, 24]) as bits))
          from looked l cross join lateral (
            select left(string_agg(p.content ->> 'text', ' ' order by p.idx), p_chars) as text from parts p
              where p.session_id = v_due.id and p.message_id = l.id and p.type = 'text'
          ) as said
          where l.is_said and said.text <> ''
        on conflict do nothing
    )
    select count(*), coalesce(max(l.seq) - coalesce(bool_or(l.is_open and l.seq = newest.seq), false)::integer, v_from)
      into v_count, v_upto from looked l, (select max(seq) as seq from looked) as newest;
    update session_words set indexed_seq = v_upto where session_id = v_due.id and indexed_seq < v_upto;
    v_looked := v_looked + v_count;
    if v_looked < p_messages then
      v_ids := v_ids || v_due.id;
      v_seen := v_seen || v_due.words_due_at;
    end if;
  end loop;
  -- By the very time that was seen: a run that has ended since has made the session due anew.
  update sessions s set
    words_due_at = case s.status when 'busy' then clock_timestamp() + interval '1 minute' end
    from unnest(v_ids, v_seen) as done (id, seen)
    where s.id = done.id and s.words_due_at = done.seen
      and s.id = any(array(select id from sessions where id = any(v_ids) for no key update skip locked));
  return v_looked;
end $$;
