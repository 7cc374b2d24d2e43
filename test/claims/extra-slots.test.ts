import { sql } from 'kysely';
import { describe, expect, test, vi } from 'vitest';
import { inFairOrder, sharesOf, startExtraSlots } from '../../src/claims/extra-slots.ts';
import { createTenantsAtWork } from '../../src/claims/tenants-at-work.ts';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { newId } from '../../src/platform/new-id.ts';
import type { JobOutcome } from '../../src/queues/job-queue.ts';
import type { Db } from '../../src/store/db/database.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { acceptMessage } from '../support/unlimited.ts';

const dueOf = (tenantId: string, count: number) =>
  Array.from({ length: count }, (_, at) => ({
    tenantId,
    job: { runId: newId(), kind: 'step', no: at + 1, dispatch: 1 } as const,
  }));

const order = (due: ReturnType<typeof dueOf>, counts: Record<string, number>, share: number) =>
  inFairOrder(due, new Map(Object.entries(counts)), share).map(({ tenantId, job }) => `${tenantId}${job.no}`);

describe('the work for extra slots', () => {
  test('is taken from the tenants in turn, of each in its own order', () => {
    expect(order([...dueOf('a', 3), ...dueOf('b', 2)], {}, 12)).toEqual(['a1', 'b1', 'a2', 'b2', 'a3']);
  });

  test('is first that of a tenant with fewer runs in hand, and no more than makes up its share', () => {
    expect(order([...dueOf('a', 3), ...dueOf('b', 3), ...dueOf('c', 3)], { a: 1, b: 3 }, 3)).toEqual([
      'c1',
      'a1',
      'c2',
      'a2',
      'c3',
    ]);
  });
});

test('a worker with few slots has an extra one for two tenants, too', () => {
  expect([1, 2, 8, 50].map(sharesOf)).toEqual([
    { ofTenant: 1, extra: 2 },
    { ofTenant: 1, extra: 2 },
    { ofTenant: 2, extra: 4 },
    { ofTenant: 12, extra: 24 },
  ]);
});

/** A run of the tenant whose work has been due for an hour. */
async function startRun(db: Db, tenantId: string): Promise<JobPayload> {
  const ids = { tenantId, sessionId: newId(), messageId: newId(), runId: newId() };
  const agent = { agentName: 'a', agentVersion: '1', agentSnapshot: {} };
  await insertSession(db, { id: ids.sessionId, tenantId, ...agent, title: null, metadata: {} });
  const { job } = await acceptMessage(db, { ...ids, content: [{ type: 'text', text: 'Go' }] });
  await sql`update runs set pending_at = clock_timestamp() - interval '1 hour' where id = ${ids.runId}`.execute(db);
  if (job === null) throw new Error('no run was started');
  return job;
}

describe.each([1, 8])('a worker of %i slots that has work of one tenant', (slots) => {
  test('works on that of another one, and on no more of the first, although its claim is still under way', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const [first, second] = [await startRun(db, 'loud'), await startRun(db, 'loud')];
    const quiet = await startRun(db, 'quiet');
    const { promise: end, resolve } = Promise.withResolvers<JobOutcome>();
    const taken: JobPayload[] = [];
    const jobs = { isPaused: async () => false, stateOf: async () => 'waiting' as const };
    const options = { deps: { db, jobs, log: () => undefined }, kind: 'step', slots } as const;
    const work = (job: JobPayload) => {
      taken.push(job);
      return end;
    };
    const take = (job: JobPayload) => work(job).then(() => true);
    const extra = startExtraSlots({ ...options, atWork: createTenantsAtWork(), work, take }, 1);
    const given = extra.handler(first, new AbortController().signal, false);
    await vi.waitUntil(() => taken.length > 1);
    extra.stop();
    expect(taken).toEqual([first, quiet]);
    expect(taken).not.toContainEqual(second);
    resolve({ outcome: 'done' });
    await Promise.all([given, extra.settled()]);
  });
});

test('a run that goes on with its next step is in hand once, until the last of its steps has ended', () => {
  const atWork = createTenantsAtWork();
  const first = atWork.begin('run', 'step', 'a');
  const second = atWork.begin('run', 'step', 'a');
  first[Symbol.dispose]();
  expect([...atWork.counts('step')]).toEqual([['a', 1]]);
  expect([...atWork.counts('prune')]).toEqual([]);
  second[Symbol.dispose]();
  expect([...atWork.counts('step')]).toEqual([]);
  expect(atWork.has('run')).toBe(false);
});
