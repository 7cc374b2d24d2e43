import type { UIMessage } from 'ai';
import { lastAssistantMessageIsCompleteWithToolCalls } from 'ai';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { eventually } from '../support/eventually.ts';
import { PNG, PNG_BASE64 } from '../support/png.ts';
import { type ChatService, settled, startChatService, textOf } from './ui-chat-fixture.ts';

const DATA_URL = `data:image/png;base64,${PNG_BASE64}`;
const LOOKED = { type: 'text', text: 'The page:' };
const PICTURE = { type: 'file', mediaType: 'image/png', data: { type: 'data', data: PNG_BASE64 } };
const CONTENT = { type: 'content', value: [LOOKED, PICTURE] };
const STORED = {
  type: 'content',
  value: [
    LOOKED,
    {
      type: 'file',
      mediaType: 'image/png',
      url: expect.stringMatching(/^@blob:blob_[0-9a-f]{32}$/),
      sizeBytes: PNG.length,
    },
  ],
};

const AGENTS = Array.from({ length: 20 }, (_, n) => ({ name: `agent-${n}`, tools: ['test'] }));
let started: ChatService;
let taken = 0;

type Replies = Parameters<ChatService['service']['simulator']['script']>[1];
function nextAgent(replies: Replies): string {
  const agent = `agent-${taken++}`;
  started.service.simulator.script(agent, replies);
  return agent;
}
const looks: Replies = [{ toolCalls: [{ name: 'browser', input: {} }] }, { text: 'I see it.' }];

