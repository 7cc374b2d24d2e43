import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { planNext, type StepOutcome } from '../../src/domain/run/next-step.ts';
import type { PendingKind } from '../../src/domain/run/run.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { newId } from '../../src/platform/new-id.ts';
import { requestMaintenance } from '../../src/store/changes/maintenance.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { restartStep } from '../../src/store/work/claims.ts';
import { failClaimedRun } from '../../src/store/work/run-failure.ts';
import { finishStep } from '../../src/store/work/step-writes.ts';
import { type Claimed, claimJob } from '../http/play-worker.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { changeWaiting } from '../support/unlimited.ts';
import { claimOf, finishCleanUp, openRace, type Race } from './race.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

async function end(race: Race, claimed: Claimed, more: Partial<StepOutcome>) {
  const { fence, job, messageId } = claimed;
  const next = planNext({
    runId: fence.runId,
    stepNo: job.no,
    stepsBefore: claimed.run.stepCount,
    maxSteps: 1,
    finishReason: 'tool-calls',
    toolCalls: 1,
    givesFinalAnswer: true,
    result: { kind: 'answered' },
    ...more,
  });
  const isAsked = more.result?.kind !== 'postponed' && more.result?.kind !== 'repeat';
  const response = isAsked
    ? { messageId, parts: [{ type: 'text' as const, text: 'Said.' }], finishReason: 'stop' as const }
    : { messageId, parts: [], superseded: true };
  const finish = {
    response,
    usage: { ...NO_USAGE, inputTokens: 50 },
    costUsd: 0,
    nextRunId: newId(),
    steps: 1 as const,
  };
  const finished = await finishStep(race.db, fence, { ...finish, moves: [], events: [], next });
  if (finished === null) throw new Error('the step was fenced');
  return finished;
}

/** A run that has used up its steps and its tokens, and whose final answer is pending. */
async function atLimit(race: Race): Promise<JobPayload> {
  const claimed = await race.begin();
  await race.db.updateTable('runs').set({ budget_tokens: 10 }).where('id', '=', claimed.fence.runId).execute();
  const [job] = (await end(race, claimed, {})).jobs;
  if (job === undefined) throw new Error('there is no final answer');
  return job;
}

const setTime = (race: Race, runId: string, at: string) =>
  race.db.updateTable('runs').set({ final_answer_until: at }).where('id', '=', runId).execute();

const askFor = (race: Race, kind: CleanUp) => requestMaintenance(race.db, { ...race.ref, kind, runId: newId() });

/** Expects that the requested clean-up begins after the final answer, once, in a run of its own. */
async function expectCleanUpAfter(race: Race, runId: string, jobs: readonly JobPayload[], kind: CleanUp) {
  expect(await findRun(race.db, 'default', runId)).toMatchObject({ status: 'incomplete', status_reason: 'max_steps' });
  expect(jobs).toMatchObject([{ kind, no: 1 }]);
  expect(jobs[0]?.runId).not.toBe(runId);
  expect(await race.playOut()).toEqual([jobs[0]?.runId]);
  expect((await race.eventTypes()).filter((type) => type === 'run:incomplete')).toHaveLength(1);
}

type CleanUp = Exclude<PendingKind, 'step'>;
const CLEAN_UPS = (['compaction', 'prune'] as const).flatMap((kind) =>
  [true, false].map((isFirst) => [kind, isFirst] as const),
);

const LONG_AGO = '2000-01-01T00:00:00Z';

