import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import type { Reply } from '../../simulator/reply.ts';
import { startApi } from '../../src/app/api-server.ts';
import { BatonError } from '../../src/client/baton-error.ts';
import { type BatonClient, createClient } from '../../src/client/client.ts';
import type { StreamEvent } from '../../src/client/session-events.ts';
import type { Fetch } from '../../src/client/transport.ts';
import { formatId } from '../../src/domain/ids.ts';
import { call, createWaitingTools } from '../flow/waiting-scenario.ts';
import { anyBackend } from '../support/backends.ts';
import { createTestKey } from '../support/keys.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const backend = anyBackend();

const stack = new AsyncDisposableStack();
let service: TestService;
let api: Awaited<ReturnType<typeof startApi>>;
let proxy: TcpProxy;
let client: BatonClient;

/** Sends the client's requests to the API's current URL. */
const toApi: Fetch = (url, init) => fetch(url.replace('http://service', api.url), init);

beforeAll(async () => {
  service = stack.use(
    await startTestService({ backend, tools: createWaitingTools().tools, environment: { BATON_PORT: '0' } }),
  );
  api = await startApi(service.deps);
  stack.defer(() => api[Symbol.asyncDispose]());
  proxy = stack.use(await startTcpProxy(api.url));
  await service.startWorker();
  client = createClient({ baseUrl: 'http://service', fetch: toApi });
});
afterAll(() => stack.disposeAsync());

const newSession = async (): Promise<string> => (await client.sessions.create({ agent: 'tester' })).id;
const script = (...replies: Reply[]): void => service.simulator.script('test', replies);

/** The text that was previewed, and the numbers of the durable events. */
function summarize(events: readonly StreamEvent[]) {
  const text = events.map((event) => (event.type === 'llm:chunk' ? event.data.content : '')).join('');
  return { text, seqs: events.flatMap((event) => ('seq' in event ? [event.seq] : [])) };
}

/** Reads to the end; `sawText` resolves at the first text. */
function read(events: AsyncIterable<StreamEvent>) {
  const { promise: sawText, resolve } = Promise.withResolvers<void>();
  const readAll = async (): Promise<StreamEvent[]> => {
    const all: StreamEvent[] = [];
    for await (const event of events) {
      all.push(event);
      if (event.type === 'llm:chunk') resolve();
    }
    return all;
  };
  return { sawText, ended: readAll() };
}

