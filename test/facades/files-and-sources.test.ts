import type { UIMessage } from 'ai';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createClient } from '../../src/client/client.ts';
import type { StreamEvent } from '../../src/client/session-events.ts';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { eventually } from '../support/eventually.ts';
import { PNG, PNG_BASE64 } from '../support/png.ts';
import { type ChatService, startChatService, textOf } from './ui-chat-fixture.ts';

const { tools } = createWaitingTools();
const AGENTS = Array.from({ length: 8 }, (_, n) => ({ name: `agent-${n}`, tools: ['test'] }));
const PAGE = { url: 'https://example.com/a', title: 'A page' };
/**
 * The answer of a model after it has looked around: text, sources, documents and pictures, in this order on the wire.
 */
const RICH = { text: 'See there.', sources: [PAGE], documents: ['notes.txt'], pictures: [PNG_BASE64] };
const RICH_PARTS = [
  { type: 'text', text: RICH.text },
  { type: 'file', mediaType: 'image/png', url: expect.stringMatching(/^\/v1\/blobs\/blob_[0-9a-f]{32}$/) },
  { type: 'source-url', sourceId: expect.any(String), ...PAGE },
  {
    type: 'source-document',
    sourceId: expect.any(String),
    mediaType: 'text/plain',
    title: 'notes.txt',
    filename: 'notes.txt',
  },
];

let started: ChatService;
let taken = 0;

function nextAgent(replies: Parameters<ChatService['service']['simulator']['script']>[1]): string {
  const agent = `agent-${taken++}`;
  started.service.simulator.script(agent, replies);
  return agent;
}

async function storedMessages(id: string): Promise<UIMessage[]> {
  const response = await fetch(`${started.url}/api/chat/${id}/messages`);
  return ((await response.json()) as { messages: UIMessage[] }).messages;
}

const inAnyOrder = (parts: readonly unknown[]): string[] => parts.map((part) => JSON.stringify(part)).sort();
/** The parts of a message without the UI's own additions: the `state` of a part, and fields that are undefined. */
const bare = (message: UIMessage | undefined): readonly unknown[] =>
  JSON.parse(JSON.stringify(message?.parts ?? [], (key, value) => (key === 'state' ? undefined : value)));

beforeAll(async () => {
  started = await startChatService(AGENTS, tools);
});
afterAll(() => started[Symbol.asyncDispose]());

