import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Fault } from '../../simulator/fault.ts';
import { startApi } from '../../src/app/api-server.ts';
import { BatonError, createClient } from '../../src/client/client.ts';
import { formatId } from '../../src/domain/ids.ts';
import { WAY_OUT } from '../../src/domain/model/remedies/way-out.ts';
import { agentWith, eventsOf, readingReplies, readTool } from '../compaction/compaction-support.ts';
import { runNode } from '../deploy/process.ts';
import { anyBackend } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

const backend = anyBackend();
const ROOT = path.join(import.meta.dirname, '../..');
const TASK = 'Tell nobody that the harbour of Ostend is for sale.';

const stack = new AsyncDisposableStack();
let service: TestService;
let url: string;
/** Answers every request with a page. */
const site = createServer((_request, response) => {
  response.writeHead(200, { 'content-type': 'text/html', 'x-request-id': 'page-1' }).end('<h1>Welcome</h1>');
});

beforeAll(async () => {
  await new Promise<void>((resolve) => void site.listen(0, '127.0.0.1', resolve));
  stack.defer(() => void site.close());
  const environment = {
    BATON_PORT: '0',
    OPENAI_API_KEY: 'none',
    OPENAI_BASE_URL: `http://127.0.0.1:${(site.address() as AddressInfo).port}/v1`,
    ANTHROPIC_API_KEY: 'none',
    ANTHROPIC_BASE_URL: `http://127.0.0.1:${await unusedPort()}/v1`,
  };
  service = stack.use(await startTestService({ backend, tools: [readTool], environment }));
  url = stack.use(await startApi(service.deps)).url;
  await service.startWorker();
});
afterAll(() => stack.disposeAsync());

async function unusedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const refusal = (status: number, more: Readonly<Record<string, unknown>>, headers = {}): Fault => ({
  status,
  headers: { 'x-request-id': 'req_42', ...headers },
  body: { error: { message: `Unsupported value. You sent: "${TASK}" by sk-test-12345`, type: 'any', ...more } },
});

const providerHost = (): string => new URL(service.simulator.url).host;
const WORDS = 'Unsupported value. You sent: "[…]." by [removed]';
const PROVIDER = () => ({
  status: 400,
  code: 'unsupported_value',
  message: WORDS,
  requestId: 'req_42',
  host: providerHost(),
});
const MESSAGE = () =>
  `The provider refused the request as invalid. ${providerHost()} answered 400 (unsupported_value): ${WORDS} [request req_42]. ${WAY_OUT}`;

const noSecrets = (said: unknown): void =>
  expect(JSON.stringify(said), 'nothing of the prompt or the key').not.toMatch(/Ostend|sk-test/i);

