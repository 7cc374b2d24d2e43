import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import type { Db } from '../../../src/store/db/database.ts';
import { insertSession } from '../../../src/store/session/sessions.ts';

const TENANT = 'neighbour';

/** `md5(id)::uuid` of Postgres. */
const neighbourOf = (sessionId: string): string =>
  createHash('md5')
    .update(sessionId)
    .digest('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');

/** Puts a session of another tenant beside a session that is played. */
export async function addNeighbour(db: Db, sessionId: string): Promise<void> {
  const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: { name: 'tester', model: 'test/test' } };
  await insertSession(db, { id: neighbourOf(sessionId), tenantId: TENANT, ...agent, title: null, metadata: {} });
}

/**
 * From now on the neighbour of each played session has a message, parts and a queued message with the same ids. No act in
 * the played session may touch them, and none may read them, which its answer would show.
 */
export async function watchNeighbours(db: Db): Promise<void> {
  await sql`
    create function same_for_neighbour() returns trigger language plpgsql as $$
    declare
      v_session uuid := md5(new.session_id::text)::uuid;
    begin
      case tg_table_name
        when 'messages' then
          insert into messages (session_id, id, tenant_id, seq, role, finish_reason)
            values (v_session, new.id, ${sql.lit(TENANT)}, new.seq, new.role, 'other');
        when 'parts' then
          insert into parts (session_id, message_id, idx, tenant_id, type, content, state)
            values (v_session, new.message_id, new.idx, ${sql.lit(TENANT)}, new.type, '{"type":"text","text":"theirs"}',
              case when new.state is not null then 'running' end);
        when 'inbox' then
          insert into inbox (session_id, seq, tenant_id, id, content)
            values (v_session, new.seq, ${sql.lit(TENANT)}, new.id, '[{"type":"text","text":"theirs"}]');
      end case;
      return null;
    end $$`.execute(db);
  await sql`
    create function leave_neighbour() returns trigger language plpgsql as $$
    begin
      raise exception '% of the neighbour were touched', tg_table_name;
    end $$`.execute(db);
  for (const table of ['messages', 'parts', 'inbox']) {
    await sql`
      create trigger same_for_neighbour after insert on ${sql.table(table)} for each row
      when (new.tenant_id <> ${sql.lit(TENANT)}) execute function same_for_neighbour()`.execute(db);
    await sql`
      create trigger leave_neighbour before update or delete on ${sql.table(table)} for each row
      when (old.tenant_id = ${sql.lit(TENANT)}) execute function leave_neighbour()`.execute(db);
  }
}
