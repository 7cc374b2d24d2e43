import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SpanStatusCode } from '@opentelemetry/api';
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-node';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { toolSourceSchema } from '../../src/agents/tool-sources.ts';
import { telemetryProvider } from '../../src/domain/model/telemetry-provider.ts';
import { inSpan } from '../../src/platform/tracing.ts';
import { createHttpTool } from '../../src/tools/http/http-tool.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { tool as listed, openOdd, said } from '../tools/odd-server.ts';
import { contextOf } from '../tools/workspace-fixture.ts';
import { isOfType, OPERATIONS, TYPES } from './gen-ai-conventions.ts';

const exporter = new InMemorySpanExporter();
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
beforeAll(() => provider.register());
afterAll(() => provider.shutdown());
beforeEach(() => exporter.reset());

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = `00-${TRACE}-b7ad6b7169203331-01`;

const works: Tool = {
  name: 'works',
  description: 'Works.',
  inputSchema: { type: 'object' },
  execute: async () => ({ done: true }),
};

const spansOf = (operation: string): ReadableSpan[] =>
  exporter.getFinishedSpans().filter(({ attributes }) => attributes['gen_ai.operation.name'] === operation);

const jsonIn = ({ attributes }: ReadableSpan, name: string): unknown => JSON.parse(String(attributes[name]));

/** A run with a tool and a child, of which all that is said goes into spans. */
async function traceRun(model: string): Promise<void> {
  const described = { description: 'Helps.', instructions: 'Be kind.' };
  await using service = await startTestService({
    backend: 'postgres',
    tools: [works],
    agents: [{ name: 'researcher', model: 'simulated/researcher', ...described }],
    environment: { BATON_TRACE_CONTENT: 'true' },
  });
  const call = { name: 'works', input: { with: 1 } };
  const task = { name: 'researcher', input: { task: 'Find.' } };
  const settings = { temperature: 0.5, topP: 0.9, seed: 7, stopSequences: ['END'] };
  const reasoning = 'I think.';
  service.simulator.script('test', [
    { reasoning, text: 'So.', toolCalls: [call] },
    { reasoning, toolCalls: [task] },
    { reasoning, text: 'Done.' },
  ]);
  service.simulator.script('researcher', [{ reasoning, text: 'Found.', toolCalls: [] }]);
  await service.startWorker();
  const tools = ['works', { agent: 'researcher' }];
  const session = await service.createSession({ model, ...described, tools, settings });
  const { runId } = await inSpan('request', { parent: PARENT }, () => service.send(session, 'Work'));
  expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
  await eventually(async () => spansOf('invoke_agent').length === 2 || null, 'both runs are recorded');
}

describe('spans by the conventions for generative AI', () => {
  it('have the names, kinds and attributes of the registry, for the run and its child', async () => {
    await traceRun('simulated-chat/test');
    const names = (operation: string) => spansOf(operation).map(({ name }) => name);
    expect(names('chat').toSorted()).toEqual(['chat researcher', 'chat test', 'chat test', 'chat test']);
    expect(names('invoke_agent').toSorted()).toEqual(['invoke_agent researcher', 'invoke_agent tester']);
    expect(names('execute_tool')).toEqual(['execute_tool works']);
    for (const [operation, { kind, target, attributes, content }] of Object.entries(OPERATIONS)) {
      const spans = spansOf(operation).filter(({ name }) => name !== 'chat researcher');
      for (const span of spans) {
        expect(span.kind, span.name).toBe(kind);
        expect(span.name).toBe(`${operation} ${span.attributes[target]}`);
        const known = Object.keys(span.attributes);
        expect(known, span.name).toEqual(expect.arrayContaining([...attributes, ...content]));
      }
    }
    const all = exporter.getFinishedSpans().flatMap(({ attributes }) => Object.entries(attributes));
    const own = all.filter(([name]) => /^(?:gen_ai|mcp|rpc)\./.test(name));
    expect(own.filter(([name, value]) => !isOfType(TYPES[name], value))).toEqual([]);
    const traces = new Set(exporter.getFinishedSpans().map((span) => span.spanContext().traceId));
    expect([...traces], 'child and parent are in one trace').toEqual([TRACE]);
  });

  it('hold, where that is asked for, what a model said with its calls and reasoning, and what a tool returned', async () => {
    await traceRun('simulated/test');
    const [first] = spansOf('chat').filter(({ name }) => name === 'chat test');
    const [works] = spansOf('execute_tool');
    if (first === undefined || works === undefined) throw new Error('a span is missing');
    const id = works.attributes['gen_ai.tool.call.id'];
    expect(jsonIn(first, 'gen_ai.output.messages')).toEqual([
      {
        role: 'assistant',
        finish_reason: 'tool_call',
        parts: [
          { type: 'reasoning', content: 'I think.' },
          { type: 'text', content: 'So.' },
          { type: 'tool_call', id, name: 'works', arguments: { with: 1 } },
        ],
      },
    ]);
    const system = jsonIn(first, 'gen_ai.system_instructions');
    expect(system).toEqual([{ type: 'text', content: expect.stringContaining('Be kind.') }]);
    expect(jsonIn(first, 'gen_ai.tool.definitions')).toContainEqual({
      ...{ type: 'function', name: 'works', description: 'Works.' },
    });
    expect(jsonIn(works, 'gen_ai.tool.call.result')).toEqual({ type: 'json', value: { done: true } });
    expect(first.attributes, 'it is not sent by this protocol').not.toHaveProperty('gen_ai.request.seed');
    expect(works.attributes['baton.call_id']).toMatch(/^call_/);
  });
});

