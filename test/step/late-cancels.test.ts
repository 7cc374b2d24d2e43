import { setImmediate as nextRound } from 'node:timers/promises';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import type { HeldClaim } from '../../src/claims/claim-keeper.ts';
import { type JobPayload, jobPayloadSchema } from '../../src/domain/run/job.ts';
import type { StepDeps } from '../../src/step/deps.ts';
import { answerCall } from '../../src/store/changes/call-answers.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { requeueRun } from '../../src/store/work/claims.ts';
import { failClaimedRun } from '../../src/store/work/run-failure.ts';
import { writeResponse } from '../../src/store/work/step-writes.ts';
import type { ServerTool } from '../../src/tools/tool.ts';
import { claimJob } from '../http/play-worker.ts';
import { behindLock, untilWaiting } from '../store/race.ts';
import { appendOne, moveOne } from '../store/write-one.ts';
import { eventually } from '../support/eventually.ts';
import type { TestService } from '../support/service.ts';
import {
  accept,
  breakingBefore,
  losingReply,
  startService,
  statesOf,
  stillRan,
  takeStep,
  tool,
  withHeld,
} from './one-step.ts';

/** Does something after the claim and before anything of the step is written. */
const afterClaim =
  (act: () => Promise<unknown>) =>
  ({ toolsOf }: StepDeps): Partial<StepDeps> => {
    let done: Promise<unknown> | null = null;
    return {
      toolsOf: async (agent) => {
        done ??= act();
        await done;
        return toolsOf(agent);
      },
    };
  };

/** A run whose worker died while its call of `once` was running, and the job that goes on with it. */
async function startLostCall(service: TestService, session: string) {
  const { db } = service.deps;
  const { fence, messageId } = await claimJob(db, await accept(service, session));
  const call = { type: 'tool', toolCallId: 'call', toolName: 'once', input: {}, state: 'pending' } as const;
  await writeResponse(db, fence, { messageId, parts: [call], finishReason: 'tool-calls' }, []);
  await moveOne(db, fence, { messageId, index: 0, from: ['pending'], to: 'running', events: [] });
  const job = await db.transaction().execute((tx) => requeueRun(tx, fence.runId));
  if (job === null) throw new Error('the run had nothing to do');
  return { messageId, job };
}

/**
 * A lock on the session's row, where the step's next write and a cancel by another process wait. `close` resolves when
 * the step may come; once both wait, the first one to arrive goes first.
 */
function meetAtSession({ deps: { db } }: TestService, session: string, job: JobPayload, isCancelFirst: boolean) {
  let both: Promise<unknown> = Promise.resolve();
  const close = async () => {
    const closed = Promise.withResolvers<void>();
    both = behindLock(db, { table: 'sessions', id: session }, async () => {
      if (!isCancelFirst) closed.resolve();
      if (!isCancelFirst) await untilWaiting(db, 1);
      const cancelled = requestCancel(db, 'default', job.runId);
      await untilWaiting(db, isCancelFirst ? 1 : 2);
      closed.resolve();
      await untilWaiting(db, 2);
      return { cancelled };
    }).then(({ cancelled }) => cancelled);
    await closed.promise;
  };
  return { close, cancelled: () => both };
}

/** Waits for this many rounds of the event loop, in which it handles everything that has come over the network. */
async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await nextRound();
}

/** A session whose worker died after it had streamed half an answer, and the job of the next worker. */
async function withHalfAnAnswer(service: TestService): Promise<Readonly<{ session: string; job: JobPayload }>> {
  const { db } = service.deps;
  const session = await service.createSession();
  const { fence, messageId, job: first } = await claimJob(db, await accept(service, session));
  await appendOne(db, fence, messageId, [{ charOffset: 0, partIndex: 1, type: 'text', text: 'Half of it' }]);
  const job = await db.transaction().execute((tx) => requeueRun(tx, first.runId));
  if (job === null) throw new Error('the run had nothing to do');
  return { session, job };
}

