import fc from 'fast-check';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { BatonError } from '../../src/domain/errors.ts';
import { parseCallId } from '../../src/domain/ids.ts';
import { type JobPayload, jobPayloadSchema } from '../../src/domain/run/job.ts';
import type { CallAnswer, RequiredAction } from '../../src/domain/transcript/required-action.ts';
import { answerCall, expireWait, findExpiredWaits } from '../../src/store/changes/call-answers.ts';
import { type CancelOutcome, requestCancel } from '../../src/store/changes/cancels.ts';
import { cancelWaiting } from '../../src/store/changes/tree-cancels.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { findSession } from '../../src/store/session/sessions.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages, readInterruptedStep } from '../../src/store/transcript/messages.ts';
import { askStep, claimJob } from '../http/play-worker.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { claimOf, openRace, untilWaiting } from './race.ts';

describe('a run that waits', () => {
  const settle = async <T>(work: Promise<T>): Promise<T | string> =>
    work.catch((error: unknown) => (error instanceof BatonError ? error.code : Promise.reject(error)));

  /** A run that waits for two approvals, with the acts of the two people who answer. */
  async function openWaiting(waitMs: number | null = null) {
    const database = await createTestDatabase();
    const session = await openRace(database.db);
    const claimed = await session.begin();
    const approval = { kind: 'approval', toolName: 'deploy' } as const;
    const [one, other] = await askStep(session.db, claimed, [approval, approval], waitMs);
    const { runId } = claimed.fence;
    const answer = (action: RequiredAction | undefined, given: CallAnswer) => {
      const place = parseCallId(action?.id ?? '');
      if (place === null) throw new Error('there is no such call');
      return answerCall(session.db, { tenantId: 'default', runId, ...place }, given);
    };
    const statesOf = async () =>
      (await listMessages(session.db, 'default', session.sessionId, { afterSeq: 0, limit: 10 }))
        .at(-1)
        ?.parts.map((part) => 'state' in part && part.state);
    const expire = () =>
      session.db.transaction().execute((tx) => expireWait(tx, { id: runId, sessionId: session.sessionId }));
    const dispose = () => database[Symbol.asyncDispose]();
    return { ...session, runId, one, other, answer, statesOf, expire, [Symbol.asyncDispose]: dispose };
  }
  const APPROVE = { kind: 'approve' } as const;

  it('approval vs. approval: the last one of two resumes it, once', async () => {
    await using waiting = await openWaiting();
    const [first, last] = await waiting.inOrder(
      () => waiting.answer(waiting.one, APPROVE),
      () => waiting.answer(waiting.other, APPROVE),
    );
    expect(first).toMatchObject({ open: 1, job: null });
    expect(last).toMatchObject({ open: 0, job: { runId: waiting.runId, kind: 'step', no: 1 } });
    expect(await claimOf(waiting.db, last.job ?? { runId: '', kind: 'step', no: 0, dispatch: 0 })).toMatchObject({
      outcome: 'claimed',
      interruptedMessageId: expect.any(String),
      view: null,
    });
  });

  it('the same call approved and denied at once: the first one counts, the other one is told', async () => {
    await using waiting = await openWaiting();
    await waiting.answer(waiting.other, APPROVE);
    const [first, last] = await waiting.inOrder(
      () => waiting.answer(waiting.one, { kind: 'deny' }),
      () => settle(waiting.answer(waiting.one, APPROVE)),
    );
    expect(first).toMatchObject({ open: 0, job: { no: 1 } });
    expect(last).toBe('already_answered');
    expect(await waiting.statesOf()).toEqual(['denied', 'pending']);
  });

  it('the same approval twice at once: one job, the same answer', async () => {
    await using waiting = await openWaiting();
    await waiting.answer(waiting.other, APPROVE);
    const [first, last] = await waiting.inOrder(
      () => waiting.answer(waiting.one, APPROVE),
      () => waiting.answer(waiting.one, APPROVE),
    );
    expect([first.open, last.open]).toEqual([0, 0]);
    expect([first.job === null, last.job === null]).toEqual([false, true]);
  });

  it('answer vs. cancel, in either order: it ends cancelled, and no job finds anything to do', async () => {
    for (const isFirst of [true, false]) {
      await using waiting = await openWaiting();
      await waiting.answer(waiting.other, APPROVE);
      const answer = () => settle(waiting.answer(waiting.one, APPROVE));
      const cancel = () => requestCancel(waiting.db, 'default', waiting.runId);
      const results = isFirst
        ? await waiting.inOrder<unknown, unknown>(answer, cancel)
        : await waiting.inOrder<unknown, unknown>(cancel, answer);
      if (isFirst) {
        // The next worker that takes up the step has to settle it.
        expect(results).toMatchObject([{ open: 0, job: { no: 1 } }, { status: 'cancelling' }]);
        expect(await waiting.statesOf()).toEqual(['pending', 'pending']);
      } else {
        expect(results).toMatchObject([{ status: 'cancelled' }, 'conflict']);
        expect(await waiting.statesOf()).toEqual(['error', 'error']);
        expect(await findSession(waiting.db, 'default', waiting.sessionId)).toMatchObject({ status: 'idle' });
      }
    }
  });

  it('is ended by a worker if a call has begun work elsewhere: cancelled before an answer, after it, or with others', async () => {
    for (const isFirst of [true, false]) {
      await using waiting = await openWaiting();
      await sql`update parts set outside_work = '{"taskId":"t"}' where idx = 1`.execute(waiting.db);
      await waiting.answer(waiting.one, APPROVE);
      expect(await cancelWaiting(waiting.db, [waiting.runId])).toEqual([]);
      const answer = () => settle(waiting.answer(waiting.other, APPROVE));
      const cancel = () => requestCancel(waiting.db, 'default', waiting.runId);
      const [answered, cancelled] = await waiting.meet<unknown, CancelOutcome>(isFirst, answer, cancel);
      expect(answered).toEqual(isFirst ? expect.objectContaining({ open: 0 }) : 'conflict');
      expect(cancelled).toMatchObject({ status: 'cancelling', hasEnded: false, job: { kind: 'step', no: 1 } });
      expect(await waiting.statesOf()).toEqual(['pending', isFirst ? 'pending' : 'awaiting_approval']);
      const claimed = await claimOf(waiting.db, jobPayloadSchema.parse(cancelled.job));
      expect(claimed).toMatchObject({ outcome: 'claimed', cancelRequested: true, view: null });
    }
  });

  it('does not wait if it was cancelled first, nor end before a worker has stopped what its call began elsewhere', async () => {
    await using database = await createTestDatabase();
    const session = await openRace(database.db);
    const claimed = await session.begin();
    const { fence, messageId } = claimed;
    await requestCancel(database.db, 'default', fence.runId);
    await askStep(database.db, claimed, [{ kind: 'input', toolName: 'build' }], null, true);
    const of = database.db.selectFrom('runs').selectAll().where('id', '=', fence.runId);
    const run = await of.executeTakeFirstOrThrow();
    expect(run).toMatchObject({
      status: 'cancelling',
      claim_id: null,
      pending_kind: 'step',
      pending_no: 1,
      step_count: 1,
    });
    const job = { runId: fence.runId, kind: 'step', no: 1, dispatch: run.pending_dispatch } as const;
    expect(await claimOf(database.db, job)).toMatchObject({ outcome: 'claimed', interruptedMessageId: messageId });
    // It was counted and paid for.
    const leftover = await readInterruptedStep(database.db, { sessionId: session.sessionId, messageId });
    expect(leftover).toMatchObject({ isPaid: true, parts: [{ state: 'awaiting_output' }] });
    expect(leftover.parts[0]).not.toHaveProperty('output');
  });

  it('is cancelled with others as by itself: its calls are closed, and a requested compaction follows', async () => {
    await using waiting = await openWaiting();
    await using alone = await openWaiting();
    for (const { db, send } of [waiting, alone]) {
      await send('And then?');
      await sql`update sessions set requested_maintenance = 'compaction'`.execute(db);
    }
    const [ended] = await cancelWaiting(waiting.db, [waiting.runId]);
    const { eventSeq, job } = await requestCancel(alone.db, 'default', alone.runId);
    const { runId, sessionId } = waiting;
    expect(ended).toEqual({ runId, sessionId, eventSeq, job: { ...job, runId: expect.any(String) } });
    expect(await waiting.statesOf()).toEqual(['error', 'error']);
    expect(await waiting.eventTypes()).toEqual(await alone.eventTypes());
    expect(await cancelWaiting(waiting.db, [runId])).toEqual([]);
  });

  it('is not cancelled with others once a call was answered, or while its session is locked', async () => {
    await using waiting = await openWaiting();
    const locked = waiting.db.transaction().execute(async (tx) => {
      await sql`select 1 from sessions where id = ${waiting.sessionId} for no key update`.execute(tx);
      return cancelWaiting(waiting.db, [waiting.runId]);
    });
    expect(await locked).toEqual([]);
    await waiting.answer(waiting.one, APPROVE);
    expect(await cancelWaiting(waiting.db, [waiting.runId])).toEqual([]);
    expect(await waiting.statesOf()).toEqual(['pending', 'awaiting_approval']);
  });

  it('answer vs. expiry: whoever has the lock decides, and the sweep does not wait for it', async () => {
    await using waiting = await openWaiting(1);
    await eventually(async () => (await findExpiredWaits(waiting.db, 10)).length === 1, 'the wait is over');
    const late = waiting.db.transaction().execute(async (tx) => {
      await sql`select 1 from sessions where id = ${waiting.sessionId} for no key update`.execute(tx);
      const answered = settle(waiting.answer(waiting.one, APPROVE));
      await untilWaiting(waiting.db, 1);
      expect(await waiting.expire()).toBeNull();
      expect(await expireWait(tx, { id: waiting.runId, sessionId: waiting.sessionId })).toMatchObject({ expired: 2 });
      return { answered };
    });
    expect(await (await late).answered).toBe('already_answered');
    expect(await waiting.expire()).toBeNull();
    expect(await waiting.statesOf()).toEqual(['denied', 'denied']);
    expect(await findRun(waiting.db, 'default', waiting.runId)).toMatchObject({ status: 'running' });
  });

  it('expiry after the last answer: it changes nothing', async () => {
    await using waiting = await openWaiting(1);
    await eventually(async () => (await findExpiredWaits(waiting.db, 10)).length === 1, 'the wait is over');
    for (const action of [waiting.one, waiting.other]) await waiting.answer(action, APPROVE);
    expect(await waiting.expire()).toBeNull();
    expect(await findExpiredWaits(waiting.db, 10)).toEqual([]);
    expect(await waiting.statesOf()).toEqual(['pending', 'pending']);
  });

  it('last answer vs. message, in either order: the message is for this run, which has one job', async () => {
    for (const isFirst of [true, false]) {
      await using waiting = await openWaiting();
      await waiting.answer(waiting.other, APPROVE);
      const answer = () => waiting.answer(waiting.one, APPROVE);
      const send = () => waiting.send('One more');
      const results = isFirst ? await waiting.inOrder(answer, send) : await waiting.inOrder(send, answer);
      expect(results.flatMap(({ job }) => job ?? [])).toMatchObject([{ runId: waiting.runId, no: 1 }]);
      const sent = results.find((result) => 'queued' in result);
      expect(sent).toMatchObject({
        queued: true,
        runId: waiting.runId,
        status: isFirst ? 'running' : 'requires_action',
      });
    }
  });

  it('answer vs. interrupt: the message starts its run, or waits for the end of this one', async () => {
    for (const isFirst of [true, false]) {
      await using waiting = await openWaiting();
      await waiting.answer(waiting.other, APPROVE);
      const answer = () => settle(waiting.answer(waiting.one, APPROVE));
      const send = () => waiting.send('Stop', 'interrupt');
      const results = isFirst
        ? await waiting.inOrder<unknown, unknown>(answer, send)
        : await waiting.inOrder<unknown, unknown>(send, answer);
      const [sent, answered] = isFirst ? results.toReversed() : results;
      const cancelled = { runId: waiting.runId, notify: false, job: { runId: waiting.runId } };
      if (isFirst) expect(sent).toMatchObject({ queued: true, job: null, cancelled });
      else expect([sent, answered]).toMatchObject([{ queued: false, job: { no: 1 } }, 'conflict']);
    }
  });

  it('any order of answers of two people: one job, when nothing is open any more', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const answers: readonly CallAnswer[] = [APPROVE, { kind: 'deny' }, { kind: 'deny', reason: 'No.' }];
    const said = fc.record({ index: fc.nat(4), answer: fc.constantFrom(...answers) });
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 5 }),
        fc.array(said, { maxLength: 6 }),
        fc.array(said, { maxLength: 6 }),
        async (count, mine, yours) => {
          const session = await openRace(db);
          const claimed = await claimJob(db, (await session.send('Go')).job ?? undefined);
          const { runId } = claimed.fence;
          const asked = Array.from({ length: count }, () => ({ kind: 'approval', toolName: 'deploy' }) as const);
          const actions = await askStep(db, claimed, asked);
          const all = actions.map((_, index) => ({ index, answer: APPROVE }));
          const client = async (list: readonly { index: number; answer: CallAnswer }[]) => {
            const jobs: JobPayload[] = [];
            for (const { index, answer } of [...list, ...all]) {
              const place = parseCallId(actions[index]?.id ?? '');
              if (place === null) continue;
              const answered = await settle(answerCall(db, { tenantId: 'default', runId, ...place }, answer));
              if (typeof answered === 'string') expect(answered).toBe('already_answered');
              else if (answered.job !== null) jobs.push(answered.job);
            }
            return jobs;
          };
          const jobs = (await Promise.all([client(mine), client(yours)])).flat();
          expect(jobs).toHaveLength(1);
          expect(await claimOf(db, jobs[0] ?? { runId, kind: 'step', no: 0, dispatch: 0 })).toMatchObject({
            outcome: 'claimed',
          });
          const events = await readEvents(db, 'default', session.sessionId, { afterSeq: 0, limit: 1_000 });
          const opens = events.filter(({ type }) => type === 'run:answered').map(({ data }) => data['open']);
          expect(opens).toEqual(Array.from({ length: count }, (_, index) => count - 1 - index));
        },
      ),
      { numRuns: propertyRuns(0.5) },
    );
  });
});