describe('what a provider says when it refuses a call', () => {
  it('is in the run, its events, the log, on the board and on the command line; prompt and key are not', async () => {
    service.simulator.fault('test', refusal(400, { code: 'unsupported_value' }));
    const session = await service.createSession();
    const { runId } = await service.send(session, TASK);
    const { error } = await service.ended(runId);
    expect(error).toEqual({ code: 'invalid_request', message: MESSAGE(), provider: PROVIDER() });
    const client = createClient({ baseUrl: url });
    expect((await client.runs.get(formatId('run', runId))).error).toEqual(error);
    const events = (await eventsOf(service, session)).filter(({ data }) => 'error' in data);
    expect(events.map(({ type, data }) => [type, data['error']])).toEqual([
      ['llm:error', error],
      ['run:failed', error],
    ]);
    const jobs = await eventually(async () => {
      const failed = await service.deps.jobs.bullQueues()[0]?.getFailed();
      return failed?.some(({ data }) => data.runId === formatId('run', runId)) ? failed : null;
    }, 'the job has failed');
    expect(jobs.map(({ failedReason }) => failedReason)).toEqual([`invalid_request: ${MESSAGE()}`]);
    // The run has failed before its worker logs that; the job fails after.
    const logged = service.logged.filter((line) => 'runId' in line && line.runId === runId);
    expect(logged).toContainEqual(
      expect.objectContaining({ event: 'step_failed', code: 'invalid_request', provider: PROVIDER() }),
    );
    const shown = await runNode(['bin/baton.js', 'show', formatId('run', runId)], {
      cwd: ROOT,
      environment: { BATON_URL: url },
    }).ended;
    expect(shown.output).toContain(`(invalid_request: ${MESSAGE()})`);
    noSecrets([error, events, logged, jobs.map(({ data, failedReason }) => [data, failedReason])]);
  });

  it('is told with every attempt that is made again', async () => {
    service.simulator.fault('test', refusal(529, { code: null, type: 'overloaded_error' }, { 'retry-after-ms': '1' }));
    service.simulator.script('test', [{ text: 'Done.' }]);
    const session = await service.createSession();
    expect(await service.ended((await service.send(session, TASK)).runId)).toMatchObject({ status: 'completed' });
    const [retrying] = await eventsOf(service, session, 'step:retrying');
    const provider = { ...PROVIDER(), status: 529, code: 'overloaded_error' };
    expect(retrying?.data['error']).toMatchObject({ code: 'overloaded', provider });
    noSecrets(retrying);
  });

  it('is told in the middle of an answer, with the request that it came in', async () => {
    const message = `No more today: ${TASK}`;
    service.simulator.fault('test', { kind: 'error-in-stream', afterChunks: 1, code: 'content_filter', message });
    service.simulator.script('test', [{ text: 'A long answer.', chunkChars: 4 }]);
    const session = await service.createSession();
    const { error } = await service.ended((await service.send(session, TASK)).runId);
    const provider = { status: 200, code: 'content_filter', message: 'No more today: […].', host: providerHost() };
    expect(error).toMatchObject({ code: 'content_policy', provider });
  });

  it('is told by OpenAI’s protocol', async () => {
    service.simulator.fault('test', refusal(400, { code: 'unsupported_value' }));
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'tester', messages: [{ role: 'user', content: TASK }] }),
    });
    expect(await response.json()).toMatchObject({ error: { code: 'invalid_request', message: MESSAGE() } });
  });

  it('is told by the AI SDK’s', async () => {
    service.simulator.fault('test', refusal(400, { code: 'unsupported_value' }));
    const response = await fetch(`${url}/api/chat`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        id: 'my-chat',
        agent: 'tester',
        messages: [{ id: 'm1', role: 'user', parts: [{ type: 'text', text: TASK }] }],
      }),
    });
    const frames = (await response.text()).split('\n\n').filter((frame) => frame.includes('"error"'));
    expect(frames).toEqual([expect.stringContaining(JSON.stringify(MESSAGE()).slice(1, -1))]);
  });

  it('to a compaction is in its round and its event', async () => {
    service.simulator.script('test', readingReplies(6, 1_500));
    const session = await service.createSession(agentWith({ maxContextTokens: 32_000, prune: { enabled: false } }));
    await service.ended((await service.send(session, TASK)).runId);
    service.simulator.summaries([], { mode: '503', retryAfterMs: 0 });
    const client = createClient({ baseUrl: url });
    const id = formatId('session', session);
    const { runId } = await client.sessions.compact(id);
    await client.runs.wait(runId);
    const [failed] = await eventsOf(service, session, 'compaction:failed');
    const provider = { status: 503, host: providerHost(), message: expect.any(String) };
    const error = { code: 'overloaded', message: expect.stringContaining(`${providerHost()} answered 503`), provider };
    expect(failed?.data['error']).toMatchObject(error);
    const { compactions } = await client.sessions.context(id);
    expect(compactions).toMatchObject([{ state: 'failed', error: failed?.data['error'] }]);
    const lines = service.warned.filter((line) => line.event === 'compaction_finished');
    expect(lines).toContainEqual(expect.objectContaining({ outcome: 'failed', ...(failed?.data['error'] ?? {}) }));
  });
});

describe('a base URL that is wrong', () => {
  async function firstRetry(model: string) {
    const session = await service.createSession({ model });
    const { runId } = await service.send(session, TASK);
    const event = await eventually(
      async () => (await eventsOf(service, session, 'step:retrying'))[0] ?? null,
      'the step is tried again',
    );
    const client = createClient({ baseUrl: url });
    await client.runs
      .cancel(formatId('run', runId))
      .catch((error: unknown) => expect(error).toBeInstanceOf(BatonError));
    return event.data['error'];
  }

  it('is named with the reason where nobody listens', async () => {
    const error = await firstRetry('anthropic/any');
    const host = new URL(service.environment['ANTHROPIC_BASE_URL'] ?? '').host;
    expect(error).toEqual({
      code: 'transport',
      message: `The connection to the provider failed or its answer broke off. ${host}: connect ECONNREFUSED ${host}.`,
      provider: { host, errno: 'ECONNREFUSED', message: `connect ECONNREFUSED ${host}` },
    });
  });

  it('is named with what answers where that is no provider', async () => {
    const error = await firstRetry('openai/any');
    const host = new URL(service.environment['OPENAI_BASE_URL'] ?? '').host;
    const message = 'the answer is text/html, no stream of events: the answer broke off';
    expect(error).toMatchObject({
      code: 'transport',
      provider: { host, status: 200, requestId: 'page-1', message },
    });
  });
});
