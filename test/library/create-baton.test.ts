import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { Hono } from 'hono';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createClient } from '../../src/client/client.ts';
import { type BatonOptions, createBaton, defineAgent, defineTool, tool } from '../../src/library/baton.ts';
import { readDefinitions } from '../../src/library/define-agent.ts';
import { startInProcess } from './support.ts';

const answering = (model: ReturnType<ReturnType<typeof createOpenAI>>): Partial<BatonOptions> => ({
  agents: [defineAgent({ name: 'clerk', model })],
});

describe('Baton in the process of a program', () => {
  it('runs tools that are functions with a model of the AI SDK', async () => {
    const refunded: unknown[] = [];
    await using started = await startInProcess((model) => ({
      agents: [
        defineAgent({
          name: 'clerk',
          model,
          tools: {
            refund: tool({
              description: 'Pays an order back.',
              inputSchema: z.object({ order: z.string(), cents: z.number().default(100) }),
              execute: ({ order, cents }, { callKey, tenantId }) => {
                refunded.push({ order, cents, tenantId, callKey });
                return `paid ${cents}`;
              },
            }),
          },
        }),
      ],
    }));
    const { baton, simulator, logged } = started;
    simulator.script('test', ({ index }) =>
      index === 0 ? { toolCalls: [{ id: 'a', name: 'refund', input: { order: 'order-7' } }] } : { text: 'Done.' },
    );
    await baton.startWorker({ steps: 2 });
    const { id } = await baton.client.sessions.create({ agent: 'clerk' });
    const { text, run } = await baton.client.ask(id, 'Refund order-7.');
    expect({ text, status: run.status }).toEqual({ text: 'Done.', status: 'completed' });
    const callKey = expect.stringMatching(/^call_/);
    expect(refunded).toEqual([{ order: 'order-7', cents: 100, tenantId: 'default', callKey }]);
    expect(logged).toContainEqual(expect.objectContaining({ event: 'run_ended', status: 'completed' }));
  });

  it('answers the requests of any server, to callers that the program knows', async () => {
    await using started = await startInProcess((model) => ({
      ...answering(model),
      authenticate(request) {
        const name = request.headers.get('x-user');
        return name === null ? null : { tenantId: name, scopes: name === 'reader' ? ['read'] : ['read', 'write'] };
      },
    }));
    const { baton, simulator } = started;
    simulator.script('test', () => ({ text: 'Here.' }));
    await baton.startWorker();
    await using node = await listen(createServer(baton.handler));
    const hono = new Hono().mount('/agent', baton.fetch);
    const as = (user: string | null, through: 'node' | 'hono') =>
      createClient({
        baseUrl: through === 'node' ? node.url : 'http://service.example/agent',
        fetch: async (url, init) => {
          const request = new Request(url, init);
          if (user !== null) request.headers.set('x-user', user);
          return through === 'node' ? fetch(request) : hono.fetch(request);
        },
      });
    const { id } = await as('ann', 'node').sessions.create({ agent: 'clerk' });
    expect((await as('ann', 'hono').ask(id, 'Hello.')).text).toBe('Here.');
    const events: string[] = [];
    for await (const { type } of as('ann', 'hono').events(id, { after: 0 })) {
      events.push(type);
      if (type === 'run:completed') break;
    }
    expect(events).toContain('run:completed');
    await expect(as('ben', 'node').sessions.get(id)).rejects.toMatchObject({ code: 'not_found' });
    await expect(as(null, 'hono').sessions.get(id)).rejects.toMatchObject({ code: 'unauthenticated' });
    await expect(as('reader', 'node').sessions.create({ agent: 'clerk' })).rejects.toMatchObject({ code: 'forbidden' });
    expect((await baton.clientOf('ann').sessions.get(id)).id).toBe(id);
    await expect(baton.client.sessions.get(id)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('refuses what is no request and no options, and says what to pass', async () => {
    await using started = await startInProcess(answering);
    const { fetch, startWorker, sendIn, stop, keys } = started.baton;
    for (const wrong of [undefined, null, 'http://localhost/v1/agents', {}]) {
      await expect(fetch(wrong as never)).rejects.toMatchObject({
        code: 'invalid_request',
        message: expect.stringContaining('expects a Request, as in baton.fetch(new Request('),
      });
    }
    const wrong = null as never;
    for (const call of [() => startWorker(wrong), () => keys.list(wrong), () => stop(wrong)]) {
      await expect(call()).rejects.toMatchObject({ code: 'invalid_request' });
    }
    await expect(sendIn(wrong, 'ses_1', 'Go', wrong)).rejects.toThrow(
      'sendIn: expected options, an object such as {}, and got null',
    );
  });

  it('lets no one in without a key where the program names no callers', async () => {
    await using started = await startInProcess(answering);
    const response = await started.baton.fetch(new Request('http://service.example/v1/sessions'));
    expect(response.status).toBe(401);
    const open = await started.again({ openWithoutKeys: true });
    expect((await open.fetch(new Request('http://localhost/v1/sessions', HOST('localhost')))).status).toBe(200);
    // The host of a request that comes over no connection is that of its URL.
    expect((await open.fetch(new Request('http://localhost/v1/sessions'))).status).toBe(200);
    expect((await open.fetch(new Request('http://evil.example/v1/sessions'))).status).toBe(403);
    // A page of another site that points its name at this machine.
    expect((await open.fetch(new Request('http://evil.example/v1/sessions', HOST('evil.example')))).status).toBe(403);
  });

  it('serves the API on a port of its own until it stops', async () => {
    await using started = await startInProcess((model) => ({ ...answering(model), port: 0 }));
    const closed = await started.baton.listen();
    expect((await fetch(`${closed.url}/v1/sessions`)).status).toBe(401);
    const open = await started.again({ openWithoutKeys: true });
    const { url } = await open.listen();
    const client = createClient({ baseUrl: url, retries: 0 });
    expect((await client.agents()).agents).toMatchObject([{ name: 'clerk' }]);
    await open.stop();
    await expect(client.agents()).rejects.toMatchObject({ code: 'unreachable' });
    const anywhere = { host: '0.0.0.0', port: 0 };
    await expect((await started.again({ ...anywhere, openWithoutKeys: true })).listen()).rejects.toThrow(
      'is not a loopback address',
    );
    await expect((await started.again({ ...anywhere, authenticate: () => null })).listen()).resolves.toBeDefined();
    const pages = { corsOrigins: ['https://app.example'], port: 0 };
    await expect((await started.again({ ...pages, openWithoutKeys: true })).listen()).rejects.toThrow(
      /^BATON_CORS_ORIGINS .* create a key/,
    );
    await expect((await started.again({ ...pages, authenticate: () => null })).listen()).resolves.toBeDefined();
    await expect(started.baton.startWorker({ kinds: ['steps' as 'step'] })).rejects.toThrow(
      'kinds: expected one or more',
    );
  });

  it('hands back the steps that it has no time for when it stops, and another one goes on', async () => {
    await using started = await startInProcess(answering);
    const { baton, simulator } = started;
    const gate = simulator.gate('held');
    simulator.script('test', () => ({ text: 'Late.', gates: { beforeFirstChunk: 'held' } }));
    await baton.startWorker();
    const { id } = await baton.client.sessions.create({ agent: 'clerk' });
    const { runId } = await baton.client.send(id, 'Hello.');
    await simulator.waitForRequest(() => true);
    await baton.stop({ graceMs: 0 });
    const second = await started.again();
    expect((await second.client.runs.get(runId)).status).toBe('queued');
    gate.release();
    await second.startWorker();
    expect((await second.client.runs.result(runId)).text).toBe('Late.');
  });
});

const HOST = (host: string): RequestInit => ({ headers: { host } });

async function listen(server: ReturnType<typeof createServer>): Promise<AsyncDisposable & { url: string }> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

describe('the options of Baton in a program', () => {
  const openai = createOpenAI({ apiKey: 'a' });
  const other = createOpenAI({ apiKey: 'b' });
  const clerk = defineAgent({ name: 'clerk', model: openai('gpt-5.4') });
  const refund = { description: 'Pays back.', execute: () => 'paid' };

  const WRONG: readonly (readonly [what: string, options: unknown, says: string])[] = [
    ['no options', undefined, 'createBaton expects an object of options, as in createBaton({ agents: [defineAgent('],
    ['a list of agents in place of options', [clerk], 'createBaton expects an object of options'],
    ['one agent in place of a list', { agents: clerk }, 'agents: expected a list of agents, as in [defineAgent('],
    ['an agent that is not there', { agents: [clerk, undefined] }, 'agents.1: expected defineAgent({ name, model })'],
    ['no tools', { agents: [{ ...clerk, tools: null }] }, 'agent "clerk": tools: expected an object with the tools'],
    [
      'a tool that is not there',
      { agents: [{ ...clerk, tools: { refund: undefined } }] },
      'agent "clerk": tools.refund: expected a tool, as in { description, inputSchema, execute }',
    ],
    [
      'a tool in a list that is not there',
      { agents: [{ ...clerk, tools: [null] }] },
      'agent "clerk": tools.0: a tool is a name, or one of: module',
    ],
    ['a result by a word', { agents: [{ ...clerk, output: 'text' }] }, 'agent "clerk": output: '],
    ['a provider among the models', { agents: [clerk], models: { 'a/b': openai } }, 'models.a/b: expected a model of'],
    ['a webhook in place of a list', { agents: [clerk], webhooks: {} }, 'webhooks: expected a list of webhooks'],
    ['a logger without functions', { agents: [clerk], log: {} }, 'log: expected a logger of pino'],
    ['callers by a table', { agents: [clerk], authenticate: {} }, 'authenticate: expected a function'],
    ['no agents', {}, 'there are no agents: give `agents`, or `agentsDir` with their files'],
    ['an empty list of agents', { agents: [] }, 'there are no agents: give `agents`'],
    [
      'a tool in a list without a schema',
      { agents: [{ ...clerk, tools: [{ ...refund, name: 'refund' }] }] },
      'agent "clerk": tools.refund.inputSchema: expected a schema of zod 4',
    ],
    [
      'a tool as AI SDK 4 had it',
      { agents: [{ ...clerk, tools: { refund: { ...refund, parameters: z.object({}) } } }] },
      'tools.refund.inputSchema: expected a schema of zod 4 or a JSON Schema of an object; tools of AI SDK 4 call it `parameters`: rename it',
    ],
    ['an agent without a model', { agents: [{ name: 'clerk' }] }, 'agent "clerk": model: expected a name such as'],
    [
      'a provider in place of its model',
      { agents: [{ name: 'clerk', model: openai }] },
      'agent "clerk": model: expected a name such as',
    ],
    [
      'a tool that does nothing',
      { agents: [{ ...clerk, tools: { refund: { description: 'Pays back.', inputSchema: z.object({}) } } }] },
      'agent "clerk": tools.refund.execute: expected a function',
    ],
    [
      'a script as the address of a login',
      { agents: [clerk], console: { loginUrl: 'javascript:alert(1)' } },
      'console.loginUrl: expected a path such as /login',
    ],
    [
      'an unknown way into the console',
      { agents: [clerk], console: { loginURL: '/login' } },
      'console: unknown key "loginURL" (did you mean "loginUrl"?)',
    ],
    ['an unknown setting', { agents: [clerk], stepsConcurrency: 3 }, 'stepsConcurrency'],
    ['a setting of processes', { agents: [clerk], metricsPort: 9 }, 'metricsPort: this is for the processes'],
    ['a wrong setting', { agents: [clerk], stepConcurrency: 0 }, 'stepConcurrency: expected a whole number from 1'],
    ['two agents of one name', { agents: [clerk, clerk] }, 'agent clerk: name: there is another agent named clerk'],
    [
      'two models of one name',
      { agents: [clerk, { name: 'b', model: other('gpt-5.4') }] },
      "agent b: there are two models named openai/gpt-5.4: give one of them another name, as in `models: { 'second/gpt-5.4': … }`",
    ],
    [
      'a result by a schema without a JSON Schema',
      {
        agents: [
          { ...clerk, output: { '~standard': { version: 1, vendor: 'older', validate: () => ({ value: 1 }) } } },
        ],
      },
      'agent "clerk": output: schemas of older have no JSON Schema: give { schema } with one',
    ],
    [
      'a result that is no object',
      { agents: [{ ...clerk, output: z.string() }] },
      'agent "clerk": output: expected the schema of an object',
    ],
    ['an unknown key', { agents: [{ ...clerk, instruction: '' }] }, 'agent "clerk": '],
    [
      'an unknown summarizer',
      { agents: [{ ...clerk, context: { compaction: { model: 'agent:x' } } }] },
      'agent clerk: context.compaction.model: no agent is named x',
    ],
    [
      'a schema of another library',
      { agents: [{ ...clerk, tools: { refund: { ...refund, inputSchema: {} } } }] },
      'tools.refund.inputSchema: expected a schema of zod 4',
    ],
  ];

  it.each(WRONG)('%s is refused by name', async (_what, options, says) => {
    await expect(createBaton(options as BatonOptions)).rejects.toMatchObject({
      ...{ name: 'BatonError', code: 'config_invalid', message: expect.stringContaining(says) },
    });
  });

  it.each([
    ['openai', () => createOpenAI({ apiKey: 'a' })],
    ['openai chat', () => createOpenAI({ apiKey: 'a' }).chat],
    ['anthropic', () => createAnthropic({ apiKey: 'a' })],
    ['openai-compatible', () => createOpenAICompatible({ name: 'mine', baseURL: 'http://127.0.0.1:9', apiKey: 'a' })],
  ])('models of one factory of %s are one model, and those of another are not', (_what, makeFactory) => {
    const [factory, second] = [makeFactory(), makeFactory()];
    const agentsOf = (other: typeof factory) => [
      { name: 'a', model: factory('gpt-5.4') },
      { name: 'b', model: other('gpt-5.4') },
    ];
    expect(readDefinitions(agentsOf(factory), {}).models.size).toBe(1);
    expect(() => readDefinitions(agentsOf(second), {})).toThrow('two models named');
  });

  it.each([
    [undefined, 'defineTool expects an object, as in defineTool({ name'],
    [{ ...refund, name: 'refund' }, 'tool refund: inputSchema: expected'],
    [{ ...refund, name: 'refund', inputSchema: z.object({}), execute: undefined }, 'tool refund: execute: expected a'],
  ])('a tool that lacks a part is refused by name: %j', (definition, says) => {
    expect(() => defineTool(definition as never)).toThrow(says);
  });

  it('the tools of a workspace need its folder', async () => {
    const starting = startInProcess((model) => ({ agents: [{ name: 'a', model, tools: ['workspace'] }] }));
    await expect(starting).rejects.toThrow('tools.0: the tools of a workspace need its folder: set workspaceDir');
  });

  it('a result may be given as a schema of zod', () => {
    const output = z.object({ files: z.array(z.string()), note: z.string().default('') });
    const { agents } = readDefinitions([{ ...clerk, output }], {});
    expect(agents[0]?.output).toEqual({
      schema: {
        type: 'object',
        properties: { files: { type: 'array', items: { type: 'string' } }, note: { default: '', type: 'string' } },
        required: ['files'],
      },
    });
  });

  it('two models of one name are told apart by names that the program gives them', async () => {
    const models = { 'first/gpt': openai('gpt-5.4'), 'second/gpt': other('gpt-5.4') };
    await using started = await startInProcess(() => ({
      models,
      agents: [
        { name: 'a', model: models['first/gpt'] },
        { name: 'b', model: 'second/gpt' },
      ],
    }));
    const agents = await started.baton.client.agents();
    expect(agents).toMatchObject({ agents: [{ model: 'first/gpt' }, { model: 'second/gpt' }] });
  });
});