describe('a provider', () => {
  it.each([
    ['mine', 'https://api.openai.com/v1', 'openai'],
    ['mine', 'https://my-own.openai.azure.com/openai', 'azure.ai.openai'],
    ['google', 'https://generativelanguage.googleapis.com/v1beta/openai', 'gcp.gemini'],
    ['vertex', 'https://europe-west1-aiplatform.googleapis.com/v1', 'gcp.vertex_ai'],
    ['openai-chat', null, 'openai'],
    ['local', 'http://127.0.0.1:11434/v1', 'local'],
    ['mine', 'https://api.openai.com.example.org/v1', 'mine'],
  ])('%s at %s is called %s', (name, endpoint, known) => {
    expect(telemetryProvider(name, endpoint)).toBe(known);
  });
});

describe('spans of MCP', () => {
  it('are client spans of its requests; a call describes the span of its tool', async () => {
    await using odd = await openOdd({
      list: () => ({ tools: [listed('good'), listed('bad')] }),
      call: ({ name }) => (name === 'good' ? said('fine') : '"error":{"code":-32602,"message":"a secret word"}'),
    });
    const agent = await inSpan('pin', { parent: PARENT }, () => odd.pin());
    await inSpan('execute_tool m__good', {}, () => odd.fixture.call(agent, 'm__good'));
    const refused = inSpan('execute_tool m__bad', {}, () => odd.fixture.call(agent, 'm__bad'));
    await expect(refused).rejects.toThrow();
    const named = (name: string) => exporter.getFinishedSpans().find((span) => span.name === name);
    const { hostname, port } = new URL(odd.server.url);
    const peer = {
      'network.transport': 'tcp',
      'network.protocol.name': 'http',
      'server.address': hostname,
      'server.port': Number(port),
    };
    const { kind } = OPERATIONS['chat'] ?? {};
    for (const method of ['initialize', 'tools/list']) {
      expect(named(method), method).toMatchObject({ kind, attributes: { ...peer, 'mcp.method.name': method } });
    }
    const called = { ...peer, 'mcp.method.name': 'tools/call', 'mcp.protocol.version': '2025-11-25' };
    expect(named('execute_tool m__good')?.attributes).toMatchObject({ ...called, 'gen_ai.tool.type': 'extension' });
    expect(named('execute_tool m__bad')?.attributes).toMatchObject({ ...called, 'rpc.response.status_code': '-32602' });
    expect(named('execute_tool m__bad')?.status.code).toBe(SpanStatusCode.ERROR);
  });

  it('have the code of the error that a server answers with, and not its words', async () => {
    await using odd = await openOdd({ list: () => '"error":{"code":-32603,"message":"a secret word"}' });
    await expect(inSpan('pin', { parent: PARENT }, () => odd.pin())).rejects.toThrow();
    const list = exporter.getFinishedSpans().find(({ name }) => name === 'tools/list');
    expect(list).toMatchObject({ attributes: { 'error.type': '-32603' }, status: { code: SpanStatusCode.ERROR } });
    expect(JSON.stringify(list?.attributes)).not.toContain('secret');
  });
});

it('an HTTP tool is told the trace of its call', async () => {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const server = createServer((request, response) => {
    resolve(request.headers['traceparent']);
    response.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const http = { name: 'search', description: 'Searches.', url: `http://127.0.0.1:${port}`, inputSchema: {} };
  const source = toolSourceSchema.parse({ http: { ...http, inputSchema: { type: 'object' } } });
  if (typeof source === 'string' || source.http === undefined) throw new Error('no HTTP tool');
  const tool = createHttpTool(source.http, {}, { allowPrivate: true, allowedHosts: [] }, 'tools.0.http');
  const context = contextOf(new AbortController().signal);
  const spanId = await inSpan('execute_tool search', { parent: PARENT }, async (span) => {
    await tool.execute({}, context);
    return span.spanContext().spanId;
  });
  expect(await promise).toBe(`00-${TRACE}-${spanId}-01`);
  const [span] = exporter.getFinishedSpans();
  expect(span?.attributes).toMatchObject({ 'server.address': '127.0.0.1', 'server.port': port });
  server.close();
});
