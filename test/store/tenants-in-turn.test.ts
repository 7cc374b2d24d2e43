import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { newId } from '../../src/platform/new-id.ts';
import { findExpiredWaits } from '../../src/store/changes/call-answers.ts';
import type { Db } from '../../src/store/db/database.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { claimRun } from '../../src/store/work/claims.ts';
import { findDueWork } from '../../src/store/work/due-work.ts';
import { findExpiredLeases, findUnclaimed } from '../../src/store/work/lost-work.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { acceptMessage } from '../support/unlimited.ts';

/** Runs whose work has been due since an hour ago, a second longer for each further one. Their ids, the longest first. */
async function startRuns(db: Db, tenantId: string, count: number): Promise<string[]> {
  const runs: string[] = [];
  for (let n = 0; n < count; n++) {
    const sessionId = newId();
    const agent = { agentName: 'a', agentVersion: '1', agentSnapshot: {} };
    await insertSession(db, { id: sessionId, tenantId, ...agent, title: null, metadata: {} });
    const ids = { tenantId, sessionId, messageId: newId(), runId: newId() };
    await acceptMessage(db, { ...ids, content: [{ type: 'text', text: 'Go' }] });
    await sql`update runs set pending_at = clock_timestamp() - interval '1 hour' - ${n} * interval '1 second'
      where id = ${ids.runId}`.execute(db);
    runs.unshift(ids.runId);
  }
  return runs;
}

const at = (runs: readonly string[], ...places: readonly number[]) => places.map((place) => runs[place]);

describe('of the tenants in turn', () => {
  it('a sweep finds unclaimed work, of each tenant the longest due first', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const loud = await startRuns(db, 'loud', 6);
    const compacting = await startRuns(db, 'loud', 1);
    await sql`update runs set pending_kind = 'compaction', pending_at = clock_timestamp() - interval '2 hours'
      where id = ${compacting[0]}`.execute(db);
    const quiet = await startRuns(db, 'quiet', 2);
    const found = (await findUnclaimed(db, 1_000, 5)).map(({ runId }) => runId);
    expect(found).toEqual([...at(compacting, 0), ...at(quiet, 0), ...at(loud, 0), ...at(quiet, 1), ...at(loud, 1)]);
    expect(await findUnclaimed(db, 1_000, 100)).toHaveLength(9);
  });

  it('a sweep finds expired leases, and waits that are over', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const loud = await startRuns(db, 'loud', 4);
    const quiet = await startRuns(db, 'quiet', 1);
    const runs = [...loud, ...quiet];
    for (const [nth, runId] of runs.entries()) {
      const job = { runId, kind: 'step', no: 1, dispatch: 1 } as const;
      const claim = { job, claimId: newId(), workerId: 'w', leaseDurationMs: 1, messageId: newId() };
      expect((await claimRun(db, claim)).outcome).toBe('claimed');
      await sql`update runs set lease_expires_at = clock_timestamp() - interval '1 hour' + ${nth} * interval '1 second'
        where id = ${runId}`.execute(db);
    }
    expect((await findExpiredLeases(db, 2)).map(({ id }) => id)).toEqual([...at(loud, 0), ...at(quiet, 0)]);
    await sql`update runs set status = 'requires_action', claim_id = null, approval_expires_at = lease_expires_at`.execute(
      db,
    );
    expect((await findExpiredWaits(db, 2)).map(({ id }) => id)).toEqual([...at(loud, 0), ...at(quiet, 0)]);
  });
});

describe('the due work for extra slots', () => {
  const asked = { without: [], after: '', perTenant: 2, waitedMs: 1_000 };
  const find = async (db: Db, changes = {}) =>
    (await findDueWork(db, 'step', { ...asked, ...changes })).due.map(({ job }) => job.runId);

  it('is some of each tenant, the longest due first, without those that are left out', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const a = await startRuns(db, 'a', 3);
    const b = await startRuns(db, 'b', 1);
    const c = await startRuns(db, 'c', 1);
    expect(await find(db)).toEqual([...at(a, 0, 1), ...b, ...c]);
    expect(await find(db, { without: ['a', 'c'] })).toEqual(b);
    expect(await find(db, { after: 'a' })).toEqual([...b, ...c]);
    expect(await findDueWork(db, 'prune', asked)).toEqual({ due: [], last: null });
  });

  it('is not what is claimed, delayed, throttled, for a newer worker, or due only just now', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const [claimed, delayed, throttled, newer, checked, recent] = await startRuns(db, 'a', 6);
    await sql`update runs set claim_id = gen_random_uuid() where id = ${claimed}`.execute(db);
    await sql`update runs set pending_at = clock_timestamp() + interval '1 hour' where id = ${delayed}`.execute(db);
    await sql`update runs set throttled_at = clock_timestamp() where id = ${throttled}`.execute(db);
    await sql`update runs set required_engine = 1000 where id = ${newer}`.execute(db);
    await sql`update runs set pending_at = clock_timestamp() where id = ${recent}`.execute(db);
    // A sweep has looked at it, and looks again in 3 s.
    await sql`update runs set next_check_at = clock_timestamp() + interval '3 seconds' where id = ${checked}`.execute(
      db,
    );
    expect(await find(db, { perTenant: 10 })).toEqual([checked]);
    expect(await find(db, { perTenant: 10, waitedMs: 0 })).toEqual([recent, checked]);
  });

  it('is looked for in pieces, each of which goes on behind the last one', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const [run] = await startRuns(db, 'first', 1);
    await sql`with copies as (
        insert into sessions (id, tenant_id, agent_name, agent_version, agent_snapshot)
        select gen_random_uuid(), 'tenant-' || lpad(n::text, 3, '0'), agent_name, agent_version, agent_snapshot
        from sessions, generate_series(1, 150) n returning id, tenant_id)
      insert into runs (id, tenant_id, session_id, pending_kind, pending_at)
      select gen_random_uuid(), copies.tenant_id, copies.id, 'step', runs.pending_at from copies, runs where runs.id = ${run}`.execute(
      db,
    );
    const first = await findDueWork(db, 'step', asked);
    expect([first.due.length, first.last]).toEqual([100, 'tenant-099']);
    const second = await findDueWork(db, 'step', { ...asked, after: 'tenant-099' });
    expect([second.due.length, second.due[0]?.tenantId, second.last]).toEqual([51, 'tenant-100', null]);
  });
});
