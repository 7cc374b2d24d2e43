import type { UIMessage } from 'ai';
import { lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from 'ai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MAX_INLINE_CONTENT_BYTES } from '../../src/domain/tunables.ts';
import { readLiveSnapshot } from '../../src/store/lists/live-snapshot.ts';
import { findSessionByKey } from '../../src/store/session/sessions.ts';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { eventually } from '../support/eventually.ts';
import { type ChatService, SDK_7, settled, startChatService, textOf, typesOf } from './ui-chat-fixture.ts';

const { tools, ran } = createWaitingTools();
let started: ChatService;
let names = 0;

/** Each test has its own chat and its own agent, so that no other chat takes the answers of its model. */
const newId = (): string => `chat-${++names}`;
const agentOf = (n: number): string => `agent-${n}`;
const AGENTS = Array.from({ length: 20 }, (_, n) => ({ name: agentOf(n), tools: ['test'] }));
let taken = 0;

function nextAgent() {
  const agent = agentOf(taken++);
  const { simulator } = started.service;
  return { agent, script: (replies: Parameters<typeof simulator.script>[1]) => simulator.script(agent, replies) };
}

const partOf = (message: UIMessage | undefined, type: string): Record<string, unknown> =>
  Object(message?.parts.find((part) => part.type === type));

const messagesOf = async (id: string): Promise<UIMessage[]> => {
  const response = await fetch(`${started.url}/api/chat/${id}/messages`, { headers: SDK_7 });
  const { messages } = (await response.json()) as { messages: UIMessage[] };
  return messages;
};

async function hasStoredText(id: string): Promise<boolean> {
  const { db } = started.service.deps;
  const session = await findSessionByKey(db, 'default', `ui:${id}`);
  const snapshot = await readLiveSnapshot(db, 'default', session?.id ?? '');
  return (snapshot.inFlight?.chunks ?? []).length > 0;
}

describe('useChat', () => {
  beforeAll(async () => {
    started = await startChatService([...AGENTS, { name: 'host', default: true }], tools);
  });
  afterAll(() => started[Symbol.asyncDispose]());

  test('talks to the default agent where it names none', async () => {
    started.service.simulator.script('host', [{ text: 'Welcome.' }]);
    const chat = started.chat(newId());
    await chat.sendMessage({ text: 'Hello?' });
    expect(textOf(chat.lastMessage)).toBe('Welcome.');
  });

  test('streams answers of a session that goes on, with reasoning, tools, and how full the context is', async () => {
    const { agent, script } = nextAgent();
    script([
      { reasoning: 'Hm.', text: 'Let me look.', toolCalls: [{ name: 'look', input: { at: 'it' } }] },
      { text: 'It is there.' },
      { text: 'Still there.' },
    ]);
    const id = newId();
    const chat = started.chat(id, { body: { agent } });
    await chat.sendMessage({ text: 'Where is it?' });
    expect(chat.error).toBeUndefined();
    expect(typesOf(chat.lastMessage)).toEqual(['step-start', 'reasoning', 'text', 'tool-look', 'step-start', 'text']);
    expect(partOf(chat.lastMessage, 'tool-look')).toMatchObject({ state: 'output-available', output: 'look did it' });
    expect(textOf(chat.lastMessage)).toBe('Let me look.|It is there.');
    expect(chat.lastMessage?.metadata).toMatchObject({
      sessionId: expect.stringMatching(/^ses_/),
      runId: chat.lastMessage?.id,
      usage: { inputTokens: expect.any(Number) },
      context: { used: expect.any(Number), usable: expect.any(Number) },
      queue: { waiting: 0 },
      status: 'completed',
    });
    await chat.sendMessage({ text: 'And now?' });
    expect(chat.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
    expect(textOf(chat.lastMessage)).toBe('Still there.');
    expect(
      await started.service.deps.db.selectFrom('sessions').select('id').where('agent_name', '=', agent).execute(),
    ).toHaveLength(1);
    const known = await messagesOf(id);
    expect(known.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
    expect(known.map(textOf)).toEqual(chat.messages.map(textOf));
    expect(known.map(typesOf)).toEqual(chat.messages.map(typesOf));
    expect(known[1]?.id).toBe(chat.messages[1]?.id);
  });

  test('survives a reload in mid-answer: no character is lost or doubled; a client that goes away cancels nothing', async () => {
    const { agent, script } = nextAgent();
    const text = Array.from({ length: 60 }, (_, n) => `word${n} `).join('');
    script([
      { toolCalls: [{ name: 'look', input: {} }], text: 'First.' },
      { text, chunkChars: 7, gates: { afterChunks: { count: 30, gate: agent } } },
    ]);
    const id = newId();
    const first = started.chat(id, { body: { agent } });
    const sending = first.sendMessage({ text: 'Tell me.' });
    await started.service.simulator.gate(agent).reached;
    await eventually(async () => textOf(first.lastMessage).includes('word20'), 'the text is shown');
    await first.stop();
    await sending;
    // A reader gets the text in two ways: stored text when it joins, and live pieces afterwards.
    await eventually(() => hasStoredText(id), 'the text so far is stored');
    const second = started.chat(id, { messages: await messagesOf(id) });
    const resuming = second.resumeStream();
    await eventually(async () => textOf(second.lastMessage).includes('word20'), 'the text so far is shown again');
    const third = started.chat(id);
    const other = third.resumeStream();
    await eventually(async () => textOf(third.lastMessage).includes('word20'), 'another page shows it, too');
    started.service.simulator.gate(agent).release();
    await Promise.all([resuming, other]);
    for (const chat of [second, third]) {
      expect(textOf(chat.lastMessage)).toBe(`First.|${text}`);
      expect(chat.error).toBeUndefined();
      expect(chat.messages.filter(({ role }) => role === 'assistant')).toHaveLength(1);
    }
    expect(await fetch(`${started.url}/api/chat/${id}/stream`)).toMatchObject({ status: 204 });
    expect(await fetch(`${started.url}/api/chat/nobody-wrote-here/stream`)).toMatchObject({ status: 204 });
  });

  test('stops: what was written is kept, and nothing is at work any more', async () => {
    const { agent, script } = nextAgent();
    script([{ text: 'a b c d e f g h', chunkChars: 2, gates: { afterChunks: { count: 4, gate: agent } } }]);
    const id = newId();
    const chat = started.chat(id, { body: { agent } });
    const sending = chat.sendMessage({ text: 'Talk.' });
    await eventually(async () => textOf(chat.lastMessage) === 'a b c d ', 'the beginning is shown');
    const stale = await fetch(`${started.url}/api/chat/${id}/stop`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ activeStreamId: 'run_0' }),
    });
    expect(stale.status).toBe(409);
    const stopped = await fetch(`${started.url}/api/chat/${id}/stop`, { method: 'POST' });
    expect(await stopped.json()).toMatchObject({ runId: chat.lastMessage?.id });
    await sending;
    expect(chat.status).toBe('ready');
    expect(textOf(chat.lastMessage)).toBe('a b c d ');
    expect(chat.lastMessage?.metadata).toMatchObject({ status: 'cancelled' });
    expect((await messagesOf(id)).map(textOf)).toEqual(['Talk.', 'a b c d ']);
    expect((await messagesOf(id)).map(({ metadata }) => metadata)).toEqual([undefined, { status: 'cancelled' }]);
    const again = await fetch(`${started.url}/api/chat/${id}/stop`, { method: 'POST' });
    expect(await again.json()).toEqual({ runId: null, status: 'idle' });
  });

  test('takes a message while it is busy: it waits, says at what place, and is answered afterwards', async () => {
    const { agent, script } = nextAgent();
    script([{ text: 'One.', gates: { beforeEnd: agent } }, { text: 'Two.' }]);
    const id = newId();
    const data: unknown[] = [];
    const chat = started.chat(id, { body: { agent }, onData: (part) => data.push(part) });
    const first = chat.sendMessage({ text: 'First' });
    await started.service.simulator.gate(agent).reached;
    const second = chat.sendMessage({ text: 'Second' });
    await eventually(async () => data.length > 0, 'the place in the queue is told');
    expect(data).toEqual([expect.objectContaining({ type: 'data-queue', data: { position: 1 } })]);
    expect((await messagesOf(id)).at(-1)).toMatchObject({ role: 'user', metadata: { queue: { position: 1 } } });
    // A page that is opened now gets both answers, one after the other.
    const page = started.chat(id);
    const resuming = page.resumeStream();
    await eventually(async () => textOf(page.lastMessage) === 'One.', 'the page shows the first answer');
    started.service.simulator.gate(agent).release();
    await Promise.all([first, second, resuming]);
    await settled(chat);
    expect(page.messages.map(textOf)).toEqual(['One.', 'Two.']);
    expect(chat.messages.map(textOf).toSorted()).toEqual(['First', 'One.', 'Second', 'Two.']);
    expect((await messagesOf(id)).map(textOf)).toEqual(['First', 'One.', 'Second', 'Two.']);
  });

  test('takes a message into the answer that is being written, where it is to steer', async () => {
    const { agent, script } = nextAgent();
    script([{ text: 'One.', gates: { beforeEnd: agent } }, { text: 'Two.' }]);
    const id = newId();
    const chat = started.chat(id, { body: { agent } });
    const first = chat.sendMessage({ text: 'First' });
    await started.service.simulator.gate(agent).reached;
    const second = chat.sendMessage({ text: 'Second' }, { body: { delivery: 'steer' } });
    await eventually(async () => (await messagesOf(id)).length === 3, 'the message waits');
    started.service.simulator.gate(agent).release();
    await Promise.all([first, second]);
    await settled(chat);
    const answer = chat.messages.find(({ role }) => role === 'assistant');
    expect(typesOf(answer)).toEqual(['step-start', 'text', 'steering-message', 'step-start', 'text']);
    expect(textOf(answer)).toBe('One.|Two.');
    expect(chat.messages.filter(({ role }) => role === 'assistant')).toHaveLength(1);
    expect(typesOf((await messagesOf(id))[1])).toEqual(typesOf(answer));
  });

  test('shows what joins the answer, also where it is too large for an event', async () => {
    const { agent, script } = nextAgent();
    script([{ text: 'One.', gates: { beforeEnd: agent } }, { text: 'Two.' }]);
    const large = 'word '.repeat(MAX_INLINE_CONTENT_BYTES);
    const chat = started.chat(newId(), { body: { agent } });
    const first = chat.sendMessage({ text: 'First' });
    await started.service.simulator.gate(agent).reached;
    const second = chat.sendMessage({ text: large }, { body: { delivery: 'steer' } });
    await eventually(async () => (await messagesOf(chat.id)).length === 3, 'the message waits');
    started.service.simulator.gate(agent).release();
    await Promise.all([first, second]);
    await settled(chat);
    const joined = chat.messages.find(({ role }) => role === 'assistant')?.parts[2];
    expect(joined).toMatchObject({ type: 'steering-message', parts: [{ type: 'text', text: large }] });
  });

  test('sends a message again without asking twice', async () => {
    const { agent, script } = nextAgent();
    script([{ text: 'Once.' }]);
    const body = JSON.stringify({
      id: newId(),
      agent,
      message: { id: 'm1', role: 'user', parts: [{ type: 'text', text: 'Hello' }] },
    });
    const post = () =>
      fetch(`${started.url}/api/chat`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const responses = await Promise.all([post(), post()]);
    const texts = await Promise.all(responses.map((response) => response.text()));
    expect(responses.map(({ status }) => status)).toEqual([200, 200]);
    expect(responses[0]?.headers.get('x-vercel-ai-ui-message-stream')).toBe('v1');
    for (const text of texts) {
      expect(text.match(/"delta":"Once\."/g)).toHaveLength(1);
      expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
    }
    expect(await (await post()).text()).toContain('"delta":"Once."');
    const asked = started.service.simulator.requests.filter(({ request }) => request?.model === agent);
    expect(asked).toHaveLength(1);
  });

  test('approves and denies calls, and shows what came of them', async () => {
    const { agent, script } = nextAgent();
    script([
      {
        toolCalls: [
          { name: 'deploy', input: { to: 'prod' } },
          { name: 'pay', input: { amount: 50 } },
        ],
      },
      { text: 'One of the two.' },
    ]);
    const id = newId();
    const chat = started.chat(id, {
      body: { agent },
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    });
    await chat.sendMessage({ text: 'Go' });
    const asked = partOf(chat.lastMessage, 'tool-deploy');
    expect(asked).toMatchObject({ state: 'approval-requested', approval: { id: asked['toolCallId'] } });
    expect((await messagesOf(id)).at(-1)?.parts).toEqual(
      expect.arrayContaining([expect.objectContaining({ type: 'tool-deploy', state: 'approval-requested' })]),
    );
    // A page that is opened now shows the same request for approval.
    const reopened = started.chat(id);
    await reopened.resumeStream();
    expect(partOf(reopened.lastMessage, 'tool-pay')).toMatchObject({ state: 'approval-requested' });
    const before = ran.length;
    await chat.addToolApprovalResponse({ id: String(asked['toolCallId']), approved: true });
    const pay = String(partOf(chat.lastMessage, 'tool-pay')['toolCallId']);
    const tooLong = { id: pay, approved: false, reason: 'x'.repeat(2_001) };
    const decided = { type: 'tool-pay', toolCallId: pay, state: 'approval-responded', approval: tooLong };
    const refused = await fetch(`${started.url}/api/chat`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify({ id, messages: [{ role: 'assistant', parts: [decided] }] }),
    });
    expect([refused.status, await refused.json()]).toEqual([
      400,
      expect.objectContaining({ detail: 'The reason of a denial has at most 2000 characters' }),
    ]);
    await chat.addToolApprovalResponse({ id: pay, approved: false, reason: 'Too much.' });
    await eventually(async () => textOf(chat.lastMessage) === 'One of the two.', 'the run goes on');
    await settled(chat);
    expect(partOf(chat.lastMessage, 'tool-deploy')).toMatchObject({
      state: 'output-available',
      output: 'deploy did it',
    });
    expect(partOf(chat.lastMessage, 'tool-pay')).toMatchObject({ state: 'output-denied' });
    expect(ran.slice(before).map(({ name }) => name)).toEqual(['deploy']);
    expect(chat.messages).toHaveLength(2);
    const { rows } = { rows: await started.service.deps.db.selectFrom('audit_log').select('action').execute() };
    expect(rows.filter(({ action }) => action === 'tool-call:answer').length).toBeGreaterThanOrEqual(2);
  });

  test('runs a tool of the client', async () => {
    const { agent, script } = nextAgent();
    script([{ text: 'Look:', toolCalls: [{ name: 'browser', input: { url: 'x' } }] }, { text: 'I see it.' }]);
    const chat = started.chat(newId(), {
      body: { agent },
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
      onToolCall({ toolCall }) {
        if (toolCall.toolName !== 'browser') return;
        void chat.addToolOutput({ tool: 'browser', toolCallId: toolCall.toolCallId, output: { title: 'A page' } });
      },
    });
    await chat.sendMessage({ text: 'Open it' });
    await eventually(async () => textOf(chat.lastMessage) === 'Look:|I see it.', 'the run goes on');
    await settled(chat);
    expect(chat.error).toBeUndefined();
    expect(partOf(chat.lastMessage, 'tool-browser')).toMatchObject({ output: { title: 'A page' } });
    expect(chat.messages).toHaveLength(2);
  });

  test('takes a step back that is tried again: nothing of the broken answer stays', async () => {
    const { agent, script } = nextAgent();
    const { simulator } = started.service;
    script([{ text: 'The whole answer.', chunkChars: 4 }]);
    simulator.fault(agent, { kind: 'cut', afterChunks: 2 });
    const response = await fetch(`${started.url}/api/chat`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...SDK_7 },
      body: JSON.stringify({ id: newId(), agent, message: { role: 'user', parts: [{ type: 'text', text: 'Hi' }] } }),
    });
    const stream = await response.text();
    expect(stream.match(/"type":"reset-step"/g)).toHaveLength(1);
    expect(stream.match(/"type":"start-step"/g)).toHaveLength(1);
    const id = newId();
    simulator.script(agent, [{ text: 'The whole answer.', chunkChars: 4 }]);
    simulator.fault(agent, { kind: 'cut', afterChunks: 2 });
    const chat = started.chat(id, { body: { agent } });
    await chat.sendMessage({ text: 'Hi' });
    expect(textOf(chat.lastMessage)).toBe('The whole answer.');
    expect(typesOf(chat.lastMessage)).toEqual(['step-start', 'text']);
  });

  test('shows a failure as an error, and regenerating goes on where it failed; a good answer is asked for anew', async () => {
    const { agent, script } = nextAgent();
    const { simulator } = started.service;
    script([{ text: 'Good.' }, { text: 'Better.' }]);
    simulator.fault(agent, { status: 401 });
    const id = newId();
    const chat = started.chat(id, { body: { agent } });
    await chat.sendMessage({ text: 'Hi' });
    expect(chat.error?.message).toMatch(/\(auth\)$/);
    await chat.regenerate();
    expect(textOf(chat.lastMessage)).toBe('Good.');
    expect((await messagesOf(id)).filter(({ role }) => role === 'user')).toHaveLength(1);
    await chat.regenerate();
    expect(textOf(chat.lastMessage)).toBe('Better.');
    expect(chat.messages.map(textOf)).toEqual(['Hi', 'Better.']);
  });

  test('refuses what it cannot do, and stores nothing of it', async () => {
    const { agent } = nextAgent();
    const count = async () => (await started.service.deps.db.selectFrom('sessions').select('id').execute()).length;
    const before = await count();
    const post = async (fields: object) => {
      const body = JSON.stringify({ id: newId(), agent, ...fields });
      const headers = { 'content-type': 'application/json', accept: 'application/json' };
      const response = await fetch(`${started.url}/api/chat`, { method: 'POST', headers, body });
      return { status: response.status, code: Object(await response.json()).code };
    };
    const user = (parts: object[]) => ({ messages: [{ id: 'a', role: 'user', parts }] });
    expect(await post({})).toEqual({ status: 409, code: 'conflict' });
    expect(await post(user([]))).toEqual({ status: 400, code: 'invalid_request' });
    expect(await post(user([{ type: 'text', text: ' ' }]))).toEqual({ status: 400, code: 'invalid_request' });
    expect(await post({ ...user([{ type: 'text', text: 'x' }]), agent: 'nobody' })).toMatchObject({ status: 422 });
    expect(await post({ messages: [{ role: 'robot', parts: [] }] })).toMatchObject({ status: 400 });
    expect(await count()).toBe(before);
  });
});
