import { lastAssistantMessageIsCompleteWithApprovalResponses } from 'ai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defineTool } from '../../src/tools/define-tool.ts';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { eventually } from '../support/eventually.ts';
import { PNG_BASE64 } from '../support/png.ts';
import { type ChatService, type PlainChat, settled, startChatService, textOf } from './ui-chat-fixture.ts';

const { tools, ran } = createWaitingTools();
const file = { type: 'file', mediaType: 'image/png', data: { type: 'data', data: PNG_BASE64 } } as const;
const picture = defineTool({
  name: 'picture',
  description: 'Takes a picture.',
  inputSchema: { type: 'object' },
  execute: async () => 'taken',
  toModelOutput: () => ({ type: 'content', value: [{ type: 'text', text: 'Here it is:' }, file] }),
});

let started: ChatService;
beforeAll(async () => {
  const agents = [
    'parked-followup',
    'parked-steer',
    'stale',
    'refused',
    'digits',
    'again',
    'pictures',
    'switched',
    'other',
  ];
  const defined = agents.map((name) => ({ name, tools: ['test'] }));
  started = await startChatService(defined, [...tools, picture]);
});
afterAll(() => started[Symbol.asyncDispose]());

type Replies = Parameters<ChatService['service']['simulator']['script']>[1];
const script = (agent: string, replies: Replies) => started.service.simulator.script(agent, replies);
/** A chat with the same name as its agent. */
const chatOf = (agent: string, more: Parameters<ChatService['chat']>[1] = {}) =>
  started.chat(agent, { body: { agent }, ...more });

const post = (body: object) =>
  fetch(`${started.url}/api/chat`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

const toolParts = (chat: PlainChat): Record<string, unknown>[] =>
  (chat.lastMessage?.parts ?? []).filter(({ type }) => type.startsWith('tool-')).map((part) => ({ ...part }));

async function shownParts(id: string): Promise<Record<string, unknown>[]> {
  const response = await fetch(`${started.url}/api/chat/${id}/messages`);
  const { messages } = (await response.json()) as { messages: { parts: Record<string, unknown>[] }[] };
  return messages.flatMap(({ parts }) => parts);
}

/** The calls of the agent's session, with the required action and the answer of each. */
const callsOf = (agent: string) =>
  started.service.deps.db
    .selectFrom('parts')
    .innerJoin('sessions', 'sessions.id', 'parts.session_id')
    .select(['parts.message_id', 'parts.state', 'parts.required_action', 'parts.answer'])
    .where('agent_name', '=', agent)
    .where('parts.type', '=', 'tool')
    .execute();

test('an approval that is sent again says nothing about whether the call is run once more', async () => {
  script('stale', [{ toolCalls: [{ name: 'deploy', input: {} }] }, { text: 'Done.' }]);
  const chat = chatOf('stale');
  await chat.sendMessage({ text: 'Go' });
  const callId = String(toolParts(chat)[0]?.['toolCallId']);
  // The state after a worker has died while it ran the approved call.
  const [call] = await callsOf('stale');
  const { db } = started.service.deps;
  await db
    .updateTable('parts')
    .set({ state: 'unknown', required_action: 'unknown_outcome' })
    .where('message_id', '=', call?.message_id ?? '')
    .where('type', '=', 'tool')
    .execute();
  const approved = { state: 'approval-responded', approval: { id: callId, approved: true } };
  const history = { role: 'assistant', parts: [{ ...toolParts(chat)[0], ...approved }] };
  const news = { id: 'again', role: 'user', parts: [{ type: 'text', text: 'And?' }] };
  const response = await post({ id: 'stale', messages: [history, news] });
  expect(response.status).toBe(200);
  await response.body?.cancel();
  expect(await callsOf('stale')).toMatchObject([{ required_action: 'unknown_outcome', answer: null }]);
  expect(ran).toEqual([]);
  const [asked] = (await shownParts('stale')).filter(({ type }) => type === 'tool-deploy');
  const { id } = Object(asked?.['approval']);
  expect(asked).toMatchObject({ state: 'approval-requested', approval: { id: expect.stringContaining(`${callId}.`) } });
  const decided = { ...asked, state: 'approval-responded', approval: { id, approved: false } };
  const answered = await post({ id: 'stale', messages: [{ role: 'assistant', parts: [decided] }] });
  expect(await answered.text()).toContain('"type":"tool-output-error"');
  expect(await callsOf('stale')).toMatchObject([{ state: 'error', answer: { given: { kind: 'deny' } } }]);
});

test.each(['followup', 'steer'] as const)(
  'a %s that was left waiting is taken up when it is sent again',
  async (delivery) => {
    const id = `parked-${delivery}`;
    script(id, [
      // No request has received all of this reply, so the simulator gives it to the next request from its start.
      { text: 'Answer.', chunkChars: 3, gates: { afterChunks: { count: 1, gate: id } } },
    ]);
    const say = (text: string) =>
      post({ id, agent: id, delivery, messages: [{ id: text, role: 'user', parts: [{ type: 'text', text }] }] });
    const first = await say('One');
    await started.service.simulator.gate(id).reached;
    const waiting = await say('Two');
    const stopped = await fetch(`${started.url}/api/chat/${id}/stop`, { method: 'POST' });
    expect(stopped.ok).toBe(true);
    await first.text();
    started.service.simulator.gate(id).release();
    await waiting.body?.cancel();
    const again = await say('Two');
    expect(await again.text()).toContain('"finishReason":"stop"');
    expect((await shownParts(id)).filter(({ type }) => type === 'text').map(({ text }) => text)).toEqual([
      'One',
      expect.stringMatching(/^Ans/),
      'Two',
      'Answer.',
    ]);
  },
);

test('an output keeps its digits and the order of its keys', async () => {
  script('digits', [{ toolCalls: [{ name: 'browser', input: {} }] }, { text: 'Seen.' }]);
  const chat = chatOf('digits');
  await chat.sendMessage({ text: 'Look' });
  const json = '{"z":12345678901234567890,"7":1.10,"a":[1e3]}';
  const parts = toolParts(chat).map((part) => ({ ...part, state: 'output-available', output: 'OUTPUT' }));
  const body = JSON.stringify({ id: 'digits', messages: [{ role: 'assistant', parts }] });
  const response = await fetch(`${started.url}/api/chat`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: body.replace('"OUTPUT"', json),
  });
  expect(await response.text()).toContain('Seen.');
  const [call] = await callsOf('digits');
  expect(JSON.stringify(call?.answer)).toContain(`"output":${json}`);
});

