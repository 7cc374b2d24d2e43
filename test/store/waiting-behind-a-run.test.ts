import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../src/platform/new-id.ts';
import { requestCancel, requestSessionCancel } from '../../src/store/changes/cancels.ts';
import { requestMaintenance } from '../../src/store/changes/maintenance.ts';
import { removeWaiting } from '../../src/store/changes/waiting.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { listWaiting } from '../../src/store/session/waiting-messages.ts';
import { failClaimedRun } from '../../src/store/work/run-failure.ts';
import { answerStep, type Claimed, claimJob, failStep, stopStep } from '../http/play-worker.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { resumeSession } from '../support/unlimited.ts';
import { finishCleanUp, openRace, type Race } from './race.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

const AUTH = { code: 'auth', message: 'The key is wrong.' } as const;

/** Asks for a clean-up: of an idle session in a run of its own, else of the run that is at work. */
const tidyUp = ({ db, ref }: Race, kind: 'compaction' | 'prune' = 'prune') =>
  requestMaintenance(db, { ...ref, kind, runId: newId() });

const claimTidyUp = async (race: Race): Promise<Claimed> => claimJob(race.db, (await tidyUp(race)).job ?? undefined);

const resume = ({ db, ref }: Race, limits = {}) => resumeSession(db, { ...ref, runId: newId(), limits });

const waiting = async ({ db, sessionId }: Race) =>
  (await listWaiting(db, 'default', sessionId)).map(({ content }) => (content[0] as { text: string }).text);

/** Sets the time of a message as if another clock had measured it. */
const enqueuedAt = ({ db }: Race, messageId: string, at: string) =>
  db.updateTable('inbox').set({ enqueued_at: at }).where('id', '=', messageId).execute();

const LONG_AGO = '2000-01-01T00:00:00Z';
const FAR_OFF = '2100-01-01T00:00:00Z';

describe('a message that waits behind a run', () => {
  const cancel = ({ db }: Race, { fence }: Claimed) => requestCancel(db, 'default', fence.runId);
  type End = (race: Race, claimed: Claimed) => Promise<unknown>;

  it.each<[string, 'starts the next run' | 'is parked', End]>([
    ['completes', 'starts the next run', ({ db }, claimed) => answerStep(db, claimed, 'Done.')],
    ['reaches a limit', 'starts the next run', ({ db }, claimed) => stopStep(db, claimed, { limit: 'budget' })],
    [
      'fails in its final answer',
      'starts the next run',
      async ({ db }, { fence }) => {
        await db.updateTable('runs').set({ final_answer_for: 'budget' }).where('id', '=', fence.runId).execute();
        await failClaimedRun(db, fence, AUTH);
      },
    ],
    [
      'does not fit the context',
      'is parked',
      ({ db }, claimed) => stopStep(db, claimed, { result: { kind: 'exhausted', error: AUTH } }),
    ],
    ['fails in a step', 'is parked', ({ db }, claimed) => failStep(db, claimed, AUTH)],
    ['fails outside a step', 'is parked', ({ db }, { fence }) => failClaimedRun(db, fence, AUTH)],
    [
      'is cancelled before its answer is whole',
      'is parked',
      async (race, claimed) => {
        await cancel(race, claimed);
        await stopStep(race.db, claimed, {});
      },
    ],
    [
      'is cancelled and completes all the same',
      'is parked',
      async (race, claimed) => {
        await cancel(race, claimed);
        await answerStep(race.db, claimed, 'Done.');
      },
    ],
    [
      'is cancelled and fails all the same',
      'is parked',
      async (race, claimed) => {
        await cancel(race, claimed);
        await failClaimedRun(race.db, claimed.fence, AUTH);
      },
    ],
  ])('that %s %s', async (_, what, end) => {
    const race = await openRace(database.db);
    const claimed = await race.begin();
    const { runId } = await race.send('And then this', 'followup');
    await end(race, claimed);
    expect(await race.session()).toMatchObject({ active_run_id: what === 'is parked' ? null : runId });
    expect(await waiting(race)).toEqual(['And then this']);
  });

  it('is parked by a cancel of the run before a worker has it', async () => {
    const race = await openRace(database.db);
    const { runId } = await race.send('Go');
    await race.send('And then this', 'followup');
    expect(await requestCancel(race.db, 'default', runId)).toMatchObject({ status: 'cancelled', job: null });
    expect(await race.session()).toMatchObject({ active_run_id: null });
    expect(await waiting(race)).toEqual(['Go', 'And then this']);
  });

  it.each<[string, End]>([
    ['completes', ({ db }, claimed) => answerStep(db, claimed, 'Done.')],
    [
      'fails in its final answer',
      async ({ db }, { fence }) => {
        await db.updateTable('runs').set({ final_answer_for: 'budget' }).where('id', '=', fence.runId).execute();
        await failClaimedRun(db, fence, AUTH);
      },
    ],
  ])('stays parked when its own run was cancelled and the one before it %s', async (_, end) => {
    const race = await openRace(database.db);
    const claimed = await race.begin();
    const { runId } = await race.send('And then this', 'followup');
    await requestCancel(race.db, 'default', runId);
    await end(race, claimed);
    expect(await race.session()).toMatchObject({ active_run_id: null });
    expect(await waiting(race)).toEqual(['And then this']);
  });
});

