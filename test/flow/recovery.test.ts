import { Redis } from 'ioredis';
import { sql } from 'kysely';
import { describe, expect, inject, it } from 'vitest';
import { startJobWorker } from '../../src/app/job-worker.ts';
import { createClaimKeeper } from '../../src/claims/claim-keeper.ts';
import { createViewCache } from '../../src/claims/view-cache.ts';
import { MAX_RESUMES_PER_STEP } from '../../src/domain/tunables.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { runStep } from '../../src/step/run-step.ts';
import { createStepWriter } from '../../src/step/step-writer.ts';
import { createTextAppender } from '../../src/step/text-appender.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { beginHistory } from '../../src/store/db/history.ts';
import { listWaiting } from '../../src/store/session/waiting-messages.ts';
import { readStreamedParts } from '../../src/store/transcript/chunks.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { claimRun, requeueRun } from '../../src/store/work/claims.ts';
import { finishStep, writeResponse } from '../../src/store/work/step-writes.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { describing } from '../model/test-models.ts';
import { appendOne, moveOne } from '../store/write-one.ts';
import { availableBackends } from '../support/backends.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { acceptMessage } from '../support/unlimited.ts';

async function acceptWithoutJob(service: TestService, sessionId: string) {
  const { deps } = service;
  const accepted = await acceptMessage(deps.db, {
    tenantId: 'default',
    sessionId,
    messageId: deps.newId(),
    content: [{ type: 'text', text: 'Go' }],
    runId: deps.newId(),
  });
  if (accepted.job === null) throw new Error('a run was active');
  return { ...accepted, job: accepted.job };
}

async function claim(
  service: TestService,
  accepted: Awaited<ReturnType<typeof acceptWithoutJob>>,
  leaseDurationMs: number,
) {
  const { db, newId } = service.deps;
  const claimId = newId();
  const messageId = newId();
  const claimed = await claimRun(db, { job: accepted.job, claimId, workerId: 'dead', leaseDurationMs, messageId });
  if (claimed.outcome !== 'claimed') throw new Error(claimed.outcome);
  return { fence: { runId: accepted.runId, epoch: claimed.epoch, claimId }, messageId };
}

