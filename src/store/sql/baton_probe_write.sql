-- Fails where the disk of Postgres is full, and leaves no row. It inserts until the table grows, since a full disk
-- still takes rows that fit into existing pages, and rolls back. Pages that earlier probes left are filled first, a
-- few dozen at most; vacuum cuts them off.
--
-- Called by probeWrite (src/store/db/write-probe.ts).
create or replace function baton_probe_write() returns void language plpgsql as $$
declare
  v_bytes bigint := pg_relation_size('write_probe');
begin
  begin
    for v_page in 1..200 loop
      insert into write_probe (filler) values (repeat('x', 8000));
      exit when pg_relation_size('write_probe') > v_bytes;
    end loop;
    raise exception using errcode = 'BT000', message = 'take it back';
  exception when sqlstate 'BT000' then
    null;
  end;
end $$;
