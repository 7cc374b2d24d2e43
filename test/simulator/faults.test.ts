import { describe, expect, test } from 'vitest';
import { startSimulator } from '../../simulator/server.ts';
import { PROTOCOLS, post, runStep } from './client.ts';

const promptTooLong = {
  type: 'invalid_request_error',
  message: expect.stringMatching(/^prompt is too long: \d+ tokens > \d+ maximum$/),
};
const LONG = 'one two three four five six seven eight nine ten';

describe.each(PROTOCOLS)('faults through %s', (protocol) => {
  test('are taken from the queue one a request, then the script answers', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', [{ text: 'fine' }]);
    simulator.fault('m', [
      { kind: 'rate-limit', retryAfterMs: 1500 },
      { kind: 'server-error' },
      { kind: 'overloaded' },
    ]);
    const errors = [];
    for (let count = 0; count < 3; count += 1) errors.push((await runStep(simulator.url, protocol)).error);
    expect(errors).toMatchObject([
      { statusCode: 429, isRetryable: true, responseHeaders: { 'retry-after-ms': '1500', 'retry-after': '2' } },
      { statusCode: 500, isRetryable: true },
      { statusCode: protocol === 'messages' ? 529 : 503, isRetryable: true },
    ]);
    expect((await runStep(simulator.url, protocol)).text).toBe('fine');
    expect(simulator.requests.map(({ outcome }) => outcome)).toEqual(['refused', 'refused', 'refused', 'completed']);
  });

  test('can be what a script gives to one request, and to no other', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', ({ index }) =>
      index === 0 ? { fault: { kind: 'rate-limit', retryAfterMs: 1500 } } : { text: 'fine' },
    );
    expect((await runStep(simulator.url, protocol)).error).toMatchObject({ statusCode: 429 });
    expect((await runStep(simulator.url, protocol)).text).toBe('fine');
  });

  test('can be any status with its own body and headers', async () => {
    await using simulator = await startSimulator();
    const body = { error: { message: 'No such key.', type: 'authentication_error' } };
    simulator.fault('*', { status: 401, body, headers: { 'x-request-id': 'r1' } });
    expect((await runStep(simulator.url, protocol)).error).toMatchObject({
      statusCode: 401,
      message: 'No such key.',
      responseHeaders: { 'x-request-id': 'r1' },
    });
  });

  test('delay only delays', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', [{ text: 'late' }]);
    simulator.fault('m', { kind: 'delay', delayMs: 5 });
    expect((await runStep(simulator.url, protocol)).text).toBe('late');
  });

  test('cut breaks the connection after the chunks it names, and a retry gets the same reply', async () => {
    await using simulator = await startSimulator({ chunkChars: 4 });
    simulator.script('m', [{ text: LONG }]);
    simulator.fault('m', { kind: 'cut', afterChunks: 3 });
    const step = await runStep(simulator.url, protocol).catch((error: unknown) => ({ error, text: undefined }));
    expect(step.error).toBeDefined();
    await simulator.waitForRequest(({ outcome }) => outcome === 'cut');
    expect(simulator.requests[0]).toMatchObject({ chunksSent: 3, abortedAtMs: undefined });
    expect((await runStep(simulator.url, protocol)).text).toBe(LONG);
  });

  test('stall goes silent until the client leaves', async () => {
    await using simulator = await startSimulator({ chunkChars: 4 });
    simulator.script('m', [{ text: LONG }]);
    simulator.fault('m', { kind: 'stall', afterChunks: 2 });
    const abort = new AbortController();
    let received = '';
    const step = await runStep(simulator.url, protocol, {
      signal: abort.signal,
      onPart: (part) => {
        if (part.type === 'text-delta') received += part.text;
        if (received === LONG.slice(0, 8)) abort.abort();
      },
    });
    expect(step.ofType('abort')).toHaveLength(1);
    const record = await simulator.waitForRequest(({ abortedAtMs }) => abortedAtMs !== undefined);
    expect(record).toMatchObject({ outcome: 'stalled', chunksSent: 2 });
  });

  test('error-in-stream arrives as an error after the text that was sent', async () => {
    await using simulator = await startSimulator({ chunkChars: 4 });
    simulator.script('m', [{ text: LONG }]);
    simulator.fault('m', { kind: 'error-in-stream', afterChunks: 2, code: 'server_error', message: 'It broke.' });
    const step = await runStep(simulator.url, protocol);
    expect(step.text).toBe(LONG.slice(0, 8));
    const named = protocol === 'messages' ? { type: 'server_error' } : { code: 'server_error' };
    expect(step.error).toMatchObject({ message: 'It broke.', ...named });
    expect(simulator.requests[0]?.outcome).toBe('failed');
  });

  test('context-overflow is refused as over the window whatever its size', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', [{ text: 'fine' }]);
    simulator.fault('m', { kind: 'context-overflow' });
    expect((await runStep(simulator.url, protocol)).error).toMatchObject({
      statusCode: 400,
      data: { error: protocol === 'messages' ? promptTooLong : { code: 'context_length_exceeded' } },
    });
  });

  test('strike replies that are not streamed as well', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', [{ text: LONG, gates: { beforeEnd: 'end' } }]);
    simulator.fault('m', [
      { kind: 'error-in-stream', afterChunks: 1, code: 'server_error', message: 'It broke.' },
      { kind: 'cut', afterChunks: 1 },
    ]);
    const messages = [{ role: 'user', content: 'Hi' }];
    const body = { model: 'm', max_tokens: 9, store: false, input: 'Hi', messages };
    const broken = post(simulator.url, protocol, body);
    await simulator.gate('end').reached;
    expect(simulator.requests[0]?.status).toBe(0);
    simulator.gate('end').release();
    expect((await broken).status).toBe(500);
    await expect(post(simulator.url, protocol, body)).rejects.toThrow('fetch failed');
    expect(await (await post(simulator.url, protocol, body)).text()).toContain(LONG);
  });

  test('a script that throws is a server error that says so', async () => {
    await using simulator = await startSimulator();
    simulator.script('m', () => {
      throw new Error('bad scenario');
    });
    expect((await runStep(simulator.url, protocol)).error).toMatchObject({
      statusCode: 500,
      message: 'The simulator failed: bad scenario',
    });
  });
});