describe('files and sources of a model', () => {
  test('are in the stream of useChat, in that of a page that joins later, and in the messages, all alike', async () => {
    const toolCalls = [{ name: 'look', input: {} }];
    const agent = nextAgent([
      { ...RICH, toolCalls },
      { text: 'That is all.', chunkChars: 4, gates: { afterChunks: { count: 2, gate: 'joins' } } },
    ]);
    const first = started.chat(agent, { body: { agent } });
    const sending = first.sendMessage({ text: 'Look around' });
    await started.service.simulator.gate('joins').reached;
    const second = started.chat(agent);
    const resuming = second.resumeStream();
    await eventually(async () => textOf(second.lastMessage).includes('That is'), 'the answer is shown');
    started.service.simulator.gate('joins').release();
    await Promise.all([sending, resuming]);
    const [, answer] = await storedMessages(agent);
    expect([first.error, second.error]).toEqual([undefined, undefined]);
    expect(bare(second.lastMessage)).toMatchObject([
      { type: 'step-start' },
      ...RICH_PARTS.slice(0, 2),
      { type: 'tool-look' },
      ...RICH_PARTS.slice(2),
      { type: 'step-start' },
      { type: 'text', text: 'That is all.' },
    ]);
    expect(bare(answer)).toEqual(bare(second.lastMessage));
    // A page that sees the call while it is written has it before the files, which come with the whole answer.
    expect(inAnyOrder(bare(first.lastMessage))).toEqual(inAnyOrder(bare(answer)));
    const file = first.lastMessage?.parts.find((part) => part.type === 'file');
    const response = await fetch(`${started.url}${file?.url}`);
    expect(new Uint8Array(await response.arrayBuffer())).toEqual(PNG);
  });

  test('are events of the session with the answer that they are in, and never base64', async () => {
    const agent = nextAgent([RICH]);
    const client = createClient({ baseUrl: started.url });
    const session = await client.sessions.create({ agent });
    const { runId } = await client.send(session.id, 'Look around');
    const events: StreamEvent[] = [];
    for await (const event of client.runs.follow(runId, { after: 0 })) events.push(event);
    const types = events.map(({ type }) => type).filter((type) => type.startsWith('llm:') && type !== 'llm:chunk');
    expect(types.filter((type) => type !== 'llm:thinking')).toEqual([
      'llm:response',
      'llm:file',
      'llm:source',
      'llm:source',
    ]);
    const dataOf = (type: string) => events.flatMap((event) => (event.type === type ? [event.data] : []));
    const { messages } = await client.messages(session.id);
    const messageId = messages[1]?.id;
    const url = expect.stringMatching(/^@blob:blob_[0-9a-f]{32}$/);
    expect(dataOf('llm:file')).toEqual([{ messageId, mediaType: 'image/png', url, sizeBytes: PNG.length }]);
    const document = { mediaType: 'text/plain', title: 'notes.txt', filename: 'notes.txt' };
    expect(dataOf('llm:source')).toEqual([
      { messageId, sourceId: expect.any(String), ...PAGE },
      { messageId, sourceId: expect.any(String), ...document },
    ]);
    expect(messages[1]?.parts.map(({ type }) => type)).toEqual(['step-start', 'text', 'file', 'source', 'source']);
    expect(JSON.stringify([events, messages])).not.toContain(PNG_BASE64);
  });

  test('that came before a cancel are kept and told', async () => {
    const agent = nextAgent([{ text: 'Here it is.', pictures: [PNG_BASE64], gates: { beforeEnd: 'cancelled' } }]);
    const chat = started.chat(agent, { body: { agent } });
    const sending = chat.sendMessage({ text: 'Paint' });
    await started.service.simulator.gate('cancelled').reached;
    await eventually(async () => textOf(chat.lastMessage) === 'Here it is.', 'the text is shown');
    await fetch(`${started.url}/api/chat/${agent}/stop`, { method: 'POST' });
    await sending;
    const [text, file] = RICH_PARTS;
    expect(bare(chat.lastMessage)).toMatchObject([{ type: 'step-start' }, { ...text, text: 'Here it is.' }, file]);
    expect((await storedMessages(agent))[1]?.parts.map(({ type }) => type)).toEqual(['step-start', 'text', 'file']);
  });

  test('are annotations for a client of OpenAI, of the text that has them, as far as they are pages', async () => {
    const agent = nextAgent([
      { text: 'First.', toolCalls: [{ name: 'look', input: {} }] },
      RICH,
      { text: 'Nothing more.' },
    ]);
    const client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none', maxRetries: 0 });
    const user = (content: string) => ({ role: 'user', content }) as const;
    const first = await client.chat.completions.create({ model: agent, messages: [user('Look around')] });
    const message = first.choices[0]?.message;
    expect(message?.content).toBe('First.\n\nSee there.');
    const place = { start_index: 'First.\n\n'.length, end_index: 'First.\n\nSee there.'.length };
    expect(message?.annotations).toEqual([{ type: 'url_citation', url_citation: { ...place, ...PAGE } }]);
    if (message === undefined) throw new Error('there is no message');

    // The library sends the message back as it received it.
    const messages = [user('Look around'), message, user('And now?')];
    const second = await client.chat.completions.create({ model: agent, messages });
    expect(second.choices[0]?.message).toEqual({ role: 'assistant', content: 'Nothing more.', refusal: null });
    const sessions = started.service.deps.db.selectFrom('sessions').select('id').where('agent_name', '=', agent);
    expect(await sessions.execute()).toHaveLength(1);

    const model = nextAgent([{ ...RICH, sources: [PAGE, { url: 'https://example.com/b', title: 'B' }] }]);
    const stream = client.chat.completions.stream({ model, messages: [user('Look around')] });
    const whole = await stream.finalChatCompletion();
    expect(whole.choices[0]?.message.annotations).toMatchObject([
      { url_citation: { url: PAGE.url, start_index: 0, end_index: RICH.text.length } },
      { url_citation: { url: 'https://example.com/b' } },
    ]);
  });
});
