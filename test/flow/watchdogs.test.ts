import { describe, expect, it } from 'vitest';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { anyBackend } from '../support/backends.ts';
import { startTestService, type TestService } from '../support/service.ts';

const LONG = '60000';

/** Sends one message and returns the errors after which its step was tried again. */
async function retriesOf(service: TestService, model: string) {
  await service.startWorker();
  const session = await service.createSession({ model: `simulated/${model}` });
  const { runId } = await service.send(session, 'Go');
  expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 1 });
  const events = await readEvents(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 });
  return events.flatMap(({ type, data }) => (type === 'step:retrying' ? [data] : []));
}

describe('a model that does not come to an end', () => {
  const backend = anyBackend();
  it.each([
    ['never begins', { BATON_FIRST_CHUNK_TIMEOUT_MS: '2500', BATON_IDLE_CHUNK_TIMEOUT_MS: LONG }, 0],
    ['stalls in mid-stream', { BATON_FIRST_CHUNK_TIMEOUT_MS: LONG, BATON_IDLE_CHUNK_TIMEOUT_MS: '2500' }, 2],
  ])('is asked again when it %s', async (_, environment, afterChunks) => {
    await using service = await startTestService({ backend, environment });
    service.simulator.script('m', [{ text: 'Here it is.', chunkChars: 3 }]);
    service.simulator.fault('m', { kind: 'stall', afterChunks });
    expect(await retriesOf(service, 'm')).toMatchObject([{ attempt: 1, error: { code: 'timeout' } }]);
    expect(service.simulator.requests.map(({ outcome }) => outcome)).toEqual(['stalled', 'completed']);
  });

  it('is asked again when it trickles for longer than a step may take', async () => {
    const environment = { BATON_STEP_TIMEOUT_MS: '2500', BATON_IDLE_CHUNK_TIMEOUT_MS: LONG };
    await using service = await startTestService({ backend, environment });
    const trickle = { text: 'x'.repeat(10_000), chunkChars: 1, chunkDelayMs: 50 };
    service.simulator.script('m', ({ index }) => (index === 0 ? trickle : { text: 'Here it is.' }));
    expect(await retriesOf(service, 'm')).toMatchObject([{ attempt: 1, error: { code: 'timeout' } }]);
    expect(service.simulator.requests.map(({ outcome }) => outcome)).toEqual(['aborted-by-client', 'completed']);
  });

  it('is told of a tool that did not finish within its time', async () => {
    const tool: Tool = {
      name: 'wait',
      description: 'waits',
      inputSchema: { type: 'object' },
      timeoutMs: 200,
      execute: (_input, { signal }) =>
        new Promise((_resolve, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
        ),
    };
    await using service = await startTestService({ backend, tools: [tool] });
    service.simulator.script('test', [{ toolCalls: [{ name: 'wait', input: {} }] }, { text: 'It took too long.' }]);
    await service.startWorker();
    const session = await service.createSession();
    expect(await service.ended((await service.send(session, 'Go')).runId)).toMatchObject({ status: 'completed' });
    const [, answer] = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 10 });
    expect(answer?.parts.at(-1)).toMatchObject({
      state: 'error',
      output: { value: expect.stringContaining('did not finish within its time') },
    });
  });
});
