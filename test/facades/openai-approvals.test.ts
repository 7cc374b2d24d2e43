import { existsSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { eventually } from '../support/eventually.ts';
import { type ChatService, startChatService } from './ui-chat-fixture.ts';

const { tools } = createWaitingTools();
const AGENTS = Array.from({ length: 8 }, (_, n) => `agent-${n}`);
const DEPLOYS = [{ toolCalls: [{ name: 'deploy', input: { to: 'prod' } }] }, { text: 'It is out.' }];
const messages = [{ role: 'user' as const, content: 'Go' }];

let started: ChatService;
let client: OpenAI;
let taken = 0;

beforeAll(async () => {
  started = await startChatService(
    AGENTS.map((name) => ({ name, tools: ['test'] })),
    tools,
  );
  client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none' });
});
afterAll(() => started[Symbol.asyncDispose]());

/** An agent whose model says this. */
function nextModel(replies: Parameters<ChatService['service']['simulator']['script']>[1] = DEPLOYS): string {
  const model = `agent-${taken++}`;
  started.service.simulator.script(model, replies);
  return model;
}

type Inbox = Readonly<{ calls: readonly Readonly<{ id: string; runId: string; toolName: string; agent: string }>[] }>;

/** Approves the call that waits in the agent's session. */
async function approve(model: string): Promise<void> {
  const inbox = async () => (await (await fetch(`${started.url}/v1/inbox`)).json()) as Inbox;
  const find = async () =>
    (await inbox()).calls.find(({ agent, toolName }) => agent === model && toolName === 'deploy');
  const call = await eventually(async () => (await find()) ?? null, 'the call waits');
  const answered = await fetch(`${started.url}/v1/runs/${call.runId}/tool-calls/${call.id}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ decision: 'approve' }),
  });
  expect(answered.status).toBe(200);
}

const WAITS = {
  status: 'requires_action',
  message: expect.stringMatching(/^The run waits for a person to answer its calls: deploy \(call_\w+\)\. /),
  calls: [{ id: expect.stringMatching(/^call_/), kind: 'approval', name: 'deploy', arguments: '{"to":"prod"}' }],
};
const CONFLICT = { status: 409, code: 'requires_action', message: expect.stringContaining('deploy (call_') };

describe('a completion whose run waits for a person', () => {
  test('says so once in its stream, and goes on after the answer', async () => {
    const model = nextModel();
    const told: unknown[] = [];
    let text = '';
    for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? '';
      if (!('baton' in chunk)) continue;
      told.push(chunk.baton);
      await approve(model);
    }
    expect(text).toBe('It is out.');
    expect(told).toEqual([WAITS]);
  });

  test('passes through the helper of the openai package that puts a stream together', async () => {
    const model = nextModel();
    const stream = client.chat.completions.stream({ model, messages });
    await approve(model);
    expect(await stream.finalContent()).toBe('It is out.');
  });

  // npm ci --prefix test/facades/langchain
  const langchain = path.join(import.meta.dirname, 'langchain/node_modules/@langchain/openai/dist/index.js');
  test.skipIf(!existsSync(langchain))('passes through LangChain', async () => {
    const { ChatOpenAI } = await import(pathToFileURL(langchain).href);
    const model = nextModel();
    const chat = new ChatOpenAI({ model, apiKey: 'none', configuration: { baseURL: `${started.url}/v1` } });
    const streaming = (async () => {
      let text = '';
      for await (const chunk of await chat.stream('Go')) text += chunk.content;
      return text;
    })();
    await approve(model);
    expect(await streaming).toBe('It is out.');
  });

  test('fails at once where it is no stream, and the same request reads the answer afterwards', async () => {
    const model = nextModel();
    const ask = () =>
      client.chat.completions.create({ model, messages }, { headers: { 'idempotency-key': 'deploy-once' } });
    await expect(ask()).rejects.toMatchObject(CONFLICT);
    await expect(ask()).rejects.toMatchObject(CONFLICT);
    await approve(model);
    const { choices } = await ask();
    expect(choices[0]?.message.content).toBe('It is out.');
    const asked = started.service.simulator.requests.filter(({ request }) => request?.model === model);
    expect(asked).toHaveLength(2);
  });

  test('says so when the client has given its own results, and the person has not answered yet', async () => {
    const calls = [
      { name: 'browser', input: { url: 'x' } },
      { name: 'deploy', input: { to: 'prod' } },
    ];
    const model = nextModel([{ toolCalls: calls }, { text: 'Both are done.' }]);
    const first = await client.chat.completions.create({ model, messages });
    const [call] = first.choices[0]?.message.tool_calls ?? [];
    const result = { role: 'tool' as const, tool_call_id: call?.id ?? '', content: 'A page' };
    const rest = [...messages, first.choices[0]?.message, result].filter((message) => message !== undefined);
    const told: unknown[] = [];
    let text = '';
    for await (const chunk of await client.chat.completions.create({ model, messages: rest, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? '';
      if (!('baton' in chunk)) continue;
      told.push(chunk.baton);
      await approve(model);
    }
    expect([text, told]).toEqual(['Both are done.', [WAITS]]);
  });
});

test('a response whose run waits for a person fails at once where it is no stream, and is read as in progress', async () => {
  const model = nextModel();
  const failed = client.responses.create({ model, input: 'Go' });
  await expect(failed).rejects.toMatchObject(CONFLICT);
  const message = await failed.catch(String);
  const id = /GET \/v1\/responses\/(resp_\w+)/.exec(String(message))?.[1] ?? '';
  expect(await client.responses.retrieve(id)).toMatchObject({ id, status: 'in_progress' });
  const streaming = (async () => {
    for await (const event of await client.responses.retrieve(id, { stream: true })) {
      if (event.type === 'response.completed') return event.response.output_text;
    }
    return null;
  })();
  await approve(model);
  expect(await streaming).toBe('It is out.');
});