describe.each(availableBackends())('recovery on %s', (backend) => {
  it('adds the job that a crash between commit and enqueue lost', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', [{ text: 'Answered.' }]);
    const accepted = await acceptWithoutJob(service, await service.createSession());
    await service.startWorker();
    expect(await service.ended(accepted.runId)).toMatchObject({ status: 'completed' });
  });

  // Field bugs: opencode#19023, opencode#43277: running for ever after a restart.
  it('gives the run of a dead worker to a living one, which begins the step anew', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', [{ text: 'Answered.' }]);
    const session = await service.createSession();
    const accepted = await acceptWithoutJob(service, session);
    const { fence, messageId } = await claim(service, accepted, 1);
    await appendOne(service.deps.db, fence, messageId, [{ charOffset: 0, partIndex: 1, type: 'text', text: 'Ans' }]);
    await service.startWorker();
    expect(await service.ended(accepted.runId)).toMatchObject({ status: 'completed', step_count: 1 });
    const messages = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 });
    expect(messages.map((message) => message.role)).toEqual(['user', 'assistant']);
    expect(
      (await readEvents(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 })).map((event) => event.type),
    ).toContain('step:reset');
  });

  it('begins a step anew whose database has gone back below its writes, and fails no run for it', async () => {
    let tries = 0;
    const goesBack: Tool = {
      name: 'look',
      description: 'Looks.',
      inputSchema: { type: 'object' },
      async execute() {
        if (++tries === 1) {
          const { db } = service.deps;
          // The state of the call is that of a moment before.
          await sql`update parts set state = 'pending' where state = 'running'`.execute(db);
          await beginHistory(db);
        }
        return { type: 'text', value: 'seen' };
      },
    };
    await using service = await startTestService({ backend, tools: [goesBack] });
    service.simulator.script('test', [{ toolCalls: [{ id: 'a', name: 'look', input: {} }] }, { text: 'Answered.' }]);
    await service.startWorker();
    const { runId } = await service.send(await service.createSession(), 'Go');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    expect(tries).toBe(2);
  });

  it('finishes a whole response of a dead worker without asking the model again', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', [{ text: 'never asked' }]);
    const session = await service.createSession();
    const accepted = await acceptWithoutJob(service, session);
    const { fence, messageId } = await claim(service, accepted, 1);
    const parts = [{ type: 'text', text: 'All of it.' }] as const;
    await writeResponse(service.deps.db, fence, { messageId, parts, finishReason: 'stop', usage: NO_USAGE }, []);
    await service.startWorker();
    expect(await service.ended(accepted.runId)).toMatchObject({ status: 'completed' });
    expect(service.simulator.requests.length).toBe(0);
  });

  it('pays for the response of a dead worker that it finishes', async () => {
    await using service = await startTestService({ backend });
    const accepted = await acceptWithoutJob(service, await service.createSession());
    const { fence, messageId } = await claim(service, accepted, 1);
    const parts = [{ type: 'text', text: 'All of it.' }] as const;
    const usage = { ...NO_USAGE, inputTokens: 1_000_000, outputTokens: 500_000, totalTokens: 1_500_000 };
    await writeResponse(service.deps.db, fence, { messageId, parts, finishReason: 'stop', usage }, []);
    const prices = { input: 2, cachedInput: null, cacheWrite: null, output: 8, request: 0 };
    const describeModel = await describing([{ provider: 'simulated', model: 'test', prices }]);
    await using _worker = await startJobWorker({ ...service.deps, describeModel });
    expect(await service.ended(accepted.runId)).toMatchObject({ status: 'completed', cost_usd: 6 });
  });

  it('leaves no answer open whose beginning was committed, its reply lost, and that was cancelled before the next try', async () => {
    await using service = await startTestService({ backend });
    const { deps } = service;
    const session = await service.createSession();
    const { job, runId } = await acceptWithoutJob(service, session);
    const ids = { messageId: deps.newId(), claimId: deps.newId() };
    const claimed = await claimRun(deps.db, { job, ...ids, workerId: deps.workerId, leaseDurationMs: 60_000 });
    expect(claimed.outcome).toBe('claimed');
    await requestCancel(deps.db, 'default', runId);
    await using claims = await createClaimKeeper(deps);
    const modelTimeouts = { firstChunkMs: 60_000, idleChunkMs: 60_000, wholeStepMs: 60_000 };
    const again = [ids.messageId, ids.claimId];
    const newId = () => again.shift() ?? deps.newId();
    const stepDeps = {
      ...deps,
      newId,
      claims,
      views: createViewCache(),
      appendText: createTextAppender(deps.db),
      writes: createStepWriter(deps.db),
      modelTimeouts,
      random: Math.random,
    };
    await runStep(stepDeps, job, new AbortController().signal);
    expect(await service.ended(runId)).toMatchObject({ status: 'cancelled' });
    const messages = await listMessages(deps.db, 'default', session, { afterSeq: 0, limit: 10 });
    const open = messages.filter(({ role, finishReason }) => role === 'assistant' && finishReason === null);
    expect(open).toEqual([]);
  });

  it('lets a worker that lost its run write nothing more', async () => {
    await using service = await startTestService({ backend });
    const { db } = service.deps;
    const session = await service.createSession();
    const accepted = await acceptWithoutJob(service, session);
    const zombie = await claim(service, accepted, 1);
    const job = await db.transaction().execute((tx) => requeueRun(tx, accepted.runId));
    if (job === null) throw new Error('the run had nothing to do');
    const other = await claim(service, { ...accepted, job }, 60_000);
    expect(other.fence.epoch).toBeGreaterThan(zombie.fence.epoch);
    const { fence, messageId } = zombie;
    const before = await readEvents(db, 'default', session, { afterSeq: 0, limit: 100 });
    expect(await appendOne(db, fence, messageId, [{ charOffset: 0, partIndex: 0, type: 'text', text: 'x' }])).toBe(
      false,
    );
    expect(
      await writeResponse(db, fence, { messageId, parts: [] }, [
        { type: 'llm:error', data: { error: { code: 'internal', message: '' }, recoverable: true } },
      ]),
    ).toBe(null);
    expect(await moveOne(db, fence, { messageId, index: 0, from: ['pending'], to: 'running', events: [] })).toBe(
      'lost',
    );
    const end = { kind: 'end', status: 'completed', events: [] } as const;
    const next = { ifCancelled: end, ifMessagesWait: end, otherwise: end };
    expect(
      await finishStep(db, fence, {
        moves: [],
        usage: NO_USAGE,
        costUsd: 0,
        nextRunId: service.deps.newId(),
        steps: 1,
        events: [],
        next,
      }),
    ).toBe(null);
    expect(await readEvents(db, 'default', session, { afterSeq: 0, limit: 100 })).toEqual(before);
  });

  it('claims a run once: of two workers with the same job one gets it, and a repeated claim gets the same answer', async () => {
    await using service = await startTestService({ backend });
    const { db, newId } = service.deps;
    const { job } = await acceptWithoutJob(service, await service.createSession());
    const input = () => ({ job, claimId: newId(), workerId: 'w', leaseDurationMs: 60_000, messageId: newId() });
    const inputs = Array.from({ length: 8 }, input);
    const claims = await Promise.all(inputs.map((one) => claimRun(db, one)));
    const winners = claims.flatMap((one, index) => (one.outcome === 'claimed' ? [{ one, index }] : []));
    expect(winners.length).toBe(1);
    expect(new Set(claims.map((one) => one.outcome))).toEqual(new Set(['claimed', 'held']));
    const winner = inputs[winners[0]?.index ?? 0];
    if (winner === undefined) throw new Error('no winner');
    const again = await claimRun(db, winner);
    if (again.outcome !== 'claimed') throw new Error(again.outcome);
    // Each claim measures the run's waiting time anew.
    expect(again).toEqual({ ...winners[0]?.one, run: { ...winners[0]?.one.run, waitedMs: again.run.waitedMs } });
  });

  it('leaves it to the reconciler what an expired lease means: a job alone takes a run from nobody', async () => {
    await using service = await startTestService({ backend });
    const accepted = await acceptWithoutJob(service, await service.createSession());
    await claim(service, accepted, 1);
    await expect(claim(service, accepted, 60_000)).rejects.toThrow('held');
  });

  it('acknowledges a job that the run has moved on from', async () => {
    await using service = await startTestService({ backend });
    const { deps } = service;
    const { job } = await acceptWithoutJob(service, await service.createSession());
    await using claims = await createClaimKeeper(deps);
    const modelTimeouts = { firstChunkMs: 60_000, idleChunkMs: 60_000, wholeStepMs: 60_000 };
    const stepDeps = {
      ...deps,
      claims,
      views: createViewCache(),
      appendText: createTextAppender(deps.db),
      writes: createStepWriter(deps.db),
      modelTimeouts,
      random: Math.random,
    };
    const idle = new AbortController().signal;
    expect(await runStep(stepDeps, { ...job, dispatch: 7 }, idle)).toEqual({ outcome: 'done' });
    expect(await runStep(stepDeps, { ...job, no: 9 }, idle)).toEqual({ outcome: 'done' });
    expect(await runStep(stepDeps, { ...job, runId: deps.newId() }, idle)).toEqual({ outcome: 'done' });
    expect(service.simulator.requests.length).toBe(0);
  });

  it('gives a run up, typed, that has killed its workers again and again', async () => {
    await using service = await startTestService({ backend });
    const session = await service.createSession();
    const accepted = await acceptWithoutJob(service, session);
    await claim(service, accepted, 1);
    await service.deps.db
      .updateTable('runs')
      .set({ resume_count: MAX_RESUMES_PER_STEP })
      .where('id', '=', accepted.runId)
      .execute();
    await service.startWorker();
    expect(await service.ended(accepted.runId)).toMatchObject({ status: 'failed', error: { code: 'resume_limit' } });
  });

  it('gives every open call an outcome when it gives a run up', async () => {
    await using service = await startTestService({ backend });
    const { db } = service.deps;
    const session = await service.createSession();
    const accepted = await acceptWithoutJob(service, session);
    const { fence, messageId } = await claim(service, accepted, 1);
    await writeResponse(db, fence, { messageId, parts: [call('a'), call('b')], finishReason: 'tool-calls' }, []);
    await moveOne(db, fence, { messageId, index: 0, from: ['pending'], to: 'running', events: [] });
    await db.updateTable('runs').set({ resume_count: MAX_RESUMES_PER_STEP }).where('id', '=', accepted.runId).execute();
    await service.startWorker();
    expect(await service.ended(accepted.runId)).toMatchObject({ status: 'failed' });
    const [, answer] = await listMessages(db, 'default', session, { afterSeq: 0, limit: 10 });
    expect(answer?.parts).toMatchObject([
      { state: 'error', output: { value: expect.stringContaining('unknown') } },
      { state: 'error', output: { value: expect.stringContaining('Not run') } },
    ]);
  });

  it('does not run the calls of a response that was cut off', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', [{ text: 'Goes on.' }]);
    const session = await service.createSession();
    const accepted = await acceptWithoutJob(service, session);
    const { fence, messageId } = await claim(service, accepted, 1);
    await writeResponse(service.deps.db, fence, { messageId, parts: [call('a')], finishReason: 'length' }, []);
    await service.startWorker();
    expect(await service.ended(accepted.runId)).toMatchObject({ status: 'completed' });
    const [, answer] = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 10 });
    expect(answer?.parts).toMatchObject([{ state: 'error', output: { value: expect.stringContaining('Not run') } }]);
  });

  it('keeps what a dead worker streamed when the run is cancelled, and leaves waiting messages waiting', async () => {
    await using service = await startTestService({ backend });
    const { db, newId } = service.deps;
    const session = await service.createSession();
    const accepted = await acceptWithoutJob(service, session);
    const { fence, messageId } = await claim(service, accepted, 1);
    await appendOne(db, fence, messageId, [{ charOffset: 0, partIndex: 1, type: 'text', text: 'Half of it' }]);
    const content = [{ type: 'text', text: 'Waits' }] as const;
    const waiting = {
      tenantId: 'default',
      sessionId: session,
      messageId: newId(),
      content,
      runId: newId(),
    };
    await acceptMessage(db, waiting);
    await requestCancel(db, 'default', accepted.runId);
    await service.startWorker();
    expect(await service.ended(accepted.runId)).toMatchObject({ status: 'cancelled' });
    const messages = await listMessages(db, 'default', session, { afterSeq: 0, limit: 10 });
    expect(messages.map((message) => message.role)).toEqual(['user', 'assistant']);
    expect(messages[1]).toMatchObject({ finishReason: 'aborted' });
    expect(messages[1]?.parts.at(-1)).toMatchObject({ type: 'text', text: 'Half of it' });
    expect((await listWaiting(db, 'default', session)).map((message) => message.id)).toEqual([waiting.messageId]);
  });

  it('refuses a message id that the transcript has already', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', [{ text: 'Answered.' }]);
    await service.startWorker();
    const { db, newId } = service.deps;
    const session = await service.createSession();
    await service.ended((await service.send(session, 'Go')).runId);
    const [, answer] = await listMessages(db, 'default', session, { afterSeq: 0, limit: 10 });
    const content = [{ type: 'text', text: 'Again' }] as const;
    const taken = { tenantId: 'default', sessionId: session, messageId: answer?.id ?? '', content };
    await expect(acceptMessage(db, { ...taken, runId: newId() })).rejects.toMatchObject({
      code: 'conflict',
    });
  });

  it('survives the death of a connection in use', async () => {
    await using service = await startTestService({ backend });
    const { db } = service.deps;
    const doomed = db.transaction().execute(async (tx) => {
      await sql`select pg_terminate_backend(pg_backend_pid())`.execute(tx);
    });
    await expect(doomed).rejects.toThrow();
    expect((await sql<{ one: number }>`select 1 as one`.execute(db)).rows).toEqual([{ one: 1 }]);
  });

  it('writes a response whose reply was lost a second time without harm', async () => {
    await using service = await startTestService({ backend });
    const { db } = service.deps;
    const session = await service.createSession();
    const { fence, messageId } = await claim(service, await acceptWithoutJob(service, session), 60_000);
    const events = [
      { type: 'llm:error', data: { error: { code: 'internal', message: '' }, recoverable: true } },
    ] as const;
    const write = () => writeResponse(db, fence, { messageId, parts: [call('a')], finishReason: 'tool-calls' }, events);
    const seq = await write();
    await moveOne(db, fence, { messageId, index: 0, from: ['pending'], to: 'running', events: [] });
    expect(await write()).toEqual(seq);
    const [, answer] = await listMessages(db, 'default', session, { afterSeq: 0, limit: 10 });
    expect(answer?.parts).toMatchObject([{ state: 'running' }]);
    const types = (await readEvents(db, 'default', session, { afterSeq: 0, limit: 100 })).map(({ type }) => type);
    expect(types.filter((type) => type === 'llm:error').length).toBe(1);
  });

  it('appends a chunk whose reply was lost a second time without harm', async () => {
    await using service = await startTestService({ backend });
    const sessionId = await service.createSession();
    const accepted = await acceptWithoutJob(service, sessionId);
    const { fence, messageId } = await claim(service, accepted, 60_000);
    const chunk = { charOffset: 0, partIndex: 1, type: 'text', text: 'once' } as const;
    expect(await appendOne(service.deps.db, fence, messageId, [chunk])).toBe(true);
    expect(await appendOne(service.deps.db, fence, messageId, [{ ...chunk, text: 'once more' }])).toBe(true);
    expect(await readStreamedParts(service.deps.db, { sessionId, messageId })).toEqual([
      { type: 'text', text: 'once more' },
    ]);
  });
});

function call(toolCallId: string) {
  return { type: 'tool', toolCallId, toolName: 'gone', input: {}, state: 'pending' } as const;
}

describe('recovery of an emptied Redis', () => {
  const redisUrl = inject('redisUrl');
  it.runIf(redisUrl !== null)('brings every pending run back', async () => {
    await using service = await startTestService({ backend: 'redis' });
    service.simulator.script('test', () => ({ text: 'Answered.' }));
    const sessions = await Promise.all(Array.from({ length: 5 }, () => service.createSession()));
    const sent = await Promise.all(sessions.map((session) => service.send(session, 'Go')));
    const redis = new Redis(redisUrl ?? '');
    const keys = await redis.keys(`${service.environment['BATON_QUEUE_PREFIX']}*`);
    expect(keys.length).toBeGreaterThan(0);
    await redis.del(...keys);
    redis.disconnect();
    await service.startWorker();
    const runs = await Promise.all(sent.map(({ runId }) => service.ended(runId)));
    expect(runs.map((run) => run.status)).toEqual(runs.map(() => 'completed'));
  });
});