test.each(['responses', 'chat'] as const)(
  'error-in-stream before any output is an API error through %s',
  async (protocol) => {
    await using simulator = await startSimulator();
    simulator.script('m', [{ text: LONG }]);
    const overflow = {
      code: 'context_length_exceeded',
      message: 'Your input exceeds the context window of this model',
    };
    simulator.fault('m', { kind: 'error-in-stream', afterChunks: 0, ...overflow });
    expect((await runStep(simulator.url, protocol)).error).toMatchObject({
      statusCode: 400,
      message: overflow.message,
    });
  },
);

test('Responses: error-in-stream can come as response.failed', async () => {
  await using simulator = await startSimulator({ chunkChars: 4 });
  simulator.script('m', [{ text: LONG }]);
  const fault = { code: 'rate_limit_exceeded', message: 'Too much.', event: 'response.failed' as const };
  simulator.fault('m', { kind: 'error-in-stream', afterChunks: 1, ...fault });
  const step = await runStep(simulator.url, 'responses');
  expect(step.error).toMatchObject({ message: 'Too much.', type: 'response.failed', statusCode: 429 });
});

describe.each(PROTOCOLS)('gates through %s', (protocol) => {
  test('hold a reply before its first chunk, after some chunks and before its end', async () => {
    await using simulator = await startSimulator({ chunkChars: 4 });
    const gates = { beforeFirstChunk: 'first', afterChunks: { count: 2, gate: 'middle' }, beforeEnd: 'end' };
    simulator.script('m', [{ text: LONG, gates }]);
    const step = runStep(simulator.url, protocol);
    const [record] = [await simulator.waitForRequest(() => true)];
    await simulator.gate('first').reached;
    expect(record.chunksSent).toBe(0);
    simulator.gate('first').release();
    await simulator.gate('middle').reached;
    expect(record.chunksSent).toBe(2);
    simulator.gate('middle').release();
    await simulator.gate('end').reached;
    expect(record).toMatchObject({ chunksSent: LONG.length / 4, outcome: 'in-progress' });
    simulator.gate('end').release();
    expect((await step).text).toBe(LONG);
  });

  test('let the client see what was sent before them, and note when it leaves', async () => {
    await using simulator = await startSimulator({ chunkChars: 4 });
    simulator.script('m', [{ text: LONG, gates: { afterChunks: { count: 1, gate: 'hold' } } }]);
    const abort = new AbortController();
    const step = await runStep(simulator.url, protocol, {
      signal: abort.signal,
      onPart: (part) => part.type === 'text-delta' && part.text !== '' && abort.abort(),
    });
    expect(step.text).toBe(LONG.slice(0, 4));
    const record = await simulator.waitForRequest(({ outcome }) => outcome === 'aborted-by-client');
    expect(record.abortedAtMs).toBeGreaterThan(record.startedAtMs);
  });

  test('are released by clear, and stopping ends what still hangs', async () => {
    const simulator = await startSimulator();
    simulator.script('m', [{ text: 'x', gates: { beforeEnd: 'a' } }]);
    const first = runStep(simulator.url, protocol);
    await simulator.gate('a').reached;
    simulator.clear();
    expect((await first).text).toBe('x');
    simulator.script('m', [{ text: 'y', gates: { beforeFirstChunk: 'b' } }]);
    const second = runStep(simulator.url, protocol).catch((error: unknown) => ({ error }));
    await simulator.gate('b').reached;
    await simulator[Symbol.asyncDispose]();
    expect((await second).error).toBeDefined();
  });
});
