import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { jobPayloadSchema } from '../../src/domain/run/job.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { requeueLostRuns } from '../../src/store/work/claims.ts';
import { eventually } from '../support/eventually.ts';
import type { TestService } from '../support/service.ts';
import { acceptMessage } from '../support/unlimited.ts';
import { accept, startService, takeStep, withHeld } from './one-step.ts';

const TEXT = 'A text of several chunks, which is not short.';
const GATE = 'mid';
const MINUTE_MS = 60_000;

/** The model answers in the background and holds in the middle of its first answer. */
async function startAnswer(text = TEXT) {
  const service = await startService();
  service.simulator.script('test', ({ index }) => ({
    text,
    chunkChars: 4,
    ...(index === 0 && { gates: { afterChunks: { count: 3, gate: GATE } } }),
  }));
  const session = await service.createSession({ model: 'simulated-background/test' });
  return { service, session, job: await accept(service, session) };
}

/** Resolves when the id of the response is durable. */
const untilNoted = ({ deps: { db } }: TestService) =>
  eventually(async () => {
    const { rows } = await sql`select 1 from messages where provider_response is not null`.execute(db);
    return rows.length > 0 ? true : null;
  }, 'the response is noted');

/** Takes the run from its worker, as if that had died; the worker itself is told when it writes next. */
async function takeFromWorker({ deps: { db } }: TestService, { runId }: JobPayload): Promise<JobPayload> {
  const [job] = await db.transaction().execute((tx) => requeueLostRuns(tx, [runId]));
  if (job === undefined) throw new Error('the run had nothing to do');
  return job;
}

/** A worker that dies in the middle of the answer, and the job that goes on with its step. */
async function loseWorker(service: TestService, job: JobPayload) {
  const hooks: Parameters<typeof withHeld>[1] = {};
  const dying = takeStep(service, job, (own) => withHeld(own, hooks));
  await service.simulator.gate(GATE).reached;
  await untilNoted(service);
  const next = await takeFromWorker(service, job);
  hooks.held?.stop('lost');
  await dying;
  return next;
}

async function told({ deps: { db } }: TestService, session: string) {
  const events = await readEvents(db, 'default', session, { afterSeq: 0, limit: 100 });
  const said = events.filter(({ type }) => type === 'llm:response').map(({ data }) => data['content']);
  const messages = await listMessages(db, 'default', session, { afterSeq: 0, limit: 10 });
  const texts = messages
    .filter(({ role }) => role === 'assistant')
    .flatMap(({ parts }) => parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])));
  return { said, texts, types: events.map(({ type }) => type) };
}

const waitingJob = async ({ deps: { db } }: TestService, runId: string): Promise<JobPayload> => {
  const { rows } = await sql<{ job: unknown }>`
    select json_build_object('runId', id, 'kind', pending_kind, 'no', pending_no, 'dispatch', pending_dispatch) as job
    from runs where id = ${runId}`.execute(db);
  return jobPayloadSchema.parse(rows[0]?.job);
};

