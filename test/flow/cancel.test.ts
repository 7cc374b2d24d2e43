import { describe, expect, it } from 'vitest';
import { startApi } from '../../src/app/api-server.ts';
import { formatId } from '../../src/domain/ids.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { handBackRun } from '../../src/store/work/claims.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { claimJob } from '../http/play-worker.ts';
import { behindLock, untilWaiting } from '../store/race.ts';
import { appendOne } from '../store/write-one.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { acceptMessage } from '../support/unlimited.ts';

function waitingTool(): { tool: Tool; started: Promise<void>; finish: () => void } {
  const started = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  const execute: Tool['execute'] = async (_input, { signal }) => {
    started.resolve();
    signal.addEventListener('abort', () => finish.resolve(), { once: true });
    await finish.promise;
    return 'the effect';
  };
  const inputSchema = { type: 'object' } as const;
  return {
    tool: { name: 'wait', description: 'waits', inputSchema, execute },
    started: started.promise,
    finish: finish.resolve,
  };
}

describe.each(availableBackends())('cancel on %s', (backend) => {
  it('ends a run that no worker has at once', async () => {
    await using service = await startTestService({ backend });
    const session = await service.createSession();
    const { runId } = await service.send(session, 'Go');
    expect(await service.cancel(runId)).toMatchObject({ status: 'cancelled', notify: false });
    service.simulator.script('test', [{ text: 'Next.' }]);
    await service.startWorker();
    const next = await service.send(session, 'Go on');
    expect(next.runId).not.toBe(runId);
    expect(await service.ended(next.runId)).toMatchObject({ status: 'completed' });
    const texts = (await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 10 })).map(
      (message) => message.role,
    );
    expect(texts).toEqual(['user', 'assistant']);
    expect(service.simulator.requests.flatMap((request) => request.violations)).toEqual([]);
  });

  it('ends a run that waits for its next attempt at once (opencode#25803)', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', [{ text: 'Next.' }]);
    service.simulator.fault('test', { status: 503, headers: { 'retry-after': '600' } });
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await service.send(session, 'Go');
    await eventually(
      async () =>
        (await readEvents(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 })).some(
          ({ type }) => type === 'step:retrying',
        ),
      'the run waits',
    );
    expect(await service.cancel(runId)).toMatchObject({ status: 'cancelled', notify: false });
    expect(await service.ended((await service.send(session, 'Again')).runId)).toMatchObject({ status: 'completed' });
    expect(service.simulator.requests.map(({ refusal }) => refusal)).toEqual(['fault', undefined]);
  });

  it('aborts the model’s stream, keeps what was streamed, and the session goes on', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', (request) =>
      request.index === 0
        ? { text: 'Half of it, and the rest.', chunkChars: 4, gates: { afterChunks: { count: 3, gate: 'middle' } } }
        : { text: 'Next.' },
    );
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await service.send(session, 'Go');
    await service.simulator.gate('middle').reached;
    expect(await service.cancel(runId)).toMatchObject({ status: 'cancelling', notify: true });
    expect(await service.ended(runId)).toMatchObject({ status: 'cancelled' });
    const aborted = await service.simulator.waitForRequest((request) => request.outcome === 'aborted-by-client');
    expect(aborted.outcome).toBe('aborted-by-client');
    const [, partial] = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 10 });
    expect(partial).toMatchObject({ finishReason: 'aborted' });
    expect(partial?.parts.at(-1)).toMatchObject({ type: 'text', text: 'Half of it, ' });
    const next = await service.send(session, 'Again');
    expect(await service.ended(next.runId)).toMatchObject({ status: 'completed' });
    expect(service.simulator.requests.flatMap((request) => request.violations)).toEqual([]);
  });

  it('settles a run that a worker left in mid-step before all that waits: it stands behind nobody', async () => {
    const environment = { BATON_PORT: '0', BATON_STEP_CONCURRENCY: '1' };
    await using service = await startTestService({ backend, environment });
    const { db, jobs, newId } = service.deps;
    await using api = await startApi(service.deps);
    service.simulator.script('test', () => {
      const gate = service.simulator.requests.length <= 1 ? 'at work' : 'behind it';
      return { text: 'An answer.', gates: { afterChunks: { count: 1, gate } } };
    });
    await service.startWorker();
    await service.send(await service.createSession(), 'Go');
    await service.simulator.gate('at work').reached;
    for (let n = 0; n < 3; n++) await service.send(await service.createSession(), 'Go');
    const sessionId = await service.createSession();
    const ids = { tenantId: 'default', sessionId, messageId: newId(), runId: newId() };
    const { job: first, runId } = await acceptMessage(db, { ...ids, content: [{ type: 'text', text: 'Go' }] });
    const { fence, messageId } = await claimJob(db, first ?? undefined);
    await appendOne(db, fence, messageId, [{ charOffset: 0, partIndex: 1, type: 'text', text: 'Half of it' }]);
    const job = await handBackRun(db, fence);
    if (job === null) throw new Error('the run had nothing to do');
    await jobs.add([job]);
    const cancelled = await fetch(`${api.url}/v1/runs/${formatId('run', runId)}/cancel`, { method: 'POST' });
    expect(await cancelled.json()).toMatchObject({ status: 'cancelling' });
    service.simulator.gate('at work').release();
    expect(await service.ended(runId)).toMatchObject({ status: 'cancelled' });
    const [, partial] = await listMessages(db, 'default', sessionId, { afterSeq: 0, limit: 10 });
    expect(partial).toMatchObject({ finishReason: 'aborted', parts: [{}, { type: 'text', text: 'Half of it' }] });
    service.simulator.gate('behind it').release();
  });

  it('stops a running tool, keeps its late result, starts no further one, and says what still ran', async () => {
    const ran: string[] = [];
    const { tool, started } = waitingTool();
    const after: Tool = { ...tool, name: 'after', execute: async () => void ran.push('after') };
    await using service = await startTestService({ backend, tools: [tool, after] });
    service.simulator.script('test', (request) =>
      request.index === 0
        ? {
            toolCalls: [
              { name: 'wait', input: {} },
              { name: 'after', input: {} },
            ],
          }
        : { text: 'Next.' },
    );
    await service.startWorker();
    const session = await service.createSession({ limits: { toolConcurrency: 1 } });
    const { runId } = await service.send(session, 'Go');
    await started;
    await service.cancel(runId);
    expect(await service.ended(runId)).toMatchObject({ status: 'cancelled' });
    expect(ran).toEqual([]);
    const [, answer] = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 10 });
    expect(answer?.parts.filter((part) => part.type === 'tool')).toMatchObject([
      { toolName: 'wait', state: 'completed', output: { value: 'the effect' } },
      { toolName: 'after', state: 'error', output: { value: expect.stringContaining('Cancelled') } },
    ]);
    const events = await readEvents(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 });
    const told = { runId: formatId('run', runId), stillRan: ['wait'] };
    expect(events.find((event) => event.type === 'run:cancelled')?.data).toEqual(told);
    const next = await service.send(session, 'Again');
    expect(await service.ended(next.runId)).toMatchObject({ status: 'completed' });
    expect(service.simulator.requests.flatMap((request) => request.violations)).toEqual([]);
  });

  it('calls a run completed whose final answer was there before the cancel, and says so', async () => {
    await using service = await startTestService({ backend });
    const { db } = service.deps;
    service.simulator.script('test', [{ text: 'The whole answer.', gates: { beforeFirstChunk: 'first' } }]);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await service.send(session, 'Go');
    await service.simulator.gate('first').reached;
    // The cancel is committed right before the end of the step, which waits behind it.
    const { cancelled } = await behindLock(db, { table: 'sessions', id: session }, async () => {
      const late = requestCancel(db, 'default', runId);
      await untilWaiting(db, 1);
      service.simulator.gate('first').release();
      await untilWaiting(db, 2);
      return { cancelled: late };
    });
    expect(await cancelled).toMatchObject({ status: 'cancelling' });
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    const events = await readEvents(db, 'default', session, { afterSeq: 0, limit: 100 });
    expect(events.find(({ type }) => type === 'run:completed')?.data).toMatchObject({ lateCancel: true });
    expect(await service.cancel(runId)).toMatchObject({ status: 'completed', notify: false });
  });

  // Field bugs: opencode#40955, opencode#5333 dropped them.
  it('keeps messages that wait: the next message takes them along, in order', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', (request) =>
      request.index === 0 ? { text: 'Never ends', gates: { beforeFirstChunk: 'first' } } : { text: 'Next.' },
    );
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await service.send(session, 'One');
    await service.simulator.gate('first').reached;
    expect(await service.send(session, 'Two')).toMatchObject({ queued: true, position: 1 });
    await service.cancel(runId);
    expect(await service.ended(runId)).toMatchObject({ status: 'cancelled' });
    const next = await service.send(session, 'Three');
    await service.ended(next.runId);
    const users = (await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 10 })).filter(
      (message) => message.role === 'user',
    );
    expect(users.map((message) => message.parts)).toMatchObject([
      [{ text: 'One' }],
      [{ text: 'Two' }, { text: 'Three' }],
    ]);
  });
});
