import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createClaimKeeper } from '../../src/claims/claim-keeper.ts';
import { planSettlement } from '../../src/domain/run/settlement.ts';
import { ENGINE_VERSION } from '../../src/domain/tunables.ts';
import { createPostgresBus } from '../../src/events/postgres-bus.ts';
import { newId } from '../../src/platform/new-id.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import type { Db } from '../../src/store/db/database.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { readStreamedParts } from '../../src/store/transcript/chunks.ts';
import { listMessages, readInterruptedStep } from '../../src/store/transcript/messages.ts';
import { type Fence, handBackRun, renewLeases } from '../../src/store/work/claims.ts';
import { findExpiredLeases } from '../../src/store/work/lost-work.ts';
import { appendChunks, type StreamedPieces, writeResponse } from '../../src/store/work/step-writes.ts';
import { answerStep, type Claimed, claimJob, retryStep } from '../http/play-worker.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { acceptMessage } from '../support/unlimited.ts';
import { behindLock, claimOf, goOn, openRace, type Race, untilWaiting } from './race.ts';
import { appendOne, moveOne } from './write-one.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

/** All that a claim changes: the run, its session, the transcript, the inbox and the types of the events. */
const stored = async (race: Race, runId: string) => [
  await race.db.selectFrom('runs').selectAll().where('id', '=', runId).execute(),
  await race.db.selectFrom('sessions').selectAll().where('id', '=', race.sessionId).execute(),
  await race.db.selectFrom('inbox').selectAll().where('session_id', '=', race.sessionId).execute(),
  await roles(race),
  await race.eventTypes(),
];

const roles = async ({ db, sessionId }: Race) =>
  (await listMessages(db, 'default', sessionId, { afterSeq: 0, limit: 10 })).map(({ role }) => role);

const fencesOf = (claims: readonly Claimed[]): Fence[] => claims.map(({ fence }) => fence);

const textOf = ({ fence, messageId }: Claimed): StreamedPieces => ({
  fence,
  messageId,
  chunks: [{ charOffset: 0, partIndex: 0, type: 'text', text: 'text' }],
});