describe('what came before a cancel and what came after it', () => {
  it('is told apart by the order in which it was accepted, whatever the clocks say', async () => {
    const race = await openRace(database.db);
    const claimed = await race.begin();
    await enqueuedAt(race, (await race.send('Parked')).messageId, FAR_OFF);
    await requestCancel(race.db, 'default', claimed.fence.runId);
    expect((await answerStep(race.db, claimed, 'Half')).jobs).toEqual([]);
    const again = await claimJob(race.db, (await race.send('Go again')).job ?? undefined);
    await requestCancel(race.db, 'default', again.fence.runId);
    const { messageId, runId } = await race.send('Now this');
    await enqueuedAt(race, messageId, LONG_AGO);
    expect((await answerStep(race.db, again, 'Half')).jobs).toMatchObject([{ runId }]);
  });

  it('likewise with a clean-up: what was parked before stays, what came meanwhile goes on', async () => {
    const race = await openRace(database.db);
    const claimed = await race.begin();
    await enqueuedAt(race, (await race.send('Left behind')).messageId, FAR_OFF);
    await failStep(race.db, claimed, AUTH);
    expect((await finishCleanUp(race.db, await claimTidyUp(race))).jobs).toEqual([]);
    for (const end of [finishCleanUp, (db: Race['db'], { fence }: Claimed) => failClaimedRun(db, fence, AUTH)]) {
      const tidying = await claimTidyUp(race);
      const { messageId, runId } = await race.send('And now?');
      await enqueuedAt(race, messageId, LONG_AGO);
      await end(race.db, tidying);
      expect(await race.session()).toMatchObject({ active_run_id: runId });
      await race.playOut();
    }
  });
});

describe('a session that is resumed while it tidies itself up', () => {
  /** A run that failed and left a message behind, and a clean-up that a worker has. */
  async function tidyingAfterFailure() {
    const race = await openRace(database.db);
    const claimed = await race.begin();
    await race.send('Left behind');
    await failStep(race.db, claimed, AUTH);
    return { race, tidying: await claimTidyUp(race) };
  }

  it('goes on when that is done, with what was left behind and with the limits of the resumption', async () => {
    const { race, tidying } = await tidyingAfterFailure();
    const resumed = await resume(race, { maxSteps: 7 });
    expect(resumed.job).toBe(null);
    expect(await findRun(race.db, 'default', resumed.runId)).toMatchObject({ status: 'queued', step_count: 0 });
    expect((await resume(race, { maxSteps: 7 })).runId).toBe(resumed.runId);
    const { jobs } = await finishCleanUp(race.db, tidying);
    expect(jobs).toMatchObject([{ runId: resumed.runId, kind: 'step', no: 1 }]);
    expect(await findRun(race.db, 'default', resumed.runId)).toMatchObject({ max_steps: 7 });
    expect(await race.playOut()).toEqual([resumed.runId]);
    expect(await race.userTexts()).toEqual(['Go', 'Left behind']);
    await expect(resume(race)).rejects.toMatchObject({ code: 'conflict' });
  });

  it('goes on without any message where nothing was left behind', async () => {
    const race = await openRace(database.db);
    await failStep(race.db, await race.begin(), AUTH);
    const tidying = await claimTidyUp(race);
    const { runId } = await resume(race);
    expect((await finishCleanUp(race.db, tidying)).jobs).toMatchObject([{ runId, kind: 'step' }]);
  });

  it('is refused where there is nothing to go on with', async () => {
    const race = await openRace(database.db);
    await claimTidyUp(race);
    await expect(resume(race)).rejects.toMatchObject({ code: 'conflict' });
  });

  it('takes along what comes meanwhile, in the same run', async () => {
    const { race, tidying } = await tidyingAfterFailure();
    const { runId } = await resume(race);
    const sent = await race.send('And this');
    expect(sent.runId).toBe(runId);
    // Without that message the session still goes on.
    await removeWaiting(race.db, { ...race.ref, messageId: sent.messageId });
    expect((await race.send('Or this')).runId).toBe(runId);
    await finishCleanUp(race.db, tidying);
    expect(await race.playOut()).toEqual([runId]);
    expect(await race.userTexts()).toEqual(['Go', 'Left behind', 'Or this']);
  });

  it('goes on although the clean-up fails or is cancelled', async () => {
    const failing = await tidyingAfterFailure();
    const first = await resume(failing.race);
    await failClaimedRun(database.db, failing.tidying.fence, AUTH);
    expect(await failing.race.session()).toMatchObject({ active_run_id: first.runId });

    const race = await openRace(database.db);
    await failStep(race.db, await race.begin(), AUTH);
    const tidying = await tidyUp(race);
    const { runId } = await resume(race);
    const cancelled = await requestCancel(race.db, 'default', tidying.runId);
    expect(cancelled).toMatchObject({ status: 'cancelled', job: { runId, kind: 'step' } });
    expect(await race.session()).toMatchObject({ active_run_id: runId });
  });

  it('does not, once the session is cancelled or the run that was promised', async () => {
    for (const cancel of [
      (race: Race, _runId: string) => requestSessionCancel(race.db, 'default', race.sessionId),
      (race: Race, runId: string) => requestCancel(race.db, 'default', runId),
    ]) {
      const { race, tidying } = await tidyingAfterFailure();
      const { runId } = await resume(race);
      await cancel(race, runId);
      expect(await findRun(race.db, 'default', runId)).toMatchObject({ status: 'cancelled' });
      expect((await finishCleanUp(race.db, tidying)).jobs).toEqual([]);
      expect(await waiting(race)).toEqual(['Left behind']);
      expect(await race.session()).toMatchObject({ status: 'idle' });
    }
  });

  it('keeps its clean-up when a message is removed that was left behind before', async () => {
    const { race, tidying } = await tidyingAfterFailure();
    const removed = await removeWaiting(race.db, { ...race.ref, messageId: null });
    expect(removed).toMatchObject({ cancelled: null });
    expect((await finishCleanUp(race.db, tidying)).jobs).toEqual([]);
  });
});

