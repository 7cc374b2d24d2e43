import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunLimits } from '../../src/domain/run/run-limits.ts';
import { newId } from '../../src/platform/new-id.ts';
import { requestMaintenance } from '../../src/store/changes/maintenance.ts';
import { type RetriedRun, retryFailedRun } from '../../src/store/changes/retry-run.ts';
import { answerStep, claimJob, failStep } from '../http/play-worker.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { acceptMessage, resumeSession } from '../support/unlimited.ts';
import { brokenInvariants } from './invariants.ts';
import { finishCleanUp, openRace } from './race.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

const GIVEN: RunLimits = { maxSteps: 3, maxTokens: 900, maxCostUsd: 2, deadlineMs: 60_000 };
const AUTH = { code: 'auth', message: 'The key is wrong.' } as const;

/** A session in which runs are given limits. */
async function openSession() {
  const race = await openRace(database.db);
  const { db, ref } = race;
  const send = (limits: RunLimits, delivery: 'steer' | 'followup' = 'steer') => {
    const content = [{ type: 'text', text: 'x' }] as const;
    return acceptMessage(db, { ...ref, messageId: newId(), content, runId: newId(), limits, delivery });
  };
  const failed = async (limits: RunLimits): Promise<string> => {
    const { job, runId } = await send(limits);
    await failStep(db, await claimJob(db, job ?? undefined), AUTH);
    return runId;
  };
  const resume = (limits: RunLimits = {}) => resumeSession(db, { ...ref, runId: newId(), limits });
  const limitsOf = async (runId: string) => {
    const { rows } = await sql`
      select max_steps as "maxSteps", budget_tokens as "maxTokens", budget_cost_usd as "maxCostUsd",
        round(extract(epoch from deadline_at - created_at))::integer * 1000 as "deadlineMs"
      from runs where id = ${runId}`.execute(db);
    return rows[0];
  };
  const setAgentLimits = (limits: RunLimits) =>
    sql`update sessions set agent_snapshot = jsonb_set(agent_snapshot, '{limits}', ${JSON.stringify(limits)}::jsonb)
      where id = ${race.sessionId}`.execute(db);
  return { ...race, send, failed, resume, limitsOf, setAgentLimits };
}

describe('a run that goes on where another one stopped', () => {
  it('has the limits that this one was given, from anew, but for those that the request names', async () => {
    const session = await openSession();
    await session.failed(GIVEN);
    const named = await session.resume({ maxTokens: 9 });
    expect(await session.limitsOf(named.runId)).toEqual({ ...GIVEN, maxTokens: 9 });
    await failStep(session.db, await claimJob(session.db, named.job ?? undefined), AUTH);
    const again = await session.resume();
    expect(await session.limitsOf(again.runId)).toEqual({ ...GIVEN, maxTokens: 9 });
  });

  it('has them also after a clean-up', async () => {
    const session = await openSession();
    await session.failed(GIVEN);
    const tidying = await requestMaintenance(session.db, { ...session.ref, kind: 'prune', runId: newId() });
    const claimed = await claimJob(session.db, tidying.job ?? undefined);
    const { runId } = await session.resume({ maxSteps: 7 });
    await finishCleanUp(session.db, claimed);
    expect(await session.limitsOf(runId)).toEqual({ ...GIVEN, maxSteps: 7 });
  });

  it('has the limits of the agent as it is now, and those of a newer message before the given ones', async () => {
    const session = await openSession();
    await session.setAgentLimits({ maxSteps: 5, maxTokens: 500 });
    const { job } = await session.send({ maxCostUsd: 2, deadlineMs: 60_000 });
    const claimed = await claimJob(session.db, job ?? undefined);
    await session.send({ maxCostUsd: 4 });
    await failStep(session.db, claimed, AUTH);
    await session.setAgentLimits({ maxSteps: 6 });
    const { runId } = await session.resume();
    expect(await session.limitsOf(runId)).toEqual({ maxSteps: 6, maxTokens: null, maxCostUsd: 4, deadlineMs: 60_000 });
  });

  it('is none that answers a new message', async () => {
    const session = await openSession();
    await session.failed(GIVEN);
    const { runId, job } = await session.send({ maxSteps: 8 });
    expect(await session.limitsOf(runId)).toEqual({ maxSteps: 8, maxTokens: null, maxCostUsd: null, deadlineMs: null });
    await answerStep(session.db, await claimJob(session.db, job ?? undefined), 'Done.');
  });
});