test('answers of a request that is refused are not taken', async () => {
  script('refused', [
    {
      toolCalls: [
        { name: 'browser', input: {} },
        { name: 'browser', input: {} },
      ],
    },
    { text: 'Seen.' },
  ]);
  const chat = chatOf('refused');
  await chat.sendMessage({ text: 'Look' });
  const parts = toolParts(chat).map((part, n) => ({ ...part, state: 'output-available', output: `page ${n}` }));
  const answers = { role: 'assistant', parts };
  const news = { id: 'news', role: 'user', parts: [{ type: 'text', text: 'And?' }] };
  const image = { type: 'file', mediaType: 'image/png', url: '@blob:blob_0199c0ffee007000800000000000000a' };
  const fields = { id: 'refused', messages: [answers, news] };
  expect(await post({ ...fields, delivery: 'reject' })).toMatchObject({ status: 409 });
  expect(await post({ ...fields, messages: [answers, { ...news, parts: [image] }] })).toMatchObject({ status: 400 });
  let deep: unknown = 'x';
  for (let depth = 0; depth < 200; depth++) deep = [deep];
  const wrong = { role: 'assistant', parts: parts.map((part, n) => (n === 1 ? { ...part, output: deep } : part)) };
  expect(await post({ id: 'refused', messages: [wrong] })).toMatchObject({ status: 400 });
  expect(await callsOf('refused')).toMatchObject([{ answer: null }, { answer: null }]);
  const response = await post(fields);
  expect(await response.text()).toContain('[DONE]');
  expect(await callsOf('refused')).toMatchObject([{ state: 'completed' }, { state: 'completed' }]);
});

test('regenerating while the question is being answered shows that answer', async () => {
  script('again', [{ text: 'One.', gates: { beforeEnd: 'again' } }, { text: 'Never said.' }]);
  const chat = chatOf('again');
  const sending = chat.sendMessage({ text: 'Hello' });
  await started.service.simulator.gate('again').reached;
  const page = chatOf('again', { messages: [...chat.messages] });
  const again = page.regenerate();
  await eventually(async () => textOf(page.lastMessage) === 'One.', 'the answer is shown');
  started.service.simulator.gate('again').release();
  await Promise.all([sending, again]);
  expect(page.lastMessage?.id).toBe(chat.lastMessage?.id);
  expect((await shownParts('again')).filter(({ type }) => type === 'text')).toMatchObject([
    { text: 'Hello' },
    { text: 'One.' },
  ]);
});

test('files that tools have given are told by URLs that the page can load', async () => {
  script('pictures', [{ toolCalls: [{ name: 'picture', input: {} }] }, { text: 'Nice.' }]);
  const chat = chatOf('pictures', { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
  await chat.sendMessage({ text: 'Take one' });
  await settled(chat);
  const shown = { type: 'file', mediaType: 'image/png', url: expect.stringMatching(/^\/v1\/blobs\/blob_/) };
  const [streamed] = toolParts(chat);
  expect(streamed?.['output']).toMatchObject([{ type: 'text', text: 'Here it is:' }, shown]);
  const [read] = (await shownParts('pictures')).filter(({ type }) => type === 'tool-picture');
  expect(read?.['output']).toEqual(streamed?.['output']);
  const { url } = Object((streamed?.['output'] as unknown[] | undefined)?.[1]);
  expect(await fetch(new URL(String(url), started.url))).toMatchObject({ status: 200 });
});

test('a page that goes on naming its first agent is answered by the one that took over', async () => {
  script('switched', [{ text: 'I am the first.' }]);
  script('other', [{ text: 'I am the other.' }]);
  const chat = chatOf('switched');
  await chat.sendMessage({ text: 'Who?' });
  const { sessionId } = Object(chat.lastMessage?.metadata);
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({ agent: 'other' });
  const path = `${started.url}/v1/sessions/${sessionId}/agent`;
  expect(await fetch(path, { method: 'POST', headers, body })).toMatchObject({ status: 200 });
  await chat.sendMessage({ text: 'And now?' });
  expect(chat.error).toBeUndefined();
  expect(textOf(chat.lastMessage)).toBe('I am the other.');
});
