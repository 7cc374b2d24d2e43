import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RequestRecord } from '../../simulator/request.ts';
import type { Agent } from '../../src/agents/agent.ts';
import type { UserPart } from '../../src/domain/transcript/message.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { PNG, PNG_BASE64 } from '../support/png.ts';
import { startTestService, type TestService } from '../support/service.ts';

const DATA_URL = `data:image/png;base64,${PNG_BASE64}`;
const POSTER = Buffer.concat([PNG, Buffer.alloc(30_000)]).toString('base64');
const MODELS = ['simulated', 'simulated-chat', 'simulated-anthropic'] as const;
const pngContent = [
  { type: 'text', text: 'Here it is:' },
  { type: 'file', mediaType: 'image/png', data: { type: 'data', data: PNG_BASE64 } },
];

const inputSchema = { type: 'object' } as const;
const tools: Tool[] = [
  {
    name: 'screenshot',
    description: 'Looks.',
    inputSchema,
    execute: async () => ({ type: 'content', value: pngContent }),
  },
  {
    name: 'camera',
    description: 'Looks, in the words of the AI SDK.',
    inputSchema,
    execute: async () => ({ bytes: PNG }),
    toModelOutput: ({ output }) => ({
      type: 'content',
      value: [
        {
          type: 'media',
          mediaType: 'image/png',
          data: Buffer.from((output as { bytes: Uint8Array }).bytes).toString('base64'),
        },
      ],
    }),
  },
  {
    name: 'album',
    description: 'Looks at too much.',
    inputSchema,
    execute: async () => ({ type: 'content', value: Array.from({ length: 40 }, () => pngContent[1]) }),
  },
  {
    name: 'poster',
    description: 'Looks at something large.',
    inputSchema,
    execute: async () => ({ type: 'content', value: [{ type: 'media', mediaType: 'image/png', data: POSTER }] }),
  },
  {
    name: 'liar',
    description: 'Gives something else.',
    inputSchema,
    execute: async () => ({
      type: 'content',
      value: [{ type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'AAEC' } }],
    }),
  },
];

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ backend: 'postgres', tools });
  await service.startWorker();
});
afterAll(() => service[Symbol.asyncDispose]());

async function send(sessionId: string, content: readonly UserPart[]): Promise<string> {
  const accepted = await service.sendParts(sessionId, content);
  return accepted.runId;
}

type Played = Readonly<{
  session: string;
  requests: readonly RequestRecord[];
  events: readonly { type: string; data: unknown }[];
}>;

/** A session that is sent a content, and calls the tools that are named. */
async function play(
  agent: Partial<Agent>,
  content: readonly UserPart[],
  calls: readonly string[] = [],
): Promise<Played> {
  service.simulator.clear();
  const toolCalls = calls.map((name) => ({ name, input: {} }));
  service.simulator.script('*', [...(calls.length === 0 ? [] : [{ toolCalls }]), { text: 'I see.' }]);
  const session = await service.createSession(agent);
  expect(await service.ended(await send(session, content))).toMatchObject({ status: 'completed' });
  const { requests } = service.simulator;
  expect(requests.flatMap(({ violations }) => violations)).toEqual([]);
  return {
    session,
    requests: [...requests],
    events: await readEvents(service.deps.db, 'default', session, { afterSeq: 0, limit: 1_000 }),
  };
}

const partsOf = async (session: string) =>
  (await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 })).flatMap(({ parts }) => parts);

/** Nothing that is stored of a session may hold the bytes as base64. */
async function expectNoBase64(session: string): Promise<void> {
  for (const table of ['messages', 'parts', 'inbox', 'events']) {
    const { rows } = await sql<{ found: boolean }>`
      select exists (select 1 from ${sql.table(table)} t where session_id = ${session}
        and t::text like ${`%${PNG_BASE64.slice(0, 40)}%`}) as found`.execute(service.deps.db);
    expect(rows[0]?.found, table).toBe(false);
  }
}

const question: UserPart = { type: 'text', text: 'What is this?' };
const picture: UserPart = { type: 'file', mediaType: 'image/png', url: DATA_URL, filename: 'a.png' };

