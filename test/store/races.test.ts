import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { planAfterMaintenance } from '../../src/domain/after-maintenance.ts';
import { NEW_CONTEXT_STATE } from '../../src/domain/context/state.ts';
import type { JobPayload } from '../../src/domain/job.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { newId } from '../../src/runtime/new-id.ts';
import { requestCancel } from '../../src/store/cancels.ts';
import { claimRun, handBackRun, renewLeases } from '../../src/store/claims.ts';
import { requestMaintenance } from '../../src/store/context.ts';
import type { Db } from '../../src/store/database.ts';
import { readEvents } from '../../src/store/events.ts';
import { acceptMessage, type NewInboxMessage } from '../../src/store/inbox.ts';
import { finishMaintenance } from '../../src/store/maintenance.ts';
import { listMessages } from '../../src/store/messages.ts';
import { findRun } from '../../src/store/runs.ts';
import { findSession, insertSession } from '../../src/store/sessions.ts';
import { appendChunks } from '../../src/store/step-writes.ts';
import { listWaiting } from '../../src/store/waiting.ts';
import { answerStep, type Claimed, claimJob } from '../http/play-worker.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase } from '../support/postgres.ts';

/** A session and a gate at its lock: what is started meets there, and goes through in the order of its coming. */
async function openSession() {
  const database = await createTestDatabase();
  const { db } = database;
  const sessionId = newId();
  const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: { name: 'tester', model: 'test/test' } };
  await insertSession(db, { id: sessionId, tenantId: 'default', ...agent, title: null, metadata: {} });
  const send = (text: string, delivery: NewInboxMessage['delivery'] = 'steer') =>
    acceptMessage(db, {
      tenantId: 'default',
      sessionId,
      messageId: newId(),
      content: [{ type: 'text', text }],
      runId: newId(),
      delivery,
    });
  return {
    db,
    sessionId,
    send,
    /** A run at work on its first step. */
    async begin(): Promise<Claimed> {
      return claimJob(db, (await send('Go')).job ?? undefined);
    },
    inOrder: <A, B>(first: () => Promise<A>, second: () => Promise<B>) => inOrder(db, sessionId, first, second),
    [Symbol.asyncDispose]: () => database[Symbol.asyncDispose](),
  };
}

async function inOrder<A, B>(
  db: Db,
  sessionId: string,
  first: () => Promise<A>,
  second: () => Promise<B>,
): Promise<readonly [A, B]> {
  const started = await db.transaction().execute(async (tx) => {
    await sql`select 1 from sessions where id = ${sessionId} for no key update`.execute(tx);
    const a = first();
    await eventually(async () => (await atTheGate(db)) === 1, 'the first one is at the gate');
    const b = second();
    await eventually(async () => (await atTheGate(db)) === 2, 'the second one is at the gate');
    // Not awaited here: the gate opens when this transaction ends.
    return { both: Promise.all([a, b]) };
  });
  return started.both;
}

/** Transactions of this database that wait for a lock. Asked outside a transaction: inside one the answer never changes. */
async function atTheGate(db: Db): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::integer as count from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
  return rows[0]?.count ?? 0;
}

const claimOf = (db: Db, job: JobPayload, claimId = newId()) =>
  claimRun(db, { job, claimId, workerId: claimId, leaseDurationMs: 30_000, messageId: newId() });

describe('two workers and a job', () => {
  it('claim vs. claim: one has it, the other one does nothing', async () => {
    await using session = await openSession();
    const { job } = await session.send('Go');
    if (job === null) throw new Error('there is no job');
    const claims = await session.inOrder(
      () => claimOf(session.db, job),
      () => claimOf(session.db, job),
    );
    expect(claims.map(({ outcome }) => outcome)).toEqual(['claimed', 'held']);
    expect((await listMessages(session.db, 'default', session.sessionId, 0, 10)).map(({ role }) => role)).toEqual([
      'user',
      'assistant',
    ]);
  });

  it('heartbeat after a lost claim reply: the claim is made again with the same id, and nothing twice', async () => {
    await using session = await openSession();
    const { job } = await session.send('Go');
    if (job === null) throw new Error('there is no job');
    const claimId = newId();
    const input = { job, claimId, workerId: 'w1', leaseDurationMs: 30_000, messageId: newId() };
    const [lost, again] = [await claimRun(session.db, input), await claimRun(session.db, input)];
    expect(again).toMatchObject({ outcome: 'claimed', epoch: lost.outcome === 'claimed' ? lost.epoch : 0 });
    expect(await renewLeases(session.db, [{ runId: job.runId, claimId }], 30_000)).toMatchObject([{ claimId }]);
    expect(await listMessages(session.db, 'default', session.sessionId, 0, 10)).toHaveLength(2);
  });

  it('zombie part write vs. settlement: after the take-over nothing of the old worker is written', async () => {
    await using session = await openSession();
    const old = await session.begin();
    const chunks = [{ charOffset: 0, partIndex: 0, type: 'text', text: 'late' }] as const;
    const write = () => appendChunks(session.db, old.fence, old.messageId, chunks);
    expect(await write()).toBe(true);
    const job = await handBackRun(session.db, old.fence);
    expect(await write()).toBe(false);
    if (job === null) throw new Error('there is no job');
    expect(await claimOf(session.db, job)).toMatchObject({ outcome: 'claimed', leftoverMessageId: old.messageId });
    expect(await write()).toBe(false);
    await expect(answerStep(session.db, old, 'Late.')).rejects.toThrow('fenced');
  });
});