/** The outcome of the run: its events from the cancel or the reset on, and the answers in its transcript. */
async function outcomeOf({ deps: { db } }: TestService, session: string) {
  const types = (await readEvents(db, 'default', session, { afterSeq: 0, limit: 100 })).map(({ type }) => type);
  const answers = (await listMessages(db, 'default', session, { afterSeq: 0, limit: 10 })).filter(
    ({ role }) => role === 'assistant',
  );
  const texts = answers.map(({ parts }) => parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join(''));
  const told = types.filter((type) => /^(run:(cancel|complete|fail)|step:reset)/.test(type));
  return { told, texts, finishReasons: answers.map(({ finishReason }) => finishReason) };
}

const KEPT = { told: ['run:cancelling', 'run:cancelled'], texts: ['Half of it'], finishReasons: ['aborted'] };

describe('what was streamed of an answer', () => {
  it.each([
    [true, KEPT],
    [false, { told: ['step:reset', 'run:cancelling', 'run:completed'], texts: ['Next.'], finishReasons: ['stop'] }],
  ])(
    'cancel vs. the step begun anew in its place (the cancel first: %s): it would be dropped for nothing',
    async (isFirst, expected) => {
      await using service = await startService();
      service.simulator.script('test', [{ text: 'Next.' }]);
      const { session, job } = await withHalfAnAnswer(service);
      const gate = meetAtSession(service, session, job, isFirst);
      await takeStep(service, job, afterClaim(gate.close));
      expect(await gate.cancelled()).toMatchObject({ status: 'cancelling' });
      expect(await outcomeOf(service, session)).toEqual(expected);
    },
  );

  it('leaves no answer open in its place: the reply of the beginning was lost, and a cancel came before it was repeated', async () => {
    await using service = await startService();
    const { session, job } = await withHalfAnAnswer(service);
    const cancelled = Promise.withResolvers<unknown>();
    const losing = losingReply(service.deps.db, 'baton_restart_step', async () =>
      cancelled.resolve(await requestCancel(service.deps.db, 'default', job.runId)),
    );
    await takeStep(service, job, () => ({ db: losing }));
    expect(await cancelled.promise).toMatchObject({ status: 'cancelling' });
    expect(await outcomeOf(service, session)).toEqual({
      told: ['step:reset', 'run:cancelling', 'run:cancelled'],
      texts: [],
      finishReasons: [],
    });
    const unended = service.deps.db.selectFrom('messages').select('seq').where('session_id', '=', session);
    expect(await unended.where('finished_at', 'is', null).execute()).toEqual([]);
  });

  it('is kept where the process began to end while a run was claimed that was cancelled', async () => {
    await using service = await startService();
    const { session, job: late } = await withHalfAnAnswer(service);
    const { job } = await requestCancel(service.deps.db, 'default', late.runId);
    if (job === null) throw new Error('nobody would settle the run');
    await takeStep(service, job, ({ claims, views }) => ({
      views: {
        ...views,
        of: (runId) => {
          claims.stopAll('shutdown');
          return views.of(runId);
        },
      },
    }));
    const { rows } = await sql<{ next: unknown }>`select baton_job_of(${job.runId}) as next`.execute(service.deps.db);
    await takeStep(service, jobPayloadSchema.parse(rows[0]?.next), () => ({}));
    expect(await outcomeOf(service, session)).toEqual(KEPT);
  });

  it.each([
    ['server_error', 'overloaded'],
    ['context_length_exceeded', 'the input exceeds the context window'],
  ])('is kept where it broke off with %s, and a cancel comes before another attempt', async (code, message) => {
    await using service = await startService();
    const session = await service.createSession();
    const job = await accept(service, session);
    service.simulator.fault('test', { kind: 'error-in-stream', afterChunks: 2, code, message, event: 'error' });
    service.simulator.script('test', [{ text: 'Half of it, and the rest', chunkChars: 5 }]);
    await takeStep(
      service,
      job,
      afterClaim(() => requestCancel(service.deps.db, 'default', job.runId)),
    );
    expect(await outcomeOf(service, session)).toEqual(KEPT);
  });
});

