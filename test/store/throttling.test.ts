import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { newId } from '../../src/platform/new-id.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import type { Db } from '../../src/store/db/database.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { claimRun, handBackRun } from '../../src/store/work/claims.ts';
import { findUnclaimed } from '../../src/store/work/lost-work.ts';
import { findThrottledTenants, releaseThrottled } from '../../src/store/work/throttling.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { acceptMessage } from '../support/unlimited.ts';

/** A session with a run that waits for a worker. */
async function startRunOf(db: Db, tenantId: string): Promise<JobPayload> {
  const sessionId = newId();
  const agent = { agentName: 'a', agentVersion: '1', agentSnapshot: {} };
  await insertSession(db, { id: sessionId, tenantId, ...agent, title: null, metadata: {} });
  const ids = { tenantId, sessionId, messageId: newId(), runId: newId() };
  const { job } = await acceptMessage(db, { ...ids, content: [{ type: 'text', text: 'Go' }] });
  if (job === null) throw new Error('no run was started');
  return job;
}

async function startRuns(db: Db, tenantId: string, count: number): Promise<JobPayload[]> {
  const jobs: JobPayload[] = [];
  // One after the other: the tests are about the order of the runs.
  for (let n = 0; n < count; n++) jobs.push(await startRunOf(db, tenantId));
  return jobs;
}

const claim = async (db: Db, job: JobPayload, tenantConcurrency: number, claimId: string = randomUUID()) => {
  const claimed = await claimRun(db, {
    job,
    claimId,
    workerId: 'w1',
    leaseDurationMs: 60_000,
    messageId: newId(),
    tenantConcurrency,
  });
  const fence = claimed.outcome === 'claimed' ? { runId: job.runId, epoch: claimed.epoch, claimId } : null;
  return { outcome: claimed.outcome, fence };
};

