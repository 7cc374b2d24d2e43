import {
  InMemorySpanExporter,
  NodeTracerProvider,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-node';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startApi } from '../../src/app/api-server.ts';
import { formatId, parseId } from '../../src/domain/ids.ts';
import { createLog } from '../../src/platform/log.ts';
import { inSpan } from '../../src/platform/tracing.ts';
import { claimRun, noteAttempt } from '../../src/store/work/claims.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

const exporter = new InMemorySpanExporter();
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
beforeAll(() => provider.register());
afterAll(() => provider.shutdown());
beforeEach(() => exporter.reset());

const CALLER = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' };
const headers = {
  'content-type': 'application/json',
  traceparent: `00-${CALLER.traceId}-${CALLER.spanId}-01`,
};

/** The contents of the task, the answer, and the tool's input and output. */
const SECRETS = /a secret task|a secret answer|a secret input|a secret output/;

const tool: Tool = {
  name: 'works',
  description: 'works',
  inputSchema: { type: 'object', properties: { with: { type: 'string' } } },
  execute: async () => 'a secret output',
};

async function startService(backend: 'redis' | 'postgres', environment = {}) {
  await using stack = new AsyncDisposableStack();
  const service = stack.use(
    await startTestService({ backend, tools: [tool], environment: { BATON_PORT: '0', ...environment } }),
  );
  const { url } = stack.use(await startApi(service.deps));
  const owned = stack.move();
  return { service, url, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function post(url: string, path: string, body: unknown, more = {}): Promise<Record<string, unknown>> {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { ...headers, ...more },
    body: JSON.stringify(body),
  });
  expect(response.status, path).toBeLessThan(300);
  return (await response.json()) as Record<string, unknown>;
}

async function ask(url: string, sessionId: string): Promise<string> {
  const { runId } = await post(url, `/v1/sessions/${sessionId}/messages`, { content: 'a secret task' });
  return internalId(runId);
}

function internalId(runId: unknown): string {
  const id = parseId('run', String(runId));
  if (id === null) throw new Error(`${runId} is not the id of a run`);
  return id;
}

async function newSession(service: TestService): Promise<string> {
  return `ses_${(await service.createSession()).replaceAll('-', '')}`;
}

const spansNamed = (name: string): ReadableSpan[] =>
  exporter.getFinishedSpans().filter((span) => span.name === name && span.spanContext().traceId === CALLER.traceId);
const parentOf = (span: ReadableSpan | undefined) => span?.parentSpanContext?.spanId;
const idOf = (span: ReadableSpan | undefined) => span?.spanContext().spanId;

async function finished(name: string, count: number): Promise<ReadableSpan[]> {
  return eventually(async () => {
    const spans = spansNamed(name);
    return spans.length >= count ? spans : null;
  }, `${count} spans ${name}`);
}

describe.each(availableBackends())('a trace on %s', (backend) => {
  it('goes from the request to every tool, survives the loss of the queue, and holds nothing that is said', async () => {
    await using running = await startService(backend);
    const { service, url } = running;
    service.simulator.script('test', [
      { toolCalls: [{ name: 'works', input: { with: 'a secret input' } }], usage: { reasoning: 7 } },
      { text: 'a secret answer' },
    ]);
    const internalSession = await service.createSession();
    const runId = await ask(url, formatId('session', internalSession));
    for (const queue of service.deps.jobs.bullQueues()) await queue.obliterate({ force: true });
    await service.startWorker();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    const jobs = await finished('process steps', 2);

    const [request] = spansNamed('POST /v1/sessions/:id/messages');
    expect(parentOf(request)).toBe(CALLER.spanId);
    const session = formatId('session', internalSession);
    expect(request?.attributes).toMatchObject({
      ...{ 'http.response.status_code': 202, 'http.route': '/v1/sessions/:id/messages' },
      ...{ 'url.scheme': 'http', 'url.path': `/v1/sessions/${session}/messages` },
      ...{ 'server.address': '127.0.0.1', 'server.port': Number(new URL(url).port) },
    });
    const sends = spansNamed('send steps');
    const [first, second] = spansNamed('step');
    expect([first, second].map((span) => span?.attributes['baton.step'])).toEqual([1, 2]);
    // The worker carries on with the second step itself: that step's job is only a record, added after the first has
    // ended.
    expect(sends.map(parentOf)).toEqual([idOf(request)]);
    expect(jobs.map(parentOf)).toEqual([idOf(request), idOf(request)]);
    expect([first, second].map(parentOf)).toEqual(jobs.map(idOf));
    const chats = spansNamed('chat test');
    expect(chats.map(parentOf)).toEqual([idOf(first), idOf(second)]);
    expect(chats[0]?.attributes).toMatchObject({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'simulated',
      'gen_ai.request.model': 'test',
      'gen_ai.response.finish_reasons': ['tool-calls'],
      'gen_ai.usage.input_tokens': expect.any(Number),
      'gen_ai.usage.reasoning.output_tokens': 7,
    });
    const ofRun = {
      'baton.session_id': session,
      'baton.run_id': formatId('run', runId),
      'baton.tenant': 'default',
      'gen_ai.conversation.id': session,
      'gen_ai.agent.name': 'tester',
    };
    const ofJob = [...jobs, first, second, ...chats, ...spansNamed('execute_tool works')];
    for (const span of ofJob) expect(span?.attributes, span?.name).toMatchObject(ofRun);
    expect(request?.attributes).not.toHaveProperty('baton.run_id');
    const runs = await finished('invoke_agent tester', 1);
    expect(runs.map(parentOf)).toEqual([idOf(request)]);
    expect(runs[0]?.attributes).toMatchObject({
      ...ofRun,
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.provider.name': 'simulated',
      'gen_ai.request.model': 'test',
      'gen_ai.usage.reasoning.output_tokens': 7,
      'baton.status': 'completed',
      'baton.steps': 2,
      'baton.cost_usd': expect.any(Number),
    });
    const [toolSpan] = spansNamed('execute_tool works');
    expect(parentOf(toolSpan)).toBe(idOf(chats[0]));
    const all = exporter.getFinishedSpans().filter((span) => span.spanContext().traceId === CALLER.traceId);
    expect(
      JSON.stringify(all.map(({ name, attributes, events, status }) => ({ name, attributes, events, status }))),
    ).not.toMatch(SECRETS);
    expect(all.flatMap(({ links }) => links)).toEqual([]);
  });

  it('is that of the request which a run answers, also where that had to wait for another run', async () => {
    await using running = await startService(backend);
    const { service, url } = running;
    service.simulator.script('test', [{ text: 'First.', gates: { beforeEnd: 'end' } }, { text: 'Second.' }]);
    await service.startWorker();
    const sessionId = await newSession(service);
    await ask(url, sessionId);
    await service.simulator.gate('end').reached;
    const otherTrace = '4bf92f3577b34da6a3ce929d0e0e4736';
    const message = { content: 'a secret task', delivery: 'followup' };
    const path = `/v1/sessions/${sessionId}/messages`;
    const { runId } = await post(url, path, message, { traceparent: `00-${otherTrace}-00f067aa0ba902b7-01` });
    service.simulator.gate('end').release();
    await service.ended(internalId(runId));
    const told: unknown = await (await fetch(`${url}/v1/runs/${runId}`)).json();
    expect(told).toMatchObject({ traceId: otherTrace });
    const traceOf = (span: ReadableSpan) => [span.attributes['baton.run_id'], span.spanContext().traceId];
    await eventually(async () => {
      const jobs = exporter.getFinishedSpans().filter(({ name }) => name === 'process steps');
      return jobs.length === 2 && jobs.map(traceOf).some(([id, trace]) => id === runId && trace === otherTrace);
    }, 'the second run is in the trace of the second request');
  });

  it('has another span for every attempt, linked to the one before it', async () => {
    await using running = await startService(backend);
    const { service, url } = running;
    service.simulator.fault('test', {
      status: 429,
      headers: { 'retry-after-ms': '1', 'x-request-id': 'req_42' },
      body: { error: { message: 'Too much of "a secret task"', code: 'too_much' } },
    });
    service.simulator.script('test', [{ text: 'a secret answer' }]);
    await service.startWorker();
    await service.ended(await ask(url, await newSession(service)));
    const linked = ({ links }: ReadableSpan) => links.length > 0;
    // A job that comes a moment too early also has a span, but makes no attempt.
    const again = await eventually(async () => spansNamed('process steps').find(linked) ?? null, 'a span with a link');
    const [failed] = spansNamed('process steps');
    expect(again.links).toMatchObject([
      { context: { spanId: idOf(failed), traceId: CALLER.traceId }, attributes: { 'baton.link': 'retry' } },
    ]);
    const [refused, answered] = spansNamed('chat test');
    expect(answered?.attributes['error.type']).toBeUndefined();
    expect(refused?.attributes).toMatchObject({
      'error.type': 'rate_limited',
      'http.response.status_code': 429,
      'server.address': '127.0.0.1',
      'baton.provider.code': 'too_much',
      'baton.provider.request_id': 'req_42',
    });
    expect(refused?.status.message).toContain('Too much of "[…]"');
    const told = exporter.getFinishedSpans().map(({ attributes, events, status }) => ({ attributes, events, status }));
    expect(JSON.stringify(told)).not.toMatch(SECRETS);
  });

  it('has a span for a run that no worker ended', async () => {
    await using running = await startService(backend);
    const { service, url } = running;
    const runId = await ask(url, await newSession(service));
    await post(url, `/v1/runs/${formatId('run', runId)}/cancel`, {});
    const [run] = await finished('invoke_agent tester', 1);
    expect(run?.attributes).toMatchObject({ 'baton.status': 'cancelled', 'baton.steps': 0 });
    expect(service.logged).toContainEqual(expect.objectContaining({ event: 'run_ended', agent: 'tester' }));
  });

  it('links what is recovered to the job of the worker that was lost', async () => {
    await using running = await startService(backend);
    const { service, url } = running;
    const { db, newId } = service.deps;
    service.simulator.script('test', [{ text: 'a secret answer' }]);
    const runId = await ask(url, await newSession(service));
    const job = { runId, kind: 'step', no: 1, dispatch: 1 } as const;
    const [claimId, messageId] = [newId(), newId()];
    const lost = await claimRun(db, { job, claimId, workerId: 'lost', leaseDurationMs: 1, messageId });
    if (lost.outcome !== 'claimed') throw new Error('it was not claimed');
    const attempt = `00-${CALLER.traceId}-00f067aa0ba902b7-01`;
    await noteAttempt(db, { runId, epoch: lost.epoch, claimId }, attempt);
    await service.startWorker();
    await service.ended(runId);
    const [recovered] = await finished('process steps', 1);
    expect(recovered?.links).toMatchObject([
      { context: { spanId: '00f067aa0ba902b7' }, attributes: { 'baton.link': 'recovery' } },
    ]);
    expect(parentOf(recovered)).toBe(idOf(spansNamed('POST /v1/sessions/:id/messages')[0]));
  });

  it('has spans for compactions and prunes, under the request that asked for them', async () => {
    await using running = await startService(backend);
    const { service, url } = running;
    service.simulator.script('test', [{ text: 'a secret answer' }]);
    await service.startWorker();
    const sessionId = await newSession(service);
    await service.ended(await ask(url, sessionId));
    for (const [path, name] of [
      ['compact', 'compaction'],
      ['prune', 'prune'],
    ] as const) {
      await post(url, `/v1/sessions/${sessionId}/${path}`, {});
      const [span] = await finished(name, 1);
      const [job] = await finished(`process ${name}s`, 1);
      expect(parentOf(span)).toBe(idOf(job));
      expect(parentOf(job)).toBe(idOf(spansNamed(`POST /v1/sessions/:id/${path}`)[0]));
      await eventually(async () => {
        const { status } = await service.deps.db.selectFrom('sessions').select('status').executeTakeFirstOrThrow();
        return status === 'idle';
      }, 'the session is idle');
    }
  });
});

describe('what is said', () => {
  it('goes into spans where that is asked for', async () => {
    await using running = await startService('postgres', { BATON_TRACE_CONTENT: 'true' });
    const { service, url } = running;
    service.simulator.script('test', [
      { toolCalls: [{ name: 'works', input: { with: 'a secret input' } }] },
      { text: 'a secret answer' },
    ]);
    await service.startWorker();
    await service.ended(await ask(url, await newSession(service)));
    await finished('process steps', 2);
    const chats = spansNamed('chat test');
    expect(chats[0]?.attributes['gen_ai.input.messages']).toContain('a secret task');
    expect(chats[1]?.attributes['gen_ai.output.messages']).toContain('a secret answer');
    expect(spansNamed('execute_tool works')[0]?.attributes['gen_ai.tool.call.arguments']).toContain('a secret input');
  });
});

describe('a log line', () => {
  it('carries the ids of its trace, and none without one', async () => {
    const lines: Record<string, unknown>[] = [];
    const log = createLog({ level: 'info', destination: { write: (line) => void lines.push(JSON.parse(line)) } });
    const parent = headers.traceparent;
    const spanId = await inSpan('work', { parent }, async (span) => {
      log('info', { event: 'process_stopping', signal: 'SIGTERM' });
      return span.spanContext().spanId;
    });
    log('info', { event: 'process_stopping', signal: 'SIGTERM' });
    expect(lines[0]).toMatchObject({ event: 'process_stopping', traceId: CALLER.traceId, spanId });
    expect(lines[1]).not.toHaveProperty('traceId');
  });
});