describe('an answer in the background', () => {
  it('is read again by the worker that follows a dead one, whole and once', async () => {
    const { service, session, job } = await startAnswer();
    await using _ = service;
    const next = await loseWorker(service, job);
    service.simulator.gate(GATE).release();
    await takeStep(service, next, () => ({}));
    expect(await told(service, session)).toMatchObject({ said: [TEXT], texts: [TEXT] });
    expect(service.simulator.requests).toHaveLength(1);
    expect(service.simulator.backgrounds()).toMatchObject([{ status: 'completed', streamedAgain: 1 }]);
    expect(service.logged).toContainEqual(expect.objectContaining({ event: 'answer_read_again', attempt: 1 }));
    expect(await findRun(service.deps.db, 'default', job.runId)).toMatchObject({ status: 'completed' });
  });

  it('is read again as a whole when its stream is too old', async () => {
    const { service, session, job } = await startAnswer();
    await using _ = service;
    const next = await loseWorker(service, job);
    service.simulator.age(6 * MINUTE_MS);
    service.simulator.gate(GATE).release();
    await takeStep(service, next, () => ({}));
    expect(await told(service, session)).toMatchObject({ said: [TEXT], texts: [TEXT] });
    expect(service.simulator.requests).toHaveLength(1);
    expect(service.simulator.backgrounds()).toMatchObject([{ status: 'completed', streamsRefused: 1 }]);
  });

  it('is asked for anew when the provider no longer has it', async () => {
    const { service, session, job } = await startAnswer();
    await using _ = service;
    const next = await loseWorker(service, job);
    service.simulator.age(31 * 24 * 60 * MINUTE_MS);
    await takeStep(service, next, () => ({}));
    expect(await told(service, session)).toMatchObject({ said: [TEXT], texts: [TEXT] });
    expect(service.simulator.requests).toHaveLength(2);
  });

  it('is stopped and asked for anew when a message has changed the request', async () => {
    const { service, session, job } = await startAnswer();
    await using _ = service;
    const next = await loseWorker(service, job);
    const ids = {
      tenantId: 'default',
      sessionId: session,
      messageId: service.deps.newId(),
      runId: service.deps.newId(),
    };
    await acceptMessage(service.deps.db, { ...ids, content: [{ type: 'text', text: 'And this.' }] });
    await takeStep(service, next, () => ({}));
    expect(service.simulator.requests.map(({ request }) => request?.messages.at(-1)?.text)).toEqual([
      'Go',
      expect.stringContaining('And this.'),
    ]);
    await eventually(
      async () => (service.simulator.backgrounds()[0]?.status === 'cancelled' ? true : null),
      'the first one is stopped',
    );
    expect((await told(service, session)).texts).toEqual([TEXT]);
  });

  it('goes on where its connection broke, and no attempt fails', async () => {
    const { service, session, job } = await startAnswer();
    await using _ = service;
    service.simulator.fault('test', { kind: 'cut', afterChunks: 3 });
    const step = takeStep(service, job, () => ({}));
    await untilNoted(service);
    service.simulator.gate(GATE).release();
    await step;
    const { said, texts, types } = await told(service, session);
    expect({ said, texts }).toEqual({ said: [TEXT], texts: [TEXT] });
    expect(types).not.toContain('step:retrying');
    expect(service.simulator.requests).toMatchObject([{ outcome: 'cut' }]);
    expect(service.simulator.backgrounds()).toMatchObject([{ status: 'completed', streamedAgain: 1 }]);
  });

  it('is read as a whole by the next attempt when its broken stream is too old to go on', async () => {
    const { service, session, job } = await startAnswer();
    await using _ = service;
    service.simulator.fault('test', { kind: 'cut', afterChunks: 3 });
    const first = takeStep(service, job, (own) => ({ ...own, random: () => 0 }));
    await untilNoted(service);
    service.simulator.age(6 * MINUTE_MS);
    service.simulator.gate(GATE).release();
    await first;
    const { db } = service.deps;
    await sql`update runs set pending_at = clock_timestamp() where id = ${job.runId}`.execute(db);
    await takeStep(service, await waitingJob(service, job.runId), () => ({}));
    const { said, texts, types } = await told(service, session);
    expect({ said, texts }).toEqual({ said: [TEXT], texts: [TEXT] });
    expect(types).toContain('step:retrying');
    expect(service.simulator.requests).toHaveLength(1);
  });

  it('that failed at the provider is asked for anew', async () => {
    const { service, session, job } = await startAnswer();
    await using _ = service;
    const fault = { kind: 'error-in-stream', afterChunks: 2, code: 'server_error', message: 'overloaded' } as const;
    service.simulator.fault('test', fault);
    await takeStep(service, job, () => ({}));
    await sql`update runs set pending_at = clock_timestamp() where id = ${job.runId}`.execute(service.deps.db);
    await takeStep(service, await waitingJob(service, job.runId), () => ({}));
    expect((await told(service, session)).said).toEqual([TEXT]);
    expect(service.simulator.backgrounds()).toMatchObject([{ status: 'failed' }, { status: 'completed' }]);
  });

  it('stops at the provider when its run is cancelled', async () => {
    const { service, job } = await startAnswer();
    await using _ = service;
    const hooks: Parameters<typeof withHeld>[1] = {};
    const step = takeStep(service, job, (own) => withHeld(own, hooks));
    await service.simulator.gate(GATE).reached;
    await untilNoted(service);
    await requestCancel(service.deps.db, 'default', job.runId);
    hooks.held?.stop('cancelled');
    await step;
    expect(service.simulator.backgrounds()).toMatchObject([{ status: 'cancelled' }]);
    expect(await findRun(service.deps.db, 'default', job.runId)).toMatchObject({ status: 'cancelled' });
  });

  it('stops at the provider when its worker is dead and its run is cancelled', async () => {
    const { service, job } = await startAnswer();
    await using _ = service;
    await loseWorker(service, job);
    await requestCancel(service.deps.db, 'default', job.runId);
    await takeStep(service, await waitingJob(service, job.runId), () => ({}));
    expect(service.simulator.backgrounds()).toMatchObject([{ status: 'cancelled' }]);
    expect(await findRun(service.deps.db, 'default', job.runId)).toMatchObject({ status: 'cancelled' });
  });
});
