import { afterAll, beforeAll, expect, test } from 'vitest';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { startApi } from '../../src/app/api-server.ts';
import { revokeApiKey } from '../../src/store/around/api-keys.ts';
import { eventually } from '../support/eventually.ts';
import { createTestKey } from '../support/keys.ts';
import { type ChatService, startChatService, textOf } from './ui-chat-fixture.ts';

const AGENTS = ['stopped', 'resumed', 'queued', 'revoked'].map((name) => ({ name }));
const catalogue = createCatalogue(AGENTS.map(({ name }) => agentSchema.parse({ name, model: `simulated/${name}` })));
const TEXT = 'One two three four.';

let started: ChatService;
beforeAll(async () => {
  started = await startChatService(AGENTS);
});
afterAll(() => started[Symbol.asyncDispose]());

const gate = (name: string) => started.service.simulator.gate(name);
const script = (agent: string) =>
  started.service.simulator.script(agent, [
    { text: TEXT, chunkChars: 4, gates: { afterChunks: { count: 2, gate: agent } } },
    { text: 'And five.' },
  ]);
const bodyOf = (agent: string, text: string) =>
  JSON.stringify({ id: agent, agent, message: { role: 'user', parts: [{ type: 'text', text }] } });

/** A request to a server, as text; the second one is sent while the first one is answered. */
const send = (url: string, agent: string, text: string, headers: Record<string, string> = {}) =>
  fetch(`${url}/api/chat`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: bodyOf(agent, text),
  });

/** The last two frames; the others are of the answer so far. */
const endOf = (frames: string): string[] => frames.trim().split('\n\n').slice(-2);
const STOPS = 'data: {"type":"error","errorText":"the server stops; what was begun goes on (store_unavailable)"}';

test.each(['stopped', 'resumed'])(
  'an answer that a stopping server leaves behind ends with an error: %s',
  async (agent) => {
    script(agent);
    await using server = await startApi({ ...started.service.deps, agents: catalogue });
    const first = await send(server.url, agent, 'Hi');
    const response = agent === 'stopped' ? first : await fetch(`${server.url}/api/chat/${agent}/stream`);
    if (response !== first) await first.body?.cancel();
    const told = response.text();
    await gate(agent).reached;
    await server[Symbol.asyncDispose]();
    const frames = await told;
    expect(endOf(frames)).toEqual([STOPS, 'data: [DONE]']);
    expect(frames).not.toContain('"finish"');
    gate(agent).release();
    // Another process of the API has the whole answer.
    const chat = started.chat(agent);
    await chat.resumeStream();
    await eventually(async () => {
      const body = await (await fetch(`${started.url}/api/chat/${agent}/messages`)).text();
      return body.includes(TEXT);
    }, 'the run goes on');
  },
);

test('a message that waits for its turn when the server stops is told so', async () => {
  script('queued');
  await using server = await startApi({ ...started.service.deps, agents: catalogue });
  const first = await send(server.url, 'queued', 'Hi');
  await gate('queued').reached;
  const second = await send(server.url, 'queued', 'And?');
  const told = Promise.all([first.text(), second.text()]);
  await server[Symbol.asyncDispose]();
  for (const frames of await told) expect(endOf(frames)).toEqual([STOPS, 'data: [DONE]']);
  gate('queued').release();
});

// The last one: from now on every request needs a key.
test('an answer ends with an error when the key is revoked, and useChat does not take it for whole', async () => {
  script('revoked');
  const { db } = started.service.deps;
  const key = await createTestKey(db);
  const response = await send(started.url, 'revoked', 'Hi', key.headers);
  const told = response.text();
  const other = await createTestKey(db);
  const chat = started.chat('revoked', { headers: other.headers });
  const resuming = chat.resumeStream();
  await gate('revoked').reached;
  await eventually(async () => textOf(chat.lastMessage).startsWith('One'), 'the text so far is shown');
  for (const { id } of [key, other]) await db.transaction().execute((tx) => revokeApiKey(tx, id));
  const error = 'the API key was revoked or has expired (unauthenticated)';
  expect(endOf(await told)).toEqual([`data: ${JSON.stringify({ type: 'error', errorText: error })}`, 'data: [DONE]']);
  await resuming;
  expect(chat).toMatchObject({ status: 'error', error: { message: error } });
  gate('revoked').release();
});