describe('two workers and a job', () => {
  it('claim vs. claim: both would ask the model, if not one of them did nothing', async () => {
    const race = await openRace(database.db);
    const { job } = await race.send('Go');
    if (job === null) throw new Error('there is no job');
    const claims = await race.inOrder(
      () => claimOf(race.db, job),
      () => claimOf(race.db, job),
    );
    expect(claims.map(({ outcome }) => outcome)).toEqual(['claimed', 'held']);
    expect(await roles(race)).toEqual(['user', 'assistant']);
  });

  it('claim vs. the pause before another attempt: a job that comes early finds nothing to do yet, and changes nothing', async () => {
    const race = await openRace(database.db);
    const { db } = race;
    const sent = await race.send('Go');
    const error = { code: 'overloaded', message: 'The model is overloaded.' } as const;
    const { jobs } = await retryStep(db, await claimJob(db, sent.job ?? undefined), error, 60_000);
    const [job] = jobs;
    if (job === undefined) throw new Error('there is no job');
    const before = await stored(race, job.runId);
    const claim = await claimOf(db, job);
    expect(claim).toEqual({ outcome: 'early', waitMs: expect.any(Number) });
    const waitMs = claim.outcome === 'early' ? claim.waitMs : 0;
    expect(waitMs).toBeGreaterThan(0);
    expect(waitMs).toBeLessThanOrEqual(60_000);
    expect(await stored(race, job.runId)).toEqual(before);
    await sql`update runs set pending_at = clock_timestamp() where id = ${job.runId}`.execute(db);
    expect(await claimOf(db, job)).toMatchObject({ outcome: 'claimed' });
  });

  it('claim vs. a run of a newer engine: an older worker would do what it does not know how to, and changes nothing', async () => {
    const race = await openRace(database.db);
    const { db } = race;
    const { job } = await race.send('Go');
    if (job === null) throw new Error('there is no job');
    const require = (engine: number) =>
      db.updateTable('runs').set({ required_engine: engine }).where('id', '=', job.runId).execute();
    await require(ENGINE_VERSION + 1);
    const before = await stored(race, job.runId);
    expect(await claimOf(db, job)).toEqual({ outcome: 'engine' });
    expect(await stored(race, job.runId)).toEqual(before);
    expect(before[0]).toMatchObject([
      { status: 'queued', epoch: 0, claim_id: null, lease_owner: null, resume_count: 0 },
    ]);
    await require(ENGINE_VERSION);
    expect(await claimOf(db, job)).toMatchObject({ outcome: 'claimed' });
  });

  it('claim vs. its own repetition: a lost reply would cost an epoch and a message, if it were not the same claim', async () => {
    const race = await openRace(database.db);
    const { job } = await race.send('Go');
    if (job === null) throw new Error('there is no job');
    const input = { claimId: newId() };
    const [lost, again] = await race.inOrder(
      () => claimOf(race.db, job, input),
      () => claimOf(race.db, job, input),
    );
    expect(again).toMatchObject({ outcome: 'claimed', epoch: lost.outcome === 'claimed' ? lost.epoch : 0 });
    expect(await renewLeases(race.db, [{ runId: job.runId, ...input }], 30_000)).toMatchObject([input]);
    expect(await roles(race)).toEqual(['user', 'assistant']);
  });

  it.each([
    ['heartbeat', (db: Db, claims: readonly Claimed[]) => renewLeases(db, fencesOf(claims), 30_000)],
    ['streamed text', (db: Db, claims: readonly Claimed[]) => appendChunks(db, claims.map(textOf))],
  ])(
    '%s vs. heartbeat, each with the runs in an order of its own: they would wait for each other',
    async (_, write) => {
      const { db } = database;
      // The run with the greater id is stored first, and named first.
      const ids = [newId(), newId()].sort();
      const [least = '', most = ''] = ids;
      const claims: Claimed[] = [];
      for (const runId of [most, least]) {
        const race = await openRace(db);
        const { job } = await acceptMessage(db, {
          ...race.ref,
          messageId: newId(),
          content: [{ type: 'text', text: 'Go' }],
          runId,
        });
        claims.push(await claimJob(db, job ?? undefined));
      }
      const written = await behindLock(db, { table: 'runs', id: least }, async () => {
        const writing = write(db, claims);
        await untilWaiting(db, 1);
        // The write waits for the run with the least id, and has not locked the other one.
        await sql`select 1 from runs where id = ${most} for no key update nowait`.execute(db);
        return { writing };
      });
      expect(await written.writing).toHaveLength(2);
    },
  );

  it('heartbeat after a lost claim reply: renewed by its own keeper, the run would be at work for ever with nobody', async () => {
    const race = await openRace(database.db);
    const { db } = race;
    await using bus = await createPostgresBus({ connectionString: database.connectionString });
    const timing = { leaseDurationMs: 400, heartbeatIntervalMs: 50 };
    await using keeper = await createClaimKeeper({ db, bus, log: () => undefined, ...timing });
    const { job } = await race.send('Go');
    if (job === null) throw new Error('there is no job');
    using unanswered = keeper.hold(job.runId, newId());
    expect(await claimOf(db, job, { ...timing, claimId: unanswered.claimId })).toMatchObject({ outcome: 'claimed' });
    // Only a worker that got the claim's answer keeps the run. This one never got it, and gives the run up by doing
    // nothing.
    await leaseRunsOut(db, job.runId);
    expect(unanswered.stopped()).toBe(null);
  });

  it.each([true, false])(
    'cancel vs. claim (the cancel first: %s): a run would go on that somebody has stopped',
    async (isFirst) => {
      const race = await openRace(database.db);
      const { job, runId } = await race.send('Go');
      if (job === null) throw new Error('there is no job');
      const cancel = () => requestCancel(race.db, 'default', runId);
      const [cancelled, claim] = await race.meet(isFirst, cancel, () => claimOf(race.db, job));
      if (isFirst) {
        expect(cancelled).toMatchObject({ status: 'cancelled', notify: false });
        expect(claim.outcome).toBe('gone');
        expect(await race.session()).toMatchObject({ status: 'idle', active_run_id: null });
      } else {
        expect(cancelled).toMatchObject({ status: 'cancelling', notify: true });
        expect(claim).toMatchObject({ outcome: 'claimed', cancelRequested: false });
        expect(await findRun(race.db, 'default', runId)).toMatchObject({ status: 'cancelling' });
      }
    },
  );
});

async function leaseRunsOut(db: Db, runId: string): Promise<void> {
  await eventually(
    async () => (await findExpiredLeases(db, 1_000)).some(({ id }) => id === runId),
    `the lease of ${runId} has run out`,
  );
}