describe('a text file of the user', () => {
  it.each(MODELS)('is a blob in storage and a text for %s', async (provider) => {
    const url = `data:text/csv;base64,${Buffer.from('a;b\n1;2').toString('base64')}`;
    const table: UserPart = { type: 'file', mediaType: 'text/csv', url, filename: 'a.csv' };
    const { session, requests, events } = await play({ model: `${provider}/test` }, [question, table]);
    expect((await partsOf(session))[1]).toMatchObject({ mediaType: 'text/csv', url: expect.stringMatching(/^@blob:/) });
    expect(JSON.stringify(requests[0]?.request?.messages)).toContain('[Attached text/csv: a.csv]\\na;b\\n1;2');
    expect(events.filter(({ type }) => type === 'llm:unsupported-input')).toEqual([]);
  });
});

describe('an image of the user', () => {
  it.each(MODELS)('is a blob in storage and itself for %s', async (provider) => {
    const { session, requests, events } = await play({ model: `${provider}/test` }, [question, picture]);
    const [, file] = await partsOf(session);
    expect(file).toEqual({
      type: 'file',
      mediaType: 'image/png',
      filename: 'a.png',
      url: expect.stringMatching(/^@blob:blob_[0-9a-f]{32}$/),
      sizeBytes: PNG.length,
    });
    expect(requests[0]?.rawBody).toContain(PNG_BASE64);
    await expectNoBase64(session);
    const { rows } = await sql<{ sha256: Buffer }>`
      select sha256 from blobs join blob_refs on blob_id = id where session_id = ${session}`.execute(service.deps.db);
    expect(rows.map(({ sha256 }) => sha256.toString('hex'))).toEqual([createHash('sha256').update(PNG).digest('hex')]);
    expect(events.map(({ type }) => type)).not.toContain('llm:unsupported-input');
  });

  it('is counted as it is shown', async () => {
    const { events } = await play({}, [question, picture]);
    const measured = service.logged.findLast(({ event }) => event === 'context_measured');
    // An image is estimated at 1 500 tokens, a notice at a few dozen.
    expect(measured).toMatchObject({ tokens: expect.any(Number) });
    expect((measured as { tokens: number }).tokens).toBeGreaterThan(1_500);
    expect(events.length).toBeGreaterThan(0);
  });

  it('that a model cannot take is said to be there, once per step, with no word of what it is', async () => {
    const model = 'simulated/deepseek-v4-pro';
    const { session, requests, events } = await play({ model }, [question, picture], ['screenshot']);
    for (const { rawBody } of requests) {
      expect(rawBody).not.toContain(PNG_BASE64.slice(0, 40));
      expect(rawBody).toContain('A file was attached here that cannot be shown: a.png (image/png)');
    }
    const said = events.filter(({ type }) => type === 'llm:unsupported-input');
    expect(said.map(({ data }) => data)).toEqual([
      { model, mediaTypes: ['image/png'] },
      { model, mediaTypes: ['image/png'] },
    ]);
    await expectNoBase64(session);
    const measured = service.logged.findLast(({ event }) => event === 'context_measured');
    expect((measured as { tokens: number }).tokens).toBeLessThan(1_500);
  });

  it('that is none is refused, and nothing is stored', async () => {
    const session = await service.createSession();
    const bad = (url: string): UserPart => ({ type: 'file', mediaType: 'image/png', url });
    for (const [part, why] of [
      [bad('data:image/png;base64,AAEC'), 'content.1: is not image/png, whatever it says'],
      [bad('data:image/png;base64,*'), 'content.1: is not encoded as it says'],
      [bad('@blob:blob_0199c0ffee007000800000000000000a'), 'content.1: there is no such blob'],
      [bad('file:///etc/passwd'), 'content.1: must be a data URL, an http(s) URL or a blob'],
    ] as const) {
      await expect(send(session, [question, part])).rejects.toMatchObject({ code: 'invalid_request', message: why });
    }
    expect(await service.deps.db.selectFrom('inbox').select('id').where('session_id', '=', session).execute()).toEqual(
      [],
    );
  });

  it('by URL is left to a provider that fetches it, and is never fetched here', async () => {
    const remote: UserPart = { type: 'file', mediaType: 'image/png', url: 'http://127.0.0.1:9/secret.png' };
    const { requests } = await play({ model: 'simulated/test' }, [question, remote]);
    expect(requests[0]?.rawBody).toContain('http://127.0.0.1:9/secret.png');
    const pdf: UserPart = { type: 'file', mediaType: 'application/pdf', url: 'http://127.0.0.1:9/secret.pdf' };
    const { requests: chat, events } = await play({ model: 'simulated-chat/test' }, [question, pdf]);
    expect(chat[0]?.rawBody).toContain('cannot be shown');
    expect(events.filter(({ type }) => type === 'llm:unsupported-input')).toHaveLength(1);
  });
});