async function call(method: string, path: string, body?: unknown) {
  const response = await fetch(`${started.url}${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: (text === '' ? {} : JSON.parse(text)) as Record<string, unknown> };
}

/** A run that waits for the output of its client. */
async function waitingRun(agent = nextAgent(looks)) {
  const { body: session } = await call('POST', '/v1/sessions', { agent });
  const { body: sent } = await call('POST', `/v1/sessions/${session['id']}/messages`, { content: 'Look' });
  const runId = String(sent['runId']);
  const { body: run } = await call('GET', `/v1/runs/${runId}/wait?timeoutMs=60000`);
  const [action] = run['requiredActions'] as { id: string }[];
  return {
    agent,
    sessionId: String(session['id']),
    runId,
    answer: (output: unknown, more = {}) =>
      call('POST', `/v1/runs/${runId}/tool-calls/${action?.id}`, { output, ...more }),
    ended: async () => (await call('GET', `/v1/runs/${runId}/wait?timeoutMs=60000`)).body['status'],
  };
}

const sessionOf = async (agent: string): Promise<string> => {
  const sessions = started.service.deps.db.selectFrom('sessions').select('id').where('agent_name', '=', agent);
  return (await sessions.executeTakeFirstOrThrow()).id;
};

/** The stored calls of an agent's only session: their outputs, and the answers of the client. */
async function storedCalls(agent: string) {
  const { db } = started.service.deps;
  const sessionId = await sessionOf(agent);
  const parts = (await listMessages(db, 'default', sessionId, { afterSeq: 0, limit: 100 })).flatMap(
    (message) => message.parts,
  );
  const rows = await db.selectFrom('parts').select('answer').where('session_id', '=', sessionId).execute();
  return {
    outputs: parts.flatMap((part) => (part.type === 'tool' ? [part.output] : [])),
    answers: rows.flatMap(({ answer }) => (answer === null ? [] : [answer])),
  };
}

/** Expects that no table except that of blobs holds the bytes as base64. */
async function expectNoBase64(): Promise<void> {
  const { db } = started.service.deps;
  const tables = await sql<{ name: string }>`
    select tablename as name from pg_tables where schemaname = 'public' and tablename <> 'blobs'`.execute(db);
  for (const { name } of tables.rows) {
    const { rows } = await sql<{ found: boolean }>`
      select exists (select 1 from ${sql.table(name)} t where t::text like ${`%${PNG_BASE64.slice(0, 40)}%`}) as found
    `.execute(db);
    expect(rows[0]?.found, name).toBe(false);
  }
}

const lastRequest = (agent: string): string =>
  started.service.simulator.requests.findLast(({ rawBody }) => rawBody?.includes(`"${agent}"`))?.rawBody ?? '';

beforeAll(async () => {
  started = await startChatService(AGENTS, createWaitingTools().tools);
});
afterAll(() => started[Symbol.asyncDispose]());

describe('the output of a call that its client ran, with a file in it', () => {
  test.each([
    ['in the words of the AI SDK', PICTURE],
    ['in the words of its earlier versions', { type: 'media', mediaType: 'image/png', data: PNG_BASE64 }],
    ['as a part of a message', { type: 'image', url: DATA_URL }],
    ['as base64', { type: 'file', data: PNG_BASE64 }],
  ])('is a blob before it is stored, and itself for the model: %s', async (_how, file) => {
    const waiting = await waitingRun();
    const output = { type: 'content', value: [LOOKED, file] };
    expect(await waiting.answer(output)).toMatchObject({ status: 200, body: { open: 0 } });
    expect(await waiting.answer(output)).toMatchObject({ status: 200, body: { open: 0 } });
    expect(await waiting.ended()).toBe('completed');
    expect(lastRequest(waiting.agent)).toContain(PNG_BASE64);
    expect(lastRequest(waiting.agent)).not.toContain('@blob:');
    const { outputs, answers } = await storedCalls(waiting.agent);
    expect(outputs).toEqual([STORED]);
    expect(answers).toEqual([{ given: { kind: 'content', content: STORED.value }, open: 0 }]);
    await expectNoBase64();
  });

  test('may name a file that was uploaded before', async () => {
    const uploaded = await fetch(`${started.url}/v1/blobs`, { method: 'POST', body: PNG });
    const { id: blobId } = (await uploaded.json()) as { id: string };
    for (const file of [
      { type: 'file', blobId },
      { type: 'file', url: `/v1/blobs/${blobId}` },
    ]) {
      const waiting = await waitingRun();
      expect((await waiting.answer({ type: 'content', value: [LOOKED, file] })).status).toBe(200);
      expect(await waiting.ended()).toBe('completed');
      expect((await storedCalls(waiting.agent)).outputs).toEqual([STORED]);
      expect(lastRequest(waiting.agent)).toContain(PNG_BASE64);
    }
  });

  test('may be larger than a body without files', async () => {
    const waiting = await waitingRun();
    const large = Buffer.concat([PNG, Buffer.alloc(2_000_000)]);
    const file = { type: 'file', mediaType: 'image/png', data: large.toString('base64') };
    expect((await waiting.answer({ type: 'content', value: [file] })).status).toBe(200);
    const [given] = (await storedCalls(waiting.agent)).answers;
    expect(given).toMatchObject({ given: { content: [{ sizeBytes: large.length }] } });
  });

  test('shows how a call failed', async () => {
    const waiting = await waitingRun();
    expect((await waiting.answer(CONTENT, { isError: true })).status).toBe(200);
    expect(await waiting.ended()).toBe('completed');
    expect(lastRequest(waiting.agent)).toContain(PNG_BASE64);
    const { outputs } = await storedCalls(waiting.agent);
    expect(outputs).toEqual([{ ...STORED, value: [{ type: 'text', text: 'The call failed:' }, ...STORED.value] }]);
    const { body } = await call('GET', `/api/chat/${waiting.sessionId}/messages`);
    const [, shown] = body['messages'] as UIMessage[];
    expect(shown?.parts.find(({ type }) => type === 'tool-browser')).toMatchObject({
      state: 'output-error',
      errorText: expect.stringMatching(/^The call failed:\nThe page:\n\[image\/png/),
    });
  });

  test('is kept by a cancel', async () => {
    const twice: Replies = [
      {
        toolCalls: [
          { name: 'browser', input: {} },
          { name: 'browser', input: {} },
        ],
      },
    ];
    const waiting = await waitingRun(nextAgent(twice));
    expect(await waiting.answer(CONTENT)).toMatchObject({ status: 200, body: { open: 1 } });
    expect((await call('POST', `/v1/runs/${waiting.runId}/cancel`)).status).toBe(200);
    expect((await storedCalls(waiting.agent)).outputs[0]).toEqual(STORED);
    await expectNoBase64();
  });

  test('is refused where it has a file that is none, and nothing of it is stored', async () => {
    const waiting = await waitingRun();
    const { db } = started.service.deps;
    const blobs = () => db.selectFrom('blobs').select('id').execute();
    const before = await blobs();
    const other = Buffer.concat([PNG, Buffer.from('other')]).toString('base64');
    const unknown = 'blob_0199c0ffee007000800000000000000a';
    for (const [file, why] of [
      [{ type: 'file', mediaType: 'image/png', data: 'AAEC' }, 'output.value.2: is not image/png, whatever it says'],
      [{ type: 'file', blobId: unknown }, 'output.value.2: there is no such blob'],
      [{ type: 'file', mediaType: 'image/png', url: 'file:///etc/passwd' }, 'output.value.2.url: must be a data URL'],
      [{ type: 'sound', data: PNG_BASE64 }, 'output.value.2.type: '],
    ] as const) {
      const value = [LOOKED, { type: 'file', mediaType: 'image/png', data: other }, file];
      const refused = await waiting.answer({ type: 'content', value });
      expect(refused).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
      expect(refused.body['detail']).toContain(why);
    }
    expect((await waiting.answer({ type: 'content', value: [] })).status).toBe(400);
    expect((await waiting.answer({ type: 'content', value: Array(33).fill(PICTURE) })).status).toBe(400);
    expect(await blobs()).toEqual(before);
    expect((await storedCalls(waiting.agent)).answers).toEqual([]);
    expect((await waiting.answer({ type: 'content', value: 'nothing of that kind' })).status).toBe(200);
    expect(await waiting.ended()).toBe('completed');
    const json = { type: 'json', value: { type: 'content', value: 'nothing of that kind' } };
    expect((await storedCalls(waiting.agent)).outputs).toEqual([json]);
  });
});

test('a page gives a file as the output of its tool', async () => {
  const agent = nextAgent(looks);
  const chat = started.chat(`files-${agent}`, {
    body: { agent },
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    onToolCall({ toolCall: { toolName, toolCallId } }) {
      if (toolName === 'browser') void chat.addToolOutput({ tool: toolName, toolCallId, output: CONTENT });
    },
  });
  await chat.sendMessage({ text: 'Look' });
  await eventually(async () => textOf(chat.lastMessage) === 'I see it.', 'the run goes on');
  await settled(chat);
  expect(chat.error).toBeUndefined();
  expect(lastRequest(agent)).toContain(PNG_BASE64);
  expect((await storedCalls(agent)).outputs).toEqual([STORED]);
  await expectNoBase64();
  const { body } = await call('GET', `/api/chat/files-${agent}/messages`);
  expect(JSON.stringify(body)).toContain('"url":"/v1/blobs/blob_');
});

describe('a client of OpenAI’s API gives a file as the result of its tool', () => {
  const user = { role: 'user', content: 'Look' };
  const camera = { type: 'function', function: { name: 'camera', description: 'Looks.' } };
  const content = [LOOKED, { type: 'image_url', image_url: { url: DATA_URL } }];
  const ask = (model: string, messages: unknown[]) =>
    call('POST', '/v1/chat/completions', { model, messages, tools: [camera] });
  const messageIn = ({ body }: Awaited<ReturnType<typeof ask>>) =>
    (body['choices'] as { message: { content: string; tool_calls?: { id: string }[] } }[])[0]?.message;

  test('to the run that waits for it, also when it says so again', async () => {
    const model = nextAgent([{ toolCalls: [{ name: 'camera', input: {} }] }, { text: 'I see it.' }, { text: 'Bye.' }]);
    const asked = messageIn(await ask(model, [user]));
    const result = { role: 'tool', tool_call_id: asked?.tool_calls?.[0]?.id, content };
    const told = messageIn(await ask(model, [user, asked, result]));
    expect(told?.content).toBe('I see it.');
    expect(lastRequest(model)).toContain(PNG_BASE64);
    expect(messageIn(await ask(model, [user, asked, result]))?.content).toBe('I see it.');
    const other = { ...result, content: [{ ...LOOKED, text: 'Another:' }, content[1]] };
    expect((await ask(model, [user, asked, other])).status).toBe(409);
    const bye = messageIn(await ask(model, [user, asked, result, told, user]));
    expect(bye?.content).toBe('Bye.');
    expect((await storedCalls(model)).outputs).toEqual([STORED]);
    await expectNoBase64();
  });

  test('in a conversation that no session knows', async () => {
    const model = nextAgent([{ text: 'I saw it.' }]);
    const id = 'call_elsewhere';
    const called = {
      role: 'assistant',
      tool_calls: [{ id, type: 'function', function: { name: 'camera', arguments: '{}' } }],
    };
    const result = { role: 'tool', tool_call_id: id, content };
    expect(messageIn(await ask(model, [user, called, result, user]))?.content).toBe('I saw it.');
    expect(lastRequest(model)).toContain(PNG_BASE64);
    expect((await storedCalls(model)).outputs).toEqual([STORED]);
    await expectNoBase64();
  });
});
