import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { anyBackend } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

async function attempt(service: TestService, model: string) {
  await service.startWorker();
  const session = await service.createSession({ model });
  const run = await service.ended((await service.send(session, 'Go')).runId);
  const types = (await readEvents(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 })).map(
    (event) => event.type,
  );
  const messages = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 });
  return { run, types, texts: messages.flatMap((message) => message.parts).filter((part) => part.type === 'text') };
}

describe('an answer that breaks off', () => {
  const backend = anyBackend();
  it.each([
    ['simulated/test', 'error'],
    ['simulated/test', 'response.failed'],
    ['simulated-chat/test', 'error'],
  ] as const)('is never taken for a whole one: %s reports %s in mid-stream', async (model, event) => {
    await using service = await startTestService({ backend });
    service.simulator.fault('test', {
      kind: 'error-in-stream',
      afterChunks: 2,
      code: 'server_error',
      message: 'overloaded',
      event,
    });
    service.simulator.script('test', [{ text: 'A text of several chunks.', chunkChars: 4 }]);
    const { run, types, texts } = await attempt(service, model);
    expect(run).toMatchObject({ status: 'completed', step_count: 1 });
    expect(types).toEqual(expect.arrayContaining(['llm:error', 'step:retrying', 'step:reset']));
    expect(texts.at(-1)).toMatchObject({ text: 'A text of several chunks.' });
  });

  it('is never taken for a whole one: the connection ends cleanly without an end of the answer', async () => {
    let requests = 0;
    const half = createServer((_request, response) => {
      requests++;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const chunk = { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm' };
      response.end(`data: ${JSON.stringify({ ...chunk, choices: [{ index: 0, delta: { content: 'Half' } }] })}\n\n`);
    });
    await new Promise<void>((resolve) => half.listen(0, '127.0.0.1', resolve));
    try {
      const url = `http://127.0.0.1:${(half.address() as AddressInfo).port}`;
      await using service = await startTestService({ backend, environment: { BATON_SIMULATOR_URL: url } });
      await service.startWorker();
      const session = await service.createSession({ model: 'simulated-chat/test' });
      const { runId } = await service.send(session, 'Go');
      const { db } = service.deps;
      const retried = await eventually(async () => {
        const run = await db.selectFrom('runs').selectAll().where('id', '=', runId).executeTakeFirstOrThrow();
        return run.attempt > 1 || run.status === 'completed' ? run : null;
      }, 'the answer is judged');
      expect(retried.status).not.toBe('completed');
      expect(requests).toBeGreaterThan(0);
    } finally {
      half.close();
      half.closeAllConnections();
    }
  });

  it('because the model stalls is given up after its time and tried again', async () => {
    await using service = await startTestService({ backend, environment: { BATON_IDLE_CHUNK_TIMEOUT_MS: '2000' } });
    service.simulator.fault('test', { kind: 'stall', afterChunks: 2 });
    service.simulator.script('test', [{ text: 'A text of several chunks.', chunkChars: 4 }]);
    const { run, types } = await attempt(service, 'simulated/test');
    expect(run).toMatchObject({ status: 'completed' });
    expect(types).toContain('step:retrying');
    const stalled = await service.simulator.waitForRequest((request) => request.outcome === 'stalled');
    expect(stalled.abortedAtMs).toBeDefined();
  });

  it('because the model never begins is given up after its time', async () => {
    await using service = await startTestService({ backend, environment: { BATON_FIRST_CHUNK_TIMEOUT_MS: '2500' } });
    service.simulator.fault('test', { kind: 'delay', delayMs: 30_000 });
    service.simulator.script('test', [{ text: 'Done.' }]);
    const { run, types } = await attempt(service, 'simulated/test');
    expect(run).toMatchObject({ status: 'completed', step_count: 1 });
    expect(types).toContain('step:retrying');
  });
});