/** Hands the run back while its worker may still write, and claims it for the next worker. */
async function takeOver(db: Db, { fence }: Claimed): Promise<Awaited<ReturnType<typeof claimOf>>> {
  const job = await handBackRun(db, fence);
  if (job === null) throw new Error('the run was lost before');
  return claimOf(db, job);
}

const CALL = {
  type: 'tool',
  toolCallId: 'call_1',
  toolName: 'look',
  input: {},
  state: 'pending',
} as const;

/** The writes of a worker during a step, each with the result for a fenced worker. */
const WRITES = {
  'streamed text': {
    write: (race: Race, { fence, messageId }: Claimed): Promise<unknown> =>
      appendOne(race.db, fence, messageId, [{ charOffset: 0, partIndex: 0, type: 'text', text: 'late' }]),
    fenced: false,
  },
  'a whole response': {
    write: (race: Race, { fence, messageId }: Claimed): Promise<unknown> =>
      writeResponse(race.db, fence, { messageId, parts: [{ type: 'text', text: 'late' }], finishReason: 'stop' }, []),
    fenced: null,
  },
  'the result of a tool': {
    write: (race: Race, { fence, messageId }: Claimed): Promise<unknown> =>
      moveOne(race.db, fence, {
        messageId,
        index: 0,
        from: ['running'],
        to: 'completed',
        output: { type: 'text', value: 'late' },
        events: [],
      }),
    fenced: 'lost',
  },
} as const;

const keyOf = ({ sessionId }: Race, { messageId }: Claimed) => ({ sessionId, messageId });

/** A step whose call is running. */
async function startCall({ db }: Race, { fence, messageId }: Claimed): Promise<void> {
  await writeResponse(db, fence, { messageId, parts: [CALL], finishReason: 'tool-calls' }, []);
  await moveOne(db, fence, { messageId, index: 0, from: ['pending'], to: 'running', events: [] });
}

describe.each(Object.entries(WRITES))('a worker that loses its run while it writes %s', (name, { write, fenced }) => {
  async function begin(race: Race): Promise<Claimed> {
    const old = await race.begin();
    if (name === 'the result of a tool') await startCall(race, old);
    return old;
  }

  it('write vs. take-over: the new owner would settle without what is written already', async () => {
    const race = await openRace(database.db);
    const { db } = race;
    const old = await begin(race);
    const [written, claim] = await race.inOrderAtRun(
      old.fence.runId,
      () => write(race, old),
      () => takeOver(db, old),
    );
    expect(written).not.toEqual(fenced);
    expect(claim).toMatchObject({ outcome: 'claimed', interruptedMessageId: old.messageId, view: null });
    const leftover = await readInterruptedStep(db, keyOf(race, old));
    if (name === 'streamed text') {
      expect(await readStreamedParts(db, keyOf(race, old))).toMatchObject([{ text: 'late' }]);
    } else {
      expect(planSettlement(leftover, () => ({ idempotent: false }))).toMatchObject({
        kind: 'finish',
        report: [],
        run: [],
      });
    }
  });

  it('take-over vs. write: a zombie would write into what the new owner settles', async () => {
    const race = await openRace(database.db);
    const { db } = race;
    const old = await begin(race);
    const [claim, written] = await race.inOrderAtRun(
      old.fence.runId,
      () => takeOver(db, old),
      () => write(race, old),
    );
    expect(claim).toMatchObject({ outcome: 'claimed', interruptedMessageId: old.messageId });
    expect(written).toEqual(fenced);
    expect(await readStreamedParts(db, keyOf(race, old))).toEqual([]);
    expect(JSON.stringify(await readInterruptedStep(db, keyOf(race, old)))).not.toContain('late');
    await expect(answerStep(db, old, 'Late.')).rejects.toThrow('fenced');
  });

  it.each([true, false])(
    'write vs. settlement (the write first: %s): it would be in the transcript twice',
    async (isFirst) => {
      const race = await openRace(database.db);
      const { db } = race;
      const old = await begin(race);
      const claim = await takeOver(db, old);
      if (claim.outcome !== 'claimed') throw new Error(claim.outcome);
      const { claim_id: claimId } = await db
        .selectFrom('runs')
        .select('claim_id')
        .where('id', '=', old.fence.runId)
        .executeTakeFirstOrThrow();
      const fence = { runId: old.fence.runId, epoch: claim.epoch, claimId: claimId ?? '' };
      const { messageId } = old;
      // In the case of a tool's result the response is whole already. It is not written again: its call is settled.
      const isCall = name === 'the result of a tool';
      const settle = (tx: Db = db): Promise<unknown> =>
        isCall
          ? moveOne(tx, fence, { messageId, index: 0, from: ['running'], to: 'unknown', events: [] })
          : writeResponse(tx, fence, { messageId, parts: [{ type: 'text', text: 'settled' }] }, []);
      const [settled, written] =
        name === 'streamed text'
          ? await meetText(race, isFirst, old.fence.runId, settle, () => write(race, old))
          : await race.meet<unknown, unknown>(!isFirst, settle, () => write(race, old));
      expect(written).toEqual(fenced);
      expect(settled).toEqual(isCall ? 'moved' : expect.objectContaining({ mayStart: true }));
      expect(
        (await listMessages(db, 'default', race.sessionId, { afterSeq: 0, limit: 10 })).at(-1)?.parts,
      ).toMatchObject([isCall ? { type: 'tool', state: 'unknown' } : { type: 'text', text: 'settled' }]);
    },
  );
});