describe('the end of a run and a message', () => {
  it('finish vs. new message: the message starts a run of its own', async () => {
    await using session = await openSession();
    const claimed = await session.begin();
    const [finished, sent] = await session.inOrder(
      () => answerStep(session.db, claimed, 'Done.'),
      () => session.send('One more'),
    );
    expect(finished.jobs).toEqual([]);
    expect(sent).toMatchObject({ queued: false, status: 'queued', job: { no: 1 } });
    expect(sent.runId).not.toBe(claimed.fence.runId);
  });

  it('new message vs. finish: the run goes on with it, whatever its worker knew', async () => {
    await using session = await openSession();
    const claimed = await session.begin();
    const [sent, finished] = await session.inOrder(
      () => session.send('One more'),
      () => answerStep(session.db, claimed, 'Done.'),
    );
    expect(sent).toMatchObject({ queued: true, runId: claimed.fence.runId });
    expect(finished.jobs).toMatchObject([{ runId: claimed.fence.runId, no: 2 }]);
  });

  it.each(['followup', 'interrupt'] as const)('%s vs. finish, in either order: its run begins', async (delivery) => {
    for (const isFirst of [true, false]) {
      await using session = await openSession();
      const claimed = await session.begin();
      const finish = () => answerStep(session.db, claimed, 'Done.');
      const send = () => session.send('Then this', delivery);
      const results = isFirst ? await session.inOrder(send, finish) : await session.inOrder(finish, send);
      const jobs = results.flatMap((result) => ('jobs' in result ? result.jobs : (result.job ?? [])));
      expect(jobs).toHaveLength(1);
      const sent = results.find((result) => 'queued' in result);
      expect(jobs[0]).toMatchObject({ runId: sent?.runId, kind: 'step', no: 1 });
      await claimJob(session.db, jobs[0]);
      expect(await listWaiting(session.db, 'default', session.sessionId)).toEqual([]);
    }
  });

  it('cancel vs. finish, in either order: no deadlock, and the run ends once', async () => {
    for (const isFirst of [true, false]) {
      await using session = await openSession();
      const claimed = await session.begin();
      const { runId } = claimed.fence;
      const finish = () => answerStep(session.db, claimed, 'Done.');
      const cancel = () => requestCancel(session.db, 'default', runId);
      await (isFirst
        ? session.inOrder<unknown, unknown>(cancel, finish)
        : session.inOrder<unknown, unknown>(finish, cancel));
      expect(await findRun(session.db, 'default', runId)).toMatchObject({ status: 'completed' });
      const ends = (await readEvents(session.db, 'default', session.sessionId, 0, 100)).filter(
        ({ type }) => type === 'run:completed',
      );
      expect(ends).toMatchObject([{ data: isFirst ? { lateCancel: true } : { finishReason: 'stop' } }]);
      expect(await findSession(session.db, 'default', session.sessionId)).toMatchObject({ status: 'idle' });
    }
  });
});

describe('a clean-up and a message', () => {
  it.each(['compaction', 'prune'] as const)('%s vs. new message, in either order: its run begins', async (kind) => {
    for (const isFirst of [true, false]) {
      await using session = await openSession();
      const scope = { tenantId: 'default', sessionId: session.sessionId };
      const asked = await requestMaintenance(session.db, { ...scope, kind, runId: newId() });
      const { fence } = await claimJob(session.db, asked.job ?? undefined);
      const next = planAfterMaintenance({ runId: asked.runId, runKind: 'maintenance', stepNo: 1, goesOnWith: 'step' });
      const finish = () =>
        finishMaintenance(session.db, fence, {
          marks: [],
          contextState: NEW_CONTEXT_STATE,
          usage: NO_USAGE,
          costUsd: 0,
          events: [],
          next,
          nextRunId: newId(),
        });
      const send = () => session.send('And now?');
      const [finished, sent] = isFirst
        ? await session.inOrder(finish, send)
        : ((await session.inOrder(send, finish)).toReversed() as [
            Awaited<ReturnType<typeof finish>>,
            Awaited<ReturnType<typeof send>>,
          ]);
      const jobs = [...(finished?.jobs ?? []), ...(sent.job === null ? [] : [sent.job])];
      expect(jobs).toMatchObject([{ runId: sent.runId, kind: 'step' }]);
      expect(sent.queued).toBe(false);
    }
  });
});
