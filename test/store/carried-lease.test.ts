import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../src/platform/new-id.ts';
import type { Db } from '../../src/store/db/database.ts';
import type { CarryOn } from '../../src/store/work/step-writes.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { goOn, openRace } from './race.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

const carry = (leaseDurationMs: number): CarryOn => ({
  claimId: newId(),
  messageId: newId(),
  leaseDurationMs,
  tenantConcurrency: 0,
  known: undefined,
});

/** Counts of this connection's recent updates of the table's rows: all updates, and those that touched no index. */
async function updatesOf(tx: Db, table: 'runs' | 'sessions') {
  const { rows } = await sql<{ updated: number; withoutIndex: number }>`
    select pg_stat_get_xact_tuples_updated(${table}::regclass)::integer as updated,
      pg_stat_get_xact_tuples_hot_updated(${table}::regclass)::integer as "withoutIndex"`.execute(tx);
  return rows[0] ?? { updated: 0, withoutIndex: 0 };
}

describe('the step that the same worker carries on with', () => {
  it('is written with one update of its run and one of its session, and neither touches an index', async () => {
    const race = await openRace(database.db);
    const begun = await race.begin();
    await database.db.transaction().execute(async (tx) => {
      const runs = await updatesOf(tx, 'runs');
      const sessions = await updatesOf(tx, 'sessions');
      const { claimed } = await goOn(tx, begun, undefined, [], carry(30_000));
      expect(claimed).toMatchObject({ epoch: begun.fence.epoch + 1, run: { stepCount: 1 } });
      expect(await updatesOf(tx, 'runs')).toEqual({ updated: runs.updated + 1, withoutIndex: runs.withoutIndex + 1 });
      expect(await updatesOf(tx, 'sessions')).toEqual({
        updated: sessions.updated + 1,
        withoutIndex: sessions.withoutIndex + 1,
      });
    });
  });

  it.each([
    ['keeps the lease of the one before, if more than half of it is left', 30_000, false],
    ['renews the lease otherwise', 120_000, true],
  ])('%s', async (_what, leaseDurationMs, isRenewed) => {
    const race = await openRace(database.db);
    const begun = await race.begin();
    const lease = async () => {
      const { rows } = await sql<{ leftMs: number; at: string }>`
        select lease_expires_at::text as at,
          extract(epoch from lease_expires_at - clock_timestamp())::double precision * 1000 as "leftMs"
        from runs where id = ${begun.fence.runId}`.execute(race.db);
      return rows[0];
    };
    const before = await lease();
    const { claimed } = await goOn(race.db, begun, undefined, [], carry(leaseDurationMs));
    expect(claimed).not.toBeNull();
    const after = await lease();
    expect(after?.at !== before?.at).toBe(isRenewed);
    expect(after?.leftMs).toBeGreaterThan(leaseDurationMs / 2);
  });
});