describe('a call whose response is being written', () => {
  it('is settled after that, also where a cancel comes first and the write is repeated', async () => {
    await using service = await startService(tool('never', () => Promise.resolve('ran')));
    const { db } = service.deps;
    const gates = { afterChunks: { count: 2, gate: 'text' } };
    service.simulator.script('test', [
      { text: 'I will call.', chunkChars: 4, toolCalls: [{ name: 'never', input: {} }], gates },
    ]);
    const session = await service.createSession();
    const job = await accept(service, session);
    const hooks: { held?: HeldClaim } = {};
    await takeStep(service, job, (own) => ({
      ...withHeld(own, hooks),
      db: breakingBefore(db, 'baton_write_response'),
      appendText: async (streamed) => {
        service.simulator.gate('text').release();
        await turns(100);
        await requestCancel(db, 'default', job.runId);
        hooks.held?.stop('cancelled');
        await turns(100);
        return own.appendText(streamed);
      },
    }));
    expect(await findRun(db, 'default', job.runId)).toMatchObject({ status: 'cancelled' });
    expect(await statesOf(service, session)).toEqual(['error']);
    expect((await outcomeOf(service, session)).finishReasons).toEqual(['tool-calls']);
  });
});

describe('another attempt at a step that was decided on', () => {
  it.each([
    [true, { status: 'cancelling' }, KEPT],
    // Before the cancel, the first attempt was taken back and readers were told so.
    [false, { status: 'cancelled' }, { told: ['step:reset', 'run:cancelled'], texts: [], finishReasons: [] }],
  ])(
    'cancel vs. the commit of the retry (the cancel first: %s): the model would be asked again for nobody',
    async (isFirst, cancelled, expected) => {
      await using service = await startService();
      const { db } = service.deps;
      const { simulator } = service;
      const fault = { kind: 'error-in-stream', afterChunks: 2, code: 'server_error', message: 'overloaded' } as const;
      simulator.fault('test', { ...fault, event: 'error' });
      simulator.script('test', [{ text: 'Half of it, and the rest', chunkChars: 5 }, { text: 'Next.' }]);
      const session = await service.createSession();
      const job = await accept(service, session);
      const gate = meetAtSession(service, session, job, isFirst);
      await takeStep(service, job, afterClaim(gate.close));
      expect(await gate.cancelled()).toMatchObject(cancelled);
      expect(await findRun(db, 'default', job.runId)).toMatchObject({ status: 'cancelled' });
      // If the retry was committed, its job is in the queue. The job finds nothing to do.
      await takeStep(service, { ...job, dispatch: job.dispatch + 1 }, () => ({}));
      expect(await outcomeOf(service, session)).toEqual(expected);
      expect(simulator.requests).toHaveLength(1);
    },
  );
});

describe('what was streamed of an answer whose run fails', () => {
  const error = { code: 'internal', message: 'It fails.' } as const;

  it('is kept where the run was being cancelled: nothing comes in its place', async () => {
    await using service = await startService();
    const { db } = service.deps;
    const session = await service.createSession();
    const { fence, messageId } = await claimJob(db, await accept(service, session));
    await appendOne(db, fence, messageId, [{ charOffset: 0, partIndex: 1, type: 'text', text: 'Half of it' }]);
    await requestCancel(db, 'default', fence.runId);
    expect(await failClaimedRun(db, fence, error)).toMatchObject({ limit: null });
    expect(await outcomeOf(service, session)).toEqual({ ...KEPT, told: ['run:cancelling', 'run:failed'] });
  });

  it('is dropped where nobody has cancelled it, or nothing was streamed', async () => {
    await using service = await startService();
    const { db } = service.deps;
    const dropped = { texts: [], finishReasons: [] };
    const streaming = await service.createSession();
    const { fence, messageId } = await claimJob(db, await accept(service, streaming));
    await appendOne(db, fence, messageId, [{ charOffset: 0, partIndex: 1, type: 'text', text: 'Half of it' }]);
    await failClaimedRun(db, fence, error);
    expect(await outcomeOf(service, streaming)).toEqual({ ...dropped, told: ['step:reset', 'run:failed'] });
    const silent = await service.createSession();
    const claimed = await claimJob(db, await accept(service, silent));
    await requestCancel(db, 'default', claimed.fence.runId);
    await failClaimedRun(db, claimed.fence, error);
    const told = ['run:cancelling', 'step:reset', 'run:failed'];
    expect(await outcomeOf(service, silent)).toEqual({ ...dropped, told });
  });
});

