-- Reads which history of the database this is. p_epoch and p_lsn are what the caller saw last; null: nothing yet. The
-- epoch changes when the row is found in another server, timeline, database or table than before, or when the log of
-- the caller's epoch has become shorter: after a failover, a restore of a dump, of a backup or of a disk.
--
-- Called by readHistory (src/store/db/history.ts), on each new connection and each second.
--
-- Lock: the row of the table, only for a change.
create or replace function baton_read_history(p_epoch text, p_lsn text) returns json language plpgsql as $$
declare
  v_row history;
  v_lsn pg_lsn;
  v_identity text;
begin
  select * into v_row from history;
  if pg_is_in_recovery() then return json_build_object('epoch', v_row.epoch, 'lsn', null); end if;
  v_lsn := pg_current_wal_lsn();
  -- The control file names the timeline of its last checkpoint, which may be from before a promotion.
  v_identity := concat_ws('/', left(pg_walfile_name(v_lsn), 8), 'history'::regclass::oid,
    (select oid from pg_database where datname = current_database()));
  begin
    v_identity := concat_ws('/', v_identity, (select system_identifier from pg_control_system()));
  exception when insufficient_privilege then
    -- Some hosts refuse it. The rest tells all but a copy of the whole disk to another server.
    null;
  end;
  -- There is no row at first, and after a restore that emptied the tables before.
  if v_row.identity = v_identity and not coalesce(p_epoch = v_row.epoch and v_lsn < p_lsn::pg_lsn, false) then
    return json_build_object('epoch', v_row.epoch, 'lsn', v_lsn);
  end if;
  insert into history (epoch, identity) values ('', '') on conflict do nothing;
  select * into v_row from history for update;
  if v_row.identity <> v_identity or coalesce(p_epoch = v_row.epoch and v_lsn < p_lsn::pg_lsn, false) then
    update history set epoch = left(gen_random_uuid()::text, 8), identity = v_identity returning * into v_row;
  end if;
  return json_build_object('epoch', v_row.epoch, 'lsn', v_lsn);
end $$;