describe('a failed run whose job is tried again', () => {
  it('is the same run, with its limits and what it had used of them; the time in between does not count', async () => {
    const session = await openSession();
    const runId = await session.failed(GIVEN);
    await sql`
      update runs set created_at = created_at - interval '1 hour', deadline_at = deadline_at - interval '1 hour',
        finished_at = finished_at - interval '1 hour' where id = ${runId}`.execute(session.db);
    const retried = await retryFailedRun(session.db, runId);
    expect(retried).toMatchObject({ sessionId: session.sessionId, job: { runId, kind: 'step', no: 2 } });
    const { deadlineMs, ...limits } = GIVEN;
    expect(await session.limitsOf(runId)).toEqual({ ...limits, deadlineMs: Number(deadlineMs) + 3_600_000 });
    expect(await retryFailedRun(session.db, runId)).toBe('moved_on');
    await answerStep(session.db, await claimJob(session.db, (retried as RetriedRun).job), 'Done.');
    expect(await retryFailedRun(session.db, runId)).toBe('moved_on');
  });

  it('hears what was waiting for the next run only after it, in the run that was promised', async () => {
    const session = await openSession();
    const { job, runId } = await session.send({});
    const claimed = await claimJob(session.db, job ?? undefined);
    const waiting = await session.send({}, 'followup');
    await failStep(session.db, claimed, AUTH);
    const retried = (await retryFailedRun(session.db, runId)) as RetriedRun;
    const finished = await answerStep(session.db, await claimJob(session.db, retried.job), 'Done.');
    expect(finished?.jobs.map((next) => next.runId)).toEqual([waiting.runId]);
  });

  it('waits for a clean-up that is at work in the session, and is not where that was closed or resumed', async () => {
    const session = await openSession();
    const runId = await session.failed({});
    const tidying = await requestMaintenance(session.db, { ...session.ref, kind: 'prune', runId: newId() });
    const claimed = await claimJob(session.db, tidying.job ?? undefined);
    expect(await retryFailedRun(session.db, runId)).toBe('busy');
    await finishCleanUp(session.db, claimed);
    await session.resume();
    expect(await retryFailedRun(session.db, runId)).toBe('moved_on');
  });
});

describe('a failed run that is tried again', () => {
  const AGAIN = { job: { kind: 'step' } };

  it.each([true, false])(
    'retry vs. message (the retry first: %s): two runs would be active, or the message lost',
    async (isFirst) => {
      const session = await openSession();
      const runId = await session.failed({});
      const retry = () => retryFailedRun(session.db, runId);
      const [retried, sent] = await session.meet(isFirst, retry, () => session.send({}));
      if (isFirst) {
        expect([retried, sent]).toMatchObject([AGAIN, { job: null, runId }]);
      } else {
        expect([retried, sent]).toMatchObject(['moved_on', AGAIN]);
      }
      expect(await session.playOut()).toEqual([isFirst ? runId : sent.runId]);
      expect(await session.userTexts()).toEqual(['x', 'x']);
      expect(await brokenInvariants(session.db)).toEqual([]);
    },
  );

  it.each([true, false])('retry vs. resume (the retry first: %s): two runs would go on', async (isFirst) => {
    const session = await openSession();
    const runId = await session.failed({});
    const resume = () => session.resume().catch((error: unknown) => ({ runId: '', job: null, error }));
    const [retried, resumed] = await session.meet(isFirst, () => retryFailedRun(session.db, runId), resume);
    if (isFirst) expect([retried, resumed]).toMatchObject([AGAIN, { error: { code: 'session_busy' } }]);
    else expect([retried, resumed]).toMatchObject(['moved_on', AGAIN]);
    expect(await session.playOut()).toEqual([isFirst ? runId : resumed.runId]);
    expect(await brokenInvariants(session.db)).toEqual([]);
  });
});