/**
 * Text is appended without the session's row, and a fenced append waits for no lock. It runs while the settlement waits
 * for the run, or when the settlement is written and not committed yet.
 */
function meetText<A, B>(
  race: Race,
  isFirst: boolean,
  runId: string,
  settle: (db: Db) => Promise<A>,
  append: () => Promise<B>,
): Promise<readonly [A, B]> {
  if (isFirst) return race.during(runId, () => settle(race.db), append);
  return race.db.transaction().execute(async (tx) => [await settle(tx), await append()] as const);
}

describe('the end of a step and a cancel', () => {
  it.each([true, false])(
    'cancel vs. finish (the cancel first: %s): they would wait for each other, or the run end twice',
    async (isFirst) => {
      const race = await openRace(database.db);
      const claimed = await race.begin();
      const { runId } = claimed.fence;
      await race.meet<unknown, unknown>(
        isFirst,
        () => requestCancel(race.db, 'default', runId),
        () => answerStep(race.db, claimed, 'Done.'),
      );
      expect(await findRun(race.db, 'default', runId)).toMatchObject({ status: 'completed' });
      expect((await race.eventTypes()).filter((type) => /^run:(completed|cancelled)$/.test(type))).toEqual([
        'run:completed',
      ]);
      expect(await race.session()).toMatchObject({ status: 'idle', active_run_id: null });
    },
  );

  it.each([true, false])(
    'cancel vs. finish with more to do (the cancel first: %s): the next step would begin',
    async (isFirst) => {
      const race = await openRace(database.db);
      const claimed = await race.begin();
      const { runId } = claimed.fence;
      const [, { jobs }] = await race.meet(
        isFirst,
        () => requestCancel(race.db, 'default', runId),
        () => goOn(race.db, claimed),
      );
      expect(jobs).toHaveLength(isFirst ? 0 : 1);
      for (const job of jobs) expect(await claimOf(race.db, job)).toMatchObject({ outcome: 'gone' });
      expect(await findRun(race.db, 'default', runId)).toMatchObject({ status: 'cancelled' });
      expect((await race.eventTypes()).filter((type) => type === 'run:cancelled')).toHaveLength(1);
    },
  );

  it.each([true, false])(
    'hand-back vs. cancel (the hand-back first: %s): the run would be queued and cancelled',
    async (isFirst) => {
      const race = await openRace(database.db);
      const claimed = await race.begin();
      const { runId } = claimed.fence;
      const [job, cancelled] = await race.meet(
        isFirst,
        () => handBackRun(race.db, claimed.fence),
        () => requestCancel(race.db, 'default', runId),
      );
      // The step has begun: the next worker that takes it ends it as cancelled, with the streamed text.
      expect(cancelled).toMatchObject({ status: 'cancelling', notify: !isFirst });
      const next = await claimJob(race.db, cancelled.job ?? job ?? undefined);
      await goOn(race.db, { ...next, messageId: claimed.messageId });
      expect(await findRun(race.db, 'default', runId)).toMatchObject({ status: 'cancelled' });
    },
  );
});