async function claimedOf(db: Db, tenantId: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::integer as count from runs where tenant_id = ${tenantId} and claim_id is not null`.execute(db);
  return rows[0]?.count ?? -1;
}

async function unclaimed(db: Db): Promise<readonly { runId: string }[]> {
  const { rows } = await sql<{ runId: string }>`select id as "runId" from runs where claim_id is null`.execute(db);
  return rows;
}

/** Ends the claim as a shutdown does, and the run with it. */
async function endRun(db: Db, fence: Awaited<ReturnType<typeof claim>>['fence']): Promise<void> {
  if (fence === null) throw new Error('not claimed');
  await handBackRun(db, fence);
  await requestCancel(db, 'a', fence.runId);
  await sql`update runs set status = 'cancelled', pending_kind = null where id = ${fence.runId}`.execute(db);
}

describe('the limit of a tenant', () => {
  it('holds when all claim at the same moment, and concerns nobody else', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const jobs = await startRuns(db, 'a', 12);
    const other = await startRunOf(db, 'b');
    const outcomes = (await Promise.all(jobs.map((job) => claim(db, job, 3)))).map(({ outcome }) => outcome);
    expect(outcomes.filter((outcome) => outcome === 'claimed').length).toBeLessThanOrEqual(3);
    expect(outcomes.filter((outcome) => outcome === 'claimed').length).toBe(await claimedOf(db, 'a'));
    expect(outcomes.filter((outcome) => outcome !== 'claimed').every((outcome) => outcome === 'busy')).toBe(true);
    expect((await claim(db, other, 3)).outcome).toBe('claimed');
    expect(await findThrottledTenants(db)).toEqual(['a']);
    const admitted = await releaseThrottled(db, 'a', 3);
    expect(admitted.length + (await claimedOf(db, 'a'))).toBe(3);
  });

  it('lets in who has waited longest, as many as there is room for, and nobody twice', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const [first, second, third, fourth] = await startRuns(db, 'a', 4);
    if (!first || !second || !third || !fourth) throw new Error('no runs');
    const { fence } = await claim(db, first, 1);
    // The claims come in the wrong order: the age of the runs counts.
    for (const job of [fourth, second, third]) expect((await claim(db, job, 1)).outcome).toBe('busy');
    expect(await releaseThrottled(db, 'a', 1)).toEqual([]);
    await endRun(db, fence);
    const admitted = await releaseThrottled(db, 'a', 1);
    expect(admitted).toEqual([{ ...second, dispatch: second.dispatch + 1 }]);
    expect(await releaseThrottled(db, 'a', 1)).toEqual([]);
    expect((await claim(db, second, 1)).outcome).toBe('stale');
    const late = await startRunOf(db, 'a');
    expect((await claim(db, late, 1)).outcome).toBe('busy');
    expect((await claim(db, { ...second, dispatch: second.dispatch + 1 }, 1)).outcome).toBe('claimed');
  });

  it('lets in as many as there is room for by any plan', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const [first] = await startRuns(db, 'a', 3);
    if (!first) throw new Error('no runs');
    await claim(db, first, 1);
    for (const { runId } of await unclaimed(db)) {
      await sql`update runs set throttled_at = clock_timestamp() where id = ${runId}`.execute(db);
    }
    const admitted = await db.transaction().execute(async (tx) => {
      for (const step of ['hashagg', 'hashjoin', 'mergejoin', 'sort', 'material'])
        await sql`select set_config(${`enable_${step}`}, 'off', true)`.execute(tx);
      return releaseThrottled(tx, 'a', 2);
    });
    expect(admitted).toHaveLength(1);
  });

  it('keeps the slot for a run that goes on', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const [first, second] = await startRuns(db, 'a', 2);
    if (!first || !second) throw new Error('no runs');
    const { fence } = await claim(db, first, 1);
    expect((await claim(db, second, 1)).outcome).toBe('busy');
    const next = fence === null ? null : await handBackRun(db, fence);
    if (next === null) throw new Error('not handed back');
    expect(await releaseThrottled(db, 'a', 1)).toEqual([]);
    expect((await claim(db, next, 1)).outcome).toBe('claimed');
  });

  it('gives the same answer to a claim whose reply was lost', async () => {
    await using database = await createTestDatabase();
    const job = await startRunOf(database.db, 'a');
    const claimId = randomUUID();
    expect((await claim(database.db, job, 1, claimId)).outcome).toBe('claimed');
    expect((await claim(database.db, job, 1, claimId)).outcome).toBe('claimed');
  });

  it('can be lifted and set again: no slot of before is in the way', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const jobs = await startRuns(db, 'a', 3);
    const [first, second, third] = jobs;
    if (!first || !second || !third) throw new Error('no runs');
    const before = await claim(db, first, 1);
    const again = before.fence === null ? null : await handBackRun(db, before.fence);
    expect((await claim(db, second, 1)).outcome).toBe('claimed');
    if (again === null) throw new Error('not handed back');
    expect((await claim(db, again, 1)).outcome).toBe('busy');
    expect((await claim(db, third, 1)).outcome).toBe('busy');
    const admitted = await releaseThrottled(db, 'a', 0);
    expect(admitted.map(({ runId }) => runId)).toEqual([first.runId, third.runId]);
    for (const job of admitted) expect((await claim(db, job, 0)).outcome).toBe('claimed');
  });

  it('is no job that is lost: the search for lost work leaves alone what is held back', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const [first, second] = await startRuns(db, 'a', 2);
    if (!first || !second) throw new Error('no runs');
    const { fence } = await claim(db, first, 1);
    await claim(db, second, 1);
    const unclaimed = async () => (await findUnclaimed(db, -60_000, 10)).map(({ runId }) => runId);
    expect(await unclaimed()).toEqual([]);
    await endRun(db, fence);
    await releaseThrottled(db, 'a', 1);
    // The process that admitted the run may have died before it added the job.
    expect(await unclaimed()).toEqual([second.runId]);
  });

  it('delays no cancel', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const [first, second, third] = await startRuns(db, 'a', 3);
    if (!first || !second || !third) throw new Error('no runs');
    await claim(db, first, 1);
    for (const job of [second, third]) await claim(db, job, 1);
    expect(await requestCancel(db, 'a', second.runId)).toMatchObject({ status: 'cancelled' });
    // A run that a worker left in the middle of its step is to be settled first, and needs no slot for that.
    await sql`insert into messages (id, tenant_id, session_id, seq, role, run_id, step_no)
      select ${newId()}, tenant_id, session_id, 99, 'assistant', id, pending_no from runs where id = ${third.runId}`.execute(
      db,
    );
    const job = { ...third, dispatch: third.dispatch + 1 };
    expect(await requestCancel(db, 'a', third.runId)).toMatchObject({
      status: 'cancelling',
      notify: false,
      isNews: true,
      job,
    });
    expect(await requestCancel(db, 'a', third.runId)).toMatchObject({ status: 'cancelling', isNews: false, job: null });
    expect((await findUnclaimed(db, -60_000, 10)).map(({ runId }) => runId)).toEqual([third.runId]);
    expect((await claim(db, third, 1)).outcome).toBe('stale');
    expect((await claim(db, job, 1)).outcome).toBe('claimed');
    expect(await findThrottledTenants(db)).toEqual([]);
  });
});