describe('an image in the result of a tool', () => {
  it.each([['simulated'], ['simulated-anthropic'], ['simulated-chat']])(
    'is a blob in storage, and %s is shown it',
    async (provider) => {
      const { session, requests, events } = await play(
        { model: `${provider}/test` },
        [question],
        ['screenshot', 'camera'],
      );
      const outputs = (await partsOf(session)).flatMap((part) => (part.type === 'tool' ? [part.output] : []));
      const url = expect.stringMatching(/^@blob:blob_/);
      const file = { type: 'file', mediaType: 'image/png', url, sizeBytes: PNG.length };
      expect(outputs).toEqual([
        { type: 'content', value: [{ type: 'text', text: 'Here it is:' }, file] },
        { type: 'content', value: [file] },
      ]);
      const sent = requests.at(-1)?.rawBody ?? '';
      expect(sent.split(PNG_BASE64).length - 1).toBe(2);
      expect(events.some(({ type }) => type === 'llm:unsupported-input')).toBe(false);
      const results = events.filter(({ type }) => type === 'llm:tool-result');
      expect(JSON.stringify(results)).toContain('Here it is:\\n[image/png, @blob:blob_');
      await expectNoBase64(session);
    },
  );

  it('comes in a message of the user after all results where these are texts', async () => {
    const { requests } = await play({ model: 'simulated-chat/test' }, [question], ['screenshot', 'camera']);
    type Wire = Readonly<{ role: string; content: unknown }>;
    const { messages } = JSON.parse(requests.at(-1)?.rawBody ?? '{}') as { messages: readonly Wire[] };
    expect(messages.slice(-4).map(({ role }) => role)).toEqual(['assistant', 'tool', 'tool', 'user']);
    expect(messages.at(-3)?.content).toBe('Here it is:\n[A file (image/png): shown below, after the results]');
    expect(messages.at(-1)?.content).toMatchObject([
      { type: 'text', text: expect.stringContaining('From the result of the tool screenshot (call ') },
      { type: 'image_url' },
      { type: 'text', text: expect.stringContaining('From the result of the tool camera (call ') },
      { type: 'image_url' },
    ]);
  });

  it('is left out where there are more than the context has room for', async () => {
    const { requests } = await play({ model: 'simulated/test' }, [question], ['album']);
    const shown = (requests.at(-1)?.rawBody ?? '').split(PNG_BASE64).length - 1;
    expect(shown).toBeGreaterThan(5);
    expect(shown).toBeLessThan(40);
    expect(requests.at(-1)?.rawBody).toContain('not shown: too much at once');
  });

  it('that is none is said to be none', async () => {
    const { session } = await play({}, [question], ['liar']);
    const call = (await partsOf(session)).find((part) => part.type === 'tool');
    const text = '[image/png, not shown: it is not image/png, whatever it says]';
    expect(call).toMatchObject({ output: { type: 'content', value: [{ type: 'text', text }] } });
  });

  it('goes from the view where the provider refuses the request for its bytes', async () => {
    service.simulator.clear();
    service.simulator.script('*', [{ toolCalls: [{ name: 'poster', input: {} }] }, { text: 'I see.' }]);
    const session = await service.createSession();
    service.simulator.setWindow('test', { maxBytes: 20_000 });
    const ended = await service.ended(await send(session, [question]));
    service.simulator.setWindow('test', undefined);
    expect(ended).toMatchObject({ status: 'completed' });
    const last = service.simulator.requests.at(-1)?.rawBody;
    expect(last).toContain('no longer shown');
    expect(last).not.toContain(PNG_BASE64);
  });
});