describe('what still ran after a cancel', () => {
  it.each([
    ['that is marked as running', {}],
    ['that only reads', { readOnly: true }],
  ])('is a tool %s and ended before the notice came, and nothing that ended or never began', async (_, traits) => {
    const state: { service?: TestService; runId: string } = { runId: '' };
    const slow = async () => {
      const { db } = state.service?.deps ?? {};
      if (db === undefined) throw new Error('there is no service');
      const before = db.selectFrom('parts').select('state').where('tool_name', '=', 'before');
      await eventually(async () => (await before.executeTakeFirst())?.state === 'completed', 'its outcome is there');
      await requestCancel(db, 'default', state.runId);
    };
    const nothing = async () => undefined;
    const tools = [tool('before', nothing), tool('slow', slow, traits), tool('after', nothing)];
    await using service = await startService(...tools);
    const toolCalls = tools.map(({ name }) => ({ name, input: {} }));
    service.simulator.script('test', [{ toolCalls }]);
    const session = await service.createSession({ limits: { toolConcurrency: 1 } });
    const job = await accept(service, session);
    Object.assign(state, { service, runId: job.runId });
    await takeStep(service, job, () => ({}));
    expect(await stillRan(service, session)).toEqual(['slow']);
  });

  it('is no tool whose start was committed and that was stopped before it', async () => {
    const begun: string[] = [];
    const hooks: { lock: () => Promise<void>; held?: HeldClaim } = { lock: async () => undefined };
    const needsApproval = async () => {
      await hooks.lock();
      return false;
    };
    await using service = await startService(tool('once', async () => void begun.push('once'), { needsApproval }));
    const { db } = service.deps;
    service.simulator.script('test', [{ toolCalls: [{ name: 'once', input: {} }] }]);
    const session = await service.createSession();
    const job = await accept(service, session);
    let cancel: Promise<unknown> = Promise.resolve();
    hooks.lock = async () => {
      const locked = Promise.withResolvers<void>();
      void behindLock(db, { table: 'sessions', id: session }, async () => {
        locked.resolve();
        await untilWaiting(db, 1);
        cancel = requestCancel(db, 'default', job.runId);
        await untilWaiting(db, 2);
        hooks.held?.stop('cancelled');
      });
      await locked.promise;
    };
    await takeStep(service, job, (own) => withHeld(own, hooks));
    // The step may end before the cancel, which then ends the run.
    await cancel;
    expect([begun, await stillRan(service, session)]).toEqual([[], []]);
  });

  const cancelled = ({ deps }: TestService, { runId }: JobPayload) => requestCancel(deps.db, 'default', runId);
  it.each<[string, Partial<ServerTool>, (service: TestService, job: JobPayload) => Promise<unknown>]>([
    [
      'the model is told',
      {},
      (service, job) => cancelled(service, job).then((outcome) => takeStep(service, outcome.job ?? job, () => ({}))),
    ],
    [
      'somebody was about to be asked',
      { onUnknown: 'ask' },
      (service, job) =>
        takeStep(
          service,
          job,
          afterClaim(() => cancelled(service, job)),
        ),
    ],
    [
      'somebody is asked',
      { onUnknown: 'ask' },
      (service, job) => takeStep(service, job, () => ({})).then(() => cancelled(service, job)),
    ],
  ])('is a call of a dead worker, of which nobody knows, where %s', async (_, traits, cancel) => {
    await using service = await startService(tool('once', async () => undefined, traits));
    const session = await service.createSession();
    const { job } = await startLostCall(service, session);
    await cancel(service, job);
    expect(await stillRan(service, session)).toEqual(['once']);
  });

  it('is no call whose output a client has given before the cancel', async () => {
    await using service = await startService(tool('once', async () => undefined, { onUnknown: 'ask' }));
    const { db } = service.deps;
    const session = await service.createSession();
    const { messageId, job } = await startLostCall(service, session);
    const { runId } = job;
    await takeStep(service, job, () => ({}));
    await answerCall(
      db,
      { tenantId: 'default', runId, messageId, index: 0 },
      { kind: 'output', output: 'It was done.' },
    );
    const { job: settles } = await cancelled(service, job);
    if (settles === null) throw new Error('there is nothing to settle');
    await takeStep(service, settles, () => ({}));
    expect(await stillRan(service, session)).toEqual([]);
    expect(await statesOf(service, session)).toEqual(['completed']);
  });
});