describe('the client of a real service', () => {
  it('sends, follows and waits; a message to a session at work says that it is queued, and where', async () => {
    script({ text: 'The first answer.', gates: { beforeFirstChunk: 'first' } }, { text: 'The second answer.' });
    const session = await client.sessions.create({ agent: 'tester', title: 'T', metadata: { k: 'v' } });
    expect(await client.sessions.list({ metadata: { k: 'v' } })).toMatchObject({ sessions: [{ id: session.id }] });
    const first = await client.send(session.id, 'Go');
    expect(first).toMatchObject({ queued: false, position: 0, status: 'queued' });
    const following = Array.fromAsync(client.runs.follow(first.runId, { after: 0 }));
    await service.simulator.gate('first').reached;
    const second = await client.send(session.id, 'Then this', { delivery: 'followup' });
    expect(second).toMatchObject({ queued: true, position: 1 });
    expect(await client.queue.list(session.id)).toMatchObject({ messages: [{ id: second.messageId, position: 1 }] });
    const promised = client.runs.follow(second.runId)[Symbol.asyncIterator]();
    // A reader that joins after the end of the run gets only the snapshot.
    expect(await promised.next()).toMatchObject({ value: { type: 'session:snapshot' } });
    service.simulator.gate('first').release();
    const { text, seqs } = summarize(await following);
    expect(text).toBe('The first answer.');
    expect(seqs).toEqual(seqs.map((_, index) => index + 1));
    const ofSecond = await Array.fromAsync({ [Symbol.asyncIterator]: () => promised });
    expect(ofSecond.at(-1)).toMatchObject({ type: 'run:completed', runId: second.runId });
    expect(await client.runs.wait(second.runId)).toMatchObject({ status: 'completed', steps: 1 });
    const { messages } = await client.messages(session.id);
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
    // A run that ended long ago is told again from where the reader asks, and without that has only the snapshot, too.
    const told = summarize(await Array.fromAsync(client.runs.follow(first.runId, { after: 0 })));
    expect([told.text, told.seqs]).toEqual([text, seqs]);
    expect((await Array.fromAsync(client.runs.follow(first.runId))).map(({ type }) => type)).toEqual([
      'session:snapshot',
    ]);
  });

  it('loses and doubles nothing of a stream that is cut, and cut off by a restart of the API', async () => {
    const text = 'A streamed answer that takes its time, in three pieces, with an emoji 🎻 in it.';
    script(
      { text, chunkChars: 3, gates: { afterChunks: { count: 8, gate: 'cut' } } },
      { text, chunkChars: 3, gates: { afterChunks: { count: 8, gate: 'restart' } } },
    );
    const session = await newSession();
    const direct = createClient({ baseUrl: proxy.via(api.url) });
    const cut = await client.send(session, 'Go');
    const cutReader = read(direct.runs.follow(cut.runId, { after: 0 }));
    await Promise.all([service.simulator.gate('cut').reached, cutReader.sawText]);
    proxy.cut();
    service.simulator.gate('cut').release();
    const seenOfCut = await cutReader.ended;

    const restarted = await client.send(session, 'Again');
    const restartedReader = read(client.runs.follow(restarted.runId));
    await Promise.all([service.simulator.gate('restart').reached, restartedReader.sawText]);
    const waiting = client.runs.wait(restarted.runId);
    await api[Symbol.asyncDispose]();
    service.simulator.gate('restart').release();
    api = await startApi(service.deps);
    for (const events of [seenOfCut, await restartedReader.ended]) {
      const seen = summarize(events);
      expect(seen.text).toBe(text);
      expect(seen.seqs).toEqual(seen.seqs.map((_, index) => index + (seen.seqs[0] ?? 0)));
      expect(events.filter(({ type }) => type === 'session:snapshot').length).toBeGreaterThan(1);
      expect(events.at(-1)).toMatchObject({ type: 'run:completed' });
    }
    expect(await waiting).toMatchObject({ status: 'completed' });
  });

  it('sends a message once, although the answer to it was lost', async () => {
    script({ text: 'Once.' });
    const session = await newSession();
    const keys: (string | null)[] = [];
    const losing = createClient({
      baseUrl: 'http://service',
      async fetch(url, init) {
        keys.push(new Headers(init.headers).get('idempotency-key'));
        const answer = await toApi(url, init);
        if (keys.length === 1) throw new TypeError('the connection is gone');
        return answer;
      },
    });
    const sent = await losing.send(session, 'Only once, please');
    expect(keys).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/), keys[0]]);
    await client.runs.wait(sent.runId);
    const said = (await client.messages(session)).messages.filter(({ role }) => role === 'user');
    expect(said).toMatchObject([{ parts: [{ text: 'Only once, please' }] }]);
    await losing.sessions.create({ agent: 'tester' });
    expect(new Set(keys).size).toBe(2);
  });

  it('waits for a run as long as that takes, though the service is away meanwhile', async () => {
    script({ text: 'Done.', gates: { beforeFirstChunk: 'outage' } });
    const session = await newSession();
    const [polling, missed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const seen = { requests: 0, failures: 0 };
    const patient = createClient({
      baseUrl: 'http://service',
      retries: 0,
      fetch: (url, init) => {
        seen.requests += 1;
        if (seen.requests === 2) polling.resolve();
        return toApi(url, init).catch((error) => {
          seen.failures += 1;
          if (seen.failures === 3) missed.resolve();
          throw error;
        });
      },
    });
    const { runId } = await client.send(session, 'Go');
    await service.simulator.gate('outage').reached;
    const waiting = patient.runs.wait(runId);
    await polling.promise;
    await api[Symbol.asyncDispose]();
    await missed.promise;
    service.simulator.gate('outage').release();
    api = await startApi(service.deps);
    expect(await waiting).toMatchObject({ id: runId, status: 'completed' });
    // If the service was never reachable, the client gives up.
    await expect(createClient({ baseUrl: 'http://127.0.0.1:9', retries: 0 }).runs.wait(runId)).rejects.toMatchObject({
      code: 'unreachable',
    });
  });

  it('answers what a run waits for', async () => {
    script({ toolCalls: [call('deploy', { to: 'production' })] }, { text: 'Deployed.' });
    const session = formatId('session', await service.createSession());
    const { runId } = await client.send(session, 'Deploy it');
    const { status, requiredActions } = await client.runs.wait(runId);
    expect([status, requiredActions]).toMatchObject(['requires_action', [{ kind: 'approval', toolName: 'deploy' }]]);
    const answered = await client.runs.answer(runId, requiredActions[0]?.id ?? '', { decision: 'approve' });
    expect(answered).toMatchObject({ runId, kind: 'approval', open: 0 });
    expect(await client.runs.wait(runId)).toMatchObject({ status: 'completed', steps: 2 });
  });

  it('cancels, resumes and tidies up', async () => {
    script({ text: 'Long.', gates: { beforeFirstChunk: 'long' } }, { text: 'Gone on.' });
    const session = await newSession();
    const { runId } = await client.send(session, 'Go');
    await service.simulator.gate('long').reached;
    expect(await client.runs.wait(runId, { timeoutMs: 1 })).toMatchObject({ status: 'running' });
    expect(await client.sessions.cancel(session)).toMatchObject({ runId });
    expect(await client.runs.cancel(runId, { waitMs: 20_000 })).toMatchObject({ status: 'cancelled' });
    service.simulator.gate('long').release();
    const resumed = await client.sessions.resume(session);
    expect(await client.runs.wait(resumed.runId)).toMatchObject({ status: 'completed' });
    expect(await client.sessions.context(session)).toMatchObject({
      used: expect.any(Number),
      share: expect.any(Number),
    });
    const { runId: pruning } = await client.sessions.prune(session);
    expect(await client.runs.wait(pruning)).toMatchObject({ kind: 'maintenance', status: 'completed' });
    expect(await client.sessions.update(session, { title: 'New' })).toMatchObject({ title: 'New' });
    expect(await client.sessions.delete(session)).toBeUndefined();
    await expect(client.sessions.get(session)).rejects.toMatchObject({ code: 'not_found', status: 404 });
  });

  it('asks, and gets the answer; a run that fails rejects with its error', async () => {
    script({ text: 'It is there.' }, { fault: { status: 401 } });
    const session = await newSession();
    const { text, run } = await client.ask(session, 'Where is it?');
    expect([text, run.status]).toEqual(['It is there.', 'completed']);
    expect(await client.runs.result(run.id)).toEqual({ text, files: [], output: null, run });
    await expect(client.ask(session, 'And now?')).rejects.toMatchObject({ code: 'auth', status: null });
  });

  it('asks for a result by a schema, and gets it with the schema’s defaults, transforms and type', async () => {
    const schema = z.object({ total: z.string().transform(Number), note: z.string().default('none') });
    script({ text: '{"total":"42"}' }, { text: '{"total":"43"}' });
    const session = await newSession();
    const { output, run } = await client.ask(session, 'How much?', { output: schema });
    expectTypeOf(output).toEqualTypeOf<{ total: number; note: string } | null>();
    expect(output).toEqual({ total: 42, note: 'none' });
    expect(run.output?.value).toEqual({ total: '42' });
    const even = schema.refine(({ total }) => total % 2 === 0, 'an odd total');
    await expect(client.ask(session, 'Once more?', { output: even })).rejects.toMatchObject({
      code: 'output_invalid',
      message: expect.stringMatching(/^the result of run_\w+ is refused by its schema: an odd total$/),
    });
    await expect(client.ask(session, 'A word?', { output: z.string() })).rejects.toMatchObject({
      code: 'invalid_request',
      message: 'output: expected the schema of an object',
    });
  });

  it('asks, and is told of the calls that wait for answers', async () => {
    script({ toolCalls: [{ id: 'd1', name: 'deploy', input: {} }] }, { text: 'Deployed.' });
    const session = formatId('session', await service.createSession());
    const waiting = await client.ask(session, 'Deploy it').catch((error: BatonError) => error);
    if (!(waiting instanceof BatonError)) throw new Error('it waits');
    const { code, run } = waiting;
    expect([code, run?.status]).toEqual(['requires_action', 'requires_action']);
    const [call] = run?.requiredActions ?? [];
    expect(waiting.message).toContain(`deploy (${call?.id})`);
    await client.runs.answer(run?.id ?? '', call?.id ?? '', { decision: 'approve' });
    expect((await client.runs.result(run?.id ?? '')).text).toBe('Deployed.');
  });

  it('uploads a file and gets it back', async () => {
    const { id, mediaType, sizeBytes } = await client.blobs.upload(new Blob(['some text'], { type: 'text/plain' }));
    expect([mediaType, sizeBytes]).toEqual(['text/plain', 9]);
    expect(await (await client.blobs.download(id)).text()).toBe('some text');
    expect(await client.blobs.upload(new TextEncoder().encode('some text'), { mediaType })).toMatchObject({ id });
  });

  it('tells by its code why something is refused, with the fields that are wrong', async () => {
    const refused = await client.sessions.create({ agent: 'tester', title: 'x'.repeat(201) }).catch((error) => error);
    expect(refused).toBeInstanceOf(BatonError);
    expect(refused).toMatchObject({ code: 'invalid_request', status: 400, errors: [{ path: 'title' }] });
    expect(refused.requestId).not.toBeNull();
    await expect(client.sessions.create({ agent: 'nobody' })).rejects.toMatchObject({ code: 'agent_not_found' });
    await expect(client.sessions.get('../agents')).rejects.toMatchObject({ code: 'invalid_request' });
    const nowhere = createClient({ baseUrl: 'http://127.0.0.1:9', retries: 1 });
    await expect(nowhere.agents()).rejects.toMatchObject({ code: 'unreachable', status: null });
    const stop = AbortSignal.abort(new Error('enough'));
    await expect(client.agents({ signal: stop })).rejects.toThrow('enough');
  });

  it('shows its key', async () => {
    const key = await createTestKey(service.deps.db);
    await expect(client.agents()).rejects.toMatchObject({ code: 'unauthenticated', status: 401 });
    const known = createClient({ baseUrl: 'http://service', fetch: toApi, apiKey: key.secret });
    expect((await known.agents()).agents).toMatchObject([{ name: 'tester' }]);
    await expect(known.audit()).rejects.toMatchObject({ code: 'forbidden' });
  });
});
