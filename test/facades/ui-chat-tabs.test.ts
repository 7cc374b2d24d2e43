import { lastAssistantMessageIsCompleteWithApprovalResponses, type UIMessage } from 'ai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { eventually } from '../support/eventually.ts';
import { type ChatService, SDK_7, settled, startChatService, textOf, typesOf } from './ui-chat-fixture.ts';

let started: ChatService;
beforeAll(async () => {
  const agents = ['words', 'fails', 'twice', 'queued', 'steered', 'idle'].map((name) => ({ name, tools: ['test'] }));
  started = await startChatService(agents, createWaitingTools().tools);
});
afterAll(() => started[Symbol.asyncDispose]());

/** A page with the chat that is called as its agent. */
const openTab = (agent: string, more: Parameters<ChatService['chat']>[1] = {}) =>
  started.chat(agent, { body: { agent }, ...more });

/** The chat as a page that is opened now reads it. */
async function readChat(id: string): Promise<UIMessage<{ status?: string; error?: object }>[]> {
  const response = await fetch(`${started.url}/api/chat/${id}/messages`, { headers: SDK_7 });
  return ((await response.json()) as { messages: UIMessage<object>[] }).messages;
}

test('a refusal reaches people as a sentence; a client that asks for JSON gets the problem', async () => {
  const chat = started.chat('words', { body: { agent: 'nobody' } });
  await chat.sendMessage({ text: 'Hi' });
  expect(chat.error?.message).toMatch(/^there is no agent "nobody"; known: .* \(agent_not_found\)$/);
  const body = JSON.stringify({ id: 'words', agent: 'words' });
  const headers = { 'content-type': 'application/json', accept: 'application/json' };
  const refused = await fetch(`${started.url}/api/chat`, { method: 'POST', headers, body });
  expect([refused.status, await refused.json()]).toEqual([409, expect.objectContaining({ code: 'conflict' })]);
});

test('a failed answer is there when the page is opened again, with its error, and can be tried again', async () => {
  const { simulator } = started.service;
  simulator.script('fails', [{ text: 'Now it works.' }]);
  simulator.fault('fails', { status: 401 });
  await openTab('fails').sendMessage({ text: 'Hi' });
  const messages = await readChat('fails');
  expect(messages).toMatchObject([
    { role: 'user' },
    {
      role: 'assistant',
      parts: [],
      metadata: { status: 'failed', error: { code: 'auth', message: expect.any(String) } },
    },
  ]);
  const reopened = openTab('fails', { messages });
  await reopened.regenerate();
  expect(reopened.messages.map(textOf)).toEqual(['Hi', 'Now it works.']);
  expect((await readChat('fails')).map(textOf)).toEqual(['Hi', 'Now it works.']);
});

test('an approval that another tab has given is taken again: both tabs show how the run went on', async () => {
  const { simulator } = started.service;
  simulator.script('twice', [{ toolCalls: [{ name: 'deploy', input: {} }] }, { text: 'Deployed.' }]);
  const sendAutomaticallyWhen = lastAssistantMessageIsCompleteWithApprovalResponses;
  const first = openTab('twice', { sendAutomaticallyWhen });
  await first.sendMessage({ text: 'Go' });
  const messages = await readChat('twice');
  const second = openTab('twice', { messages: structuredClone(messages), sendAutomaticallyWhen });
  const call = Object(messages.at(-1)?.parts.find(({ type }) => type === 'tool-deploy')).toolCallId as string;
  for (const tab of [first, second]) {
    await tab.addToolApprovalResponse({ id: call, approved: true });
    await eventually(async () => textOf(tab.lastMessage) === 'Deployed.', 'the tab shows the answer');
    await settled(tab);
    expect(tab.error).toBeUndefined();
    expect(typesOf(tab.lastMessage).filter((type) => type === 'tool-deploy')).toHaveLength(1);
  }
});

test('messages that were taken up together come back as they were written', async () => {
  const { simulator } = started.service;
  simulator.script('queued', [{ text: 'One.', gates: { beforeEnd: 'queued' } }, { text: 'Two and three.' }]);
  const tab = openTab('queued');
  const first = tab.sendMessage({ text: 'First' });
  await simulator.gate('queued').reached;
  const others = ['Second', 'Third'].map((text) => openTab('queued').sendMessage({ text }));
  await eventually(async () => (await readChat('queued')).length === 4, 'both wait');
  simulator.gate('queued').release();
  await Promise.all([first, ...others]);
  const shown = await readChat('queued');
  expect(shown.map(textOf)).toEqual(['First', 'One.', expect.any(String), expect.any(String), 'Two and three.']);
  expect(shown.slice(2, 4).map(textOf).toSorted()).toEqual(['Second', 'Third']);
});

test('messages that joined an answer together are in it as they were written, live and afterwards', async () => {
  const { simulator } = started.service;
  simulator.script('steered', [{ text: 'One.', gates: { beforeEnd: 'steered' } }, { text: 'Two.' }]);
  const tab = openTab('steered');
  const first = tab.sendMessage({ text: 'First' });
  await simulator.gate('steered').reached;
  const steer = { body: { delivery: 'steer' } };
  const others = ['Second', 'Third'].map((text) => openTab('steered').sendMessage({ text }, steer));
  await eventually(async () => (await readChat('steered')).length === 4, 'both wait');
  simulator.gate('steered').release();
  await Promise.all([first, ...others]);
  const joined = (answer: UIMessage | undefined): string[] =>
    (answer?.parts ?? []).flatMap((part) =>
      part.type === 'steering-message' ? [part.parts.map((piece) => Object(piece).text).join()] : [],
    );
  expect(joined(tab.lastMessage).toSorted()).toEqual(['Second', 'Third']);
  expect(joined((await readChat('steered')).at(-1))).toEqual(joined(tab.lastMessage));
});

test('an idle tab hears what another one asks: the next answer is waited for', async () => {
  const { simulator } = started.service;
  simulator.script('idle', [{ text: 'One.' }, { text: 'Two.', gates: { beforeEnd: 'idle' } }]);
  const tab = openTab('idle');
  await tab.sendMessage({ text: 'First' });
  const known = (await readChat('idle')).at(-1)?.id ?? '';
  const next = (method: string) => fetch(`${started.url}/api/chat/idle/stream?after=${known}`, { method });
  const hears = next('HEAD');
  const asked = openTab('idle').sendMessage({ text: 'Second' });
  expect((await hears).status).toBe(200);
  await simulator.gate('idle').reached;
  simulator.gate('idle').release();
  await asked;
  // It is told whole, too, to a tab that asks when it has ended.
  expect(await (await next('GET')).text()).toContain('Two.');
  const all = await fetch(`${started.url}/api/chat/idle/stream?after=start`);
  expect(await all.text()).toMatch(/One\.[\s\S]*Two\./);
});