describe('a run that loses the message it was to begin with', () => {
  it('while a worker compacts for it: the worker is to be told, and what waits behind it goes on', async () => {
    const race = await openRace(database.db);
    const first = await race.begin();
    const next = await race.send('Then this', 'followup');
    await tidyUp(race, 'compaction');
    const compacting = await claimJob(race.db, (await answerStep(race.db, first, 'Done.')).jobs[0]);
    expect(compacting.job).toMatchObject({ runId: next.runId, kind: 'compaction' });
    const behind = await race.send('And then that', 'followup');
    const removal = await removeWaiting(race.db, { ...race.ref, messageId: next.messageId });
    expect(removal.cancelled).toMatchObject({ runId: next.runId, status: 'cancelling', notify: true });
    const { jobs } = await finishCleanUp(race.db, compacting);
    expect(await findRun(race.db, 'default', next.runId)).toMatchObject({ status: 'cancelled' });
    expect(jobs).toMatchObject([{ runId: behind.runId, kind: 'step' }]);
    await race.playOut();
    expect(await race.userTexts()).toEqual(['Go', 'And then that']);
  });

  it('after it was cancelled leaves what was parked by that where it is', async () => {
    const race = await openRace(database.db);
    const first = await race.begin();
    const next = await race.send('Then this', 'followup');
    await tidyUp(race, 'compaction');
    const compacting = await claimJob(race.db, (await answerStep(race.db, first, 'Done.')).jobs[0]);
    await race.send('And then that', 'followup');
    await requestSessionCancel(race.db, 'default', race.sessionId);
    await removeWaiting(race.db, { ...race.ref, messageId: next.messageId });
    expect((await finishCleanUp(race.db, compacting)).jobs).toEqual([]);
    expect(await waiting(race)).toEqual(['And then that']);
  });
});

describe('a clean-up that somebody asked for during a run', () => {
  /** A run without a worker, and a compaction that was requested meanwhile. */
  async function asked() {
    const race = await openRace(database.db);
    const { runId } = await race.send('Go');
    expect(await tidyUp(race, 'compaction')).toMatchObject({ runId, queued: true });
    return { race, runId };
  }

  it.each([
    ['run', ({ db }: Race, runId: string) => requestCancel(db, 'default', runId)],
    ['session', async ({ db, sessionId }: Race) => (await requestSessionCancel(db, 'default', sessionId)).outcome],
  ])('is done at once where the cancel of the %s ends it', async (_, cancel) => {
    const { race, runId } = await asked();
    const outcome = await cancel(race, runId);
    expect(outcome).toMatchObject({ status: 'cancelled', hasEnded: true, job: { kind: 'compaction' } });
    const { active_run_id: activeRunId } = await race.session();
    expect(outcome?.job?.runId).toBe(activeRunId);
    await finishCleanUp(race.db, await claimJob(race.db, outcome?.job ?? undefined));
    expect(await race.session()).toMatchObject({ status: 'idle', active_run_id: null });
  });

  it('is done before the run of the message that interrupts', async () => {
    const { race } = await asked();
    const sent = await race.send('No: this', 'interrupt');
    expect(sent.job).toMatchObject({ runId: sent.runId, kind: 'compaction' });
    const compacting = await claimJob(race.db, sent.job ?? undefined);
    expect((await finishCleanUp(race.db, compacting)).jobs).toMatchObject([{ runId: sent.runId, kind: 'step' }]);
    expect(await race.playOut()).toEqual([sent.runId]);
  });

  it('is done where the run fails for a reason of ours', async () => {
    const { race, runId } = await asked();
    const claimed = await claimJob(race.db, { runId, kind: 'step', no: 1, dispatch: 1 });
    await failClaimedRun(race.db, claimed.fence, AUTH);
    const { active_run_id: activeRunId } = await race.session();
    expect(await findRun(race.db, 'default', String(activeRunId))).toMatchObject({ kind: 'maintenance' });
    await race.playOut();
    expect(await race.session()).toMatchObject({ status: 'idle' });
  });
});