describe('the final answer of a run', () => {
  it('is a step of its own, with 60 s of its own, however little the run had left', async () => {
    const race = await openRace(database.db);
    const job = await atLimit(race);
    await race.db.updateTable('runs').set({ deadline_at: LONG_AGO }).where('id', '=', job.runId).execute();
    const { run } = await claimJob(race.db, job);
    expect(run).toMatchObject({ finalAnswerFor: 'max_steps', stepCount: 1 });
    expect(run.timeLeftMs).toBeGreaterThan(50_000);
    expect(run.timeLeftMs).toBeLessThanOrEqual(60_000);
    const started = (await readEvents(race.db, 'default', race.sessionId, { afterSeq: 0, limit: 100 })).filter(
      ({ type }) => type === 'step:started',
    );
    expect(started.map(({ data }) => data['finalAnswerFor'])).toEqual([undefined, 'max_steps']);
  });

  it('hears nothing that waits: that has a run of its own, which its sender knows at once', async () => {
    const race = await openRace(database.db);
    const first = await race.begin();
    const before = await race.send('Sent before the limit');
    const job = (await end(race, first, {})).jobs[0];
    const claimed = await claimJob(race.db, job);
    const during = await race.send('Sent during the final answer');
    expect(during).toMatchObject({ queued: true, position: 2, status: 'queued' });
    expect(during.runId).not.toBe(claimed.fence.runId);
    await changeWaiting(race.db, { ...race.ref, messageId: during.messageId }, { delivery: 'followup' }, newId());
    await changeWaiting(race.db, { ...race.ref, messageId: during.messageId }, { delivery: 'steer' }, newId());
    expect(await race.userTexts()).toEqual(['Go']);
    const { jobs } = await end(race, claimed, { finalAnswerFor: 'max_steps', finishReason: 'stop', toolCalls: 0 });
    expect(jobs).toMatchObject([{ runId: during.runId, no: 1 }]);
    expect(await findRun(race.db, 'default', before.runId)).toMatchObject({
      status: 'incomplete',
      status_reason: 'max_steps',
      step_count: 2,
    });
    expect(await race.playOut()).toEqual([during.runId]);
    expect(await race.userTexts()).toHaveLength(3);
  });

  it('is begun by nobody once its time is up, by a claim as little as after a settlement', async () => {
    const race = await openRace(database.db);
    const job = await atLimit(race);
    await setTime(race, job.runId, LONG_AGO);
    const claim = await claimOf(race.db, job);
    expect(claim).toMatchObject({ outcome: 'claimed', view: null, interruptedMessageId: null });
    if (claim.outcome !== 'claimed') return;
    const row = await race.db.selectFrom('runs').selectAll().where('id', '=', job.runId).executeTakeFirstOrThrow();
    const fence = { runId: job.runId, epoch: claim.epoch, claimId: row.claim_id ?? '' };
    expect(await restartStep(race.db, fence, newId(), null)).toMatchObject({ view: null });
    await setTime(race, job.runId, '2100-01-01T00:00:00Z');
    expect((await restartStep(race.db, fence, newId(), null))?.view).toHaveLength(2);
  });

  it('that costs too many workers, or that we cannot even ask for, ends the run for its limit', async () => {
    const race = await openRace(database.db);
    const { fence } = await claimJob(race.db, await atLimit(race));
    const { runId } = await race.send('And this?');
    const error = { code: 'model_unavailable', message: 'No such provider.' } as const;
    expect(await failClaimedRun(race.db, fence, error)).toMatchObject({ limit: 'max_steps' });
    const run = await findRun(race.db, 'default', fence.runId);
    expect(run).toMatchObject({ status: 'incomplete', status_reason: 'max_steps', error });
    expect(await race.session()).toMatchObject({ active_run_id: runId });
    expect(await race.eventTypes()).not.toContain('run:failed');
    expect(await race.playOut()).toEqual([runId]);
  });

  it('that was cancelled and is lost then ends as any other', async () => {
    const race = await openRace(database.db);
    const { fence } = await claimJob(race.db, await atLimit(race));
    await sql`update runs set status = 'cancelling' where id = ${fence.runId}`.execute(race.db);
    const error = { code: 'internal', message: 'No.' } as const;
    expect(await failClaimedRun(race.db, fence, error)).toMatchObject({ limit: null });
    expect(await findRun(race.db, 'default', fence.runId)).toMatchObject({ status: 'failed', status_reason: null });
  });
});

describe('a clean-up that somebody asks for, and the final answer of a run', () => {
  it.each(CLEAN_UPS)(
    '%s vs. the end of the last step (asked first: %s): it would come before the answer, within its time',
    async (kind, isFirst) => {
      const race = await openRace(database.db);
      const first = await race.begin();
      const [asked, { jobs }] = await race.meet(
        isFirst,
        () => askFor(race, kind),
        () => end(race, first, {}),
      );
      const { runId } = first.fence;
      expect(asked).toMatchObject({ runId, queued: true, job: null });
      expect(jobs).toMatchObject([{ runId, kind: 'step', no: 2 }]);
      const answered = await end(race, await claimJob(race.db, jobs[0]), { finalAnswerFor: 'max_steps' });
      await expectCleanUpAfter(race, runId, answered.jobs, kind);
    },
  );

  it.each(CLEAN_UPS)(
    '%s vs. the end of the answer (asked first: %s): it would be lost, or done twice',
    async (kind, isFirst) => {
      const race = await openRace(database.db);
      const claimed = await claimJob(race.db, await atLimit(race));
      const [asked, { jobs }] = await race.meet(
        isFirst,
        () => askFor(race, kind),
        () => end(race, claimed, { finalAnswerFor: 'max_steps' }),
      );
      expect(asked.queued).toBe(isFirst);
      await expectCleanUpAfter(race, claimed.fence.runId, [...jobs, ...(asked.job === null ? [] : [asked.job])], kind);
    },
  );

  it.each(['compaction', 'prune'] as const)(
    '%s vs. an answer that has to wait or to be made to fit: it would be put off again',
    async (kind) => {
      const race = await openRace(database.db);
      const job = await atLimit(race);
      await askFor(race, kind);
      const error = { code: 'model_unavailable', message: 'Not now.' } as const;
      const later = await end(race, await claimJob(race.db, job), {
        finalAnswerFor: 'max_steps',
        result: { kind: 'postponed', postponement: { delayMs: 0, attempt: 1, error } },
      });
      expect(later.jobs).toMatchObject([{ runId: job.runId, kind: 'step', no: 2 }]);
      const tooLarge = await end(race, await claimJob(race.db, later.jobs[0]), {
        finalAnswerFor: 'max_steps',
        result: { kind: 'repeat', after: 'compaction' },
      });
      expect(tooLarge.jobs).toMatchObject([{ runId: job.runId, kind: 'compaction', no: 2 }]);
      const fits = await finishCleanUp(race.db, await claimJob(race.db, tooLarge.jobs[0]));
      expect(fits.jobs).toMatchObject([{ runId: job.runId, kind: 'step', no: 2 }]);
      const answered = await end(race, await claimJob(race.db, fits.jobs[0]), { finalAnswerFor: 'max_steps' });
      await expectCleanUpAfter(race, job.runId, answered.jobs, kind);
    },
  );
});
