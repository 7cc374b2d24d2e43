import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { type JobPayload, jobPayloadSchema } from '../../src/domain/job.ts';
import { createClaimKeeper } from '../../src/jobs/claim-keeper.ts';
import { createViewCache } from '../../src/jobs/view-cache.ts';
import type { StepDeps } from '../../src/step/deps.ts';
import { runStep } from '../../src/step/run-step.ts';
import { createTextAppender } from '../../src/step/text-appender.ts';
import { requestCancel } from '../../src/store/cancels.ts';
import { requeueRun } from '../../src/store/claims.ts';
import { readEvents } from '../../src/store/events.ts';
import { acceptMessage } from '../../src/store/inbox.ts';
import { listMessages } from '../../src/store/messages.ts';
import { claimJob } from '../http/play-worker.ts';
import { behindLock, untilWaiting } from '../store/race.ts';
import { appendOne } from '../store/write-one.ts';
import { startTestService, type TestService } from '../support/service.ts';

const startService = () => startTestService({ backend: 'postgres' });

async function accept({ deps }: TestService, sessionId: string): Promise<JobPayload> {
  const content = [{ type: 'text', text: 'Go' }] as const;
  const ids = { tenantId: 'default', sessionId, messageId: deps.newId(), runId: deps.newId() };
  const { job } = await acceptMessage(deps.db, { ...ids, content });
  if (job === null) throw new Error('a run was active');
  return job;
}

/** One step as a worker takes it, which is told of no cancel: its notice is late. */
async function takeStep({ deps }: TestService, job: JobPayload, changes: (own: StepDeps) => Partial<StepDeps>) {
  await using claims = await createClaimKeeper({ ...deps, heartbeatIntervalMs: 60_000 });
  const modelTimeouts = { firstChunkMs: 60_000, idleChunkMs: 60_000, wholeStepMs: 60_000 };
  const rest = { claims, views: createViewCache(), appendText: createTextAppender(deps.db), modelTimeouts };
  const own: StepDeps = { ...deps, ...rest, random: Math.random };
  await runStep({ ...own, ...changes(own) }, job, new AbortController().signal);
}

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

/** A worker died after it had streamed half an answer: the job of the next one. */
async function withHalfAnAnswer(service: TestService): Promise<Readonly<{ session: string; job: JobPayload }>> {
  const { db } = service.deps;
  const session = await service.createSession();
  const { fence, messageId, job: first } = await claimJob(db, await accept(service, session));
  await appendOne(db, fence, messageId, [{ charOffset: 0, partIndex: 1, type: 'text', text: 'Half of it' }]);
  const job = await db.transaction().execute((tx) => requeueRun(tx, session, first.runId));
  if (job === null) throw new Error('the run had nothing to do');
  return { session, job };
}

/** What became of the run: its log from the cancel or the reset on, and the answers in its transcript. */
async function outcomeOf({ deps: { db } }: TestService, session: string) {
  const types = (await readEvents(db, 'default', session, 0, 100)).map(({ type }) => type);
  const answers = (await listMessages(db, 'default', session, 0, 10)).filter(({ role }) => role === 'assistant');
  const texts = answers.map(({ parts }) => parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join(''));
  const told = types.filter((type) => /^(run:(cancel|complete)|step:reset)/.test(type));
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
      const { db } = service.deps;
      service.simulator.script('test', [{ text: 'Next.' }]);
      const { session, job } = await withHalfAnAnswer(service);
      let both: Promise<unknown> = Promise.resolve();
      const meet = async () => {
        const closed = Promise.withResolvers<void>();
        both = behindLock(db, { table: 'sessions', id: session }, async () => {
          if (!isFirst) closed.resolve();
          if (!isFirst) await untilWaiting(db, 1);
          const cancelled = requestCancel(db, 'default', job.runId);
          await untilWaiting(db, isFirst ? 1 : 2);
          closed.resolve();
          await untilWaiting(db, 2);
          return { cancelled };
        }).then(({ cancelled }) => cancelled);
        await closed.promise;
      };
      await takeStep(service, job, afterClaim(meet));
      expect(await both).toMatchObject({ status: 'cancelling' });
      expect(await outcomeOf(service, session)).toEqual(expected);
    },
  );

  it('is kept where the process began to end while a run was claimed that was cancelled', async () => {
    await using service = await startService();
    const { session, job } = await withHalfAnAnswer(service);
    await requestCancel(service.deps.db, 'default', job.runId);
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
