import { sql } from 'kysely';
import OpenAI from 'openai';
import type { ChatCompletionMessageParam, ChatCompletionTool } from 'openai/resources/chat/completions';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { ANYBODY } from '../../src/domain/access.ts';
import { toErrorRecord } from '../../src/domain/errors.ts';
import { completionRequestSchema } from '../../src/facades/openai/completion-request.ts';
import { completionPieces } from '../../src/http/openai/completion-pieces.ts';
import { startCompletion } from '../../src/http/openai/start-completion.ts';
import { startApi } from '../../src/runtime/api-server.ts';
import { storeTurn, type TakenTurn, takeTurn } from '../../src/store/conversations.ts';
import { openDatabase, type Tx } from '../../src/store/database.ts';
import { listMessages } from '../../src/store/messages.ts';
import { eventually } from '../support/eventually.ts';
import { createTestKey } from '../support/keys.ts';
import { PNG_BASE64 } from '../support/png.ts';
import { type ChatService, startChatService } from './ui-chat-fixture.ts';

const DATA_URL = `data:image/png;base64,${PNG_BASE64}`;
const AGENTS = Array.from({ length: 40 }, (_, n) => ({ name: `model-${n}` }));
const CATALOGUE = createCatalogue(
  AGENTS.map((agent) => agentSchema.parse({ model: `simulated/${agent.name}`, ...agent })),
);
let started: ChatService;
let client: OpenAI;
let taken = 0;

type Replies = Parameters<ChatService['service']['simulator']['script']>[1];
function nextModel(replies: Replies): string {
  const model = `model-${taken++}`;
  started.service.simulator.script(model, replies);
  return model;
}

const user = (content: string): ChatCompletionMessageParam => ({ role: 'user', content });
const assistant = (content: string): ChatCompletionMessageParam => ({ role: 'assistant', content });
const WEATHER: ChatCompletionTool = { type: 'function', function: { name: 'weather', description: 'Tells it.' } };
const gate = (name: string) => started.service.simulator.gate(name);
const sessionsOf = (model: string) =>
  started.service.deps.db.selectFrom('sessions').selectAll().where('agent_name', '=', model).execute();
const runsOf = async (model: string) => {
  const ids = (await sessionsOf(model)).map(({ id }) => id);
  const runs = started.service.deps.db.selectFrom('runs').selectAll().orderBy('created_at');
  return runs.where('session_id', 'in', ids).execute();
};
const statesOf = async (model: string) => (await runsOf(model)).map(({ status }) => status);
const transcriptsOf = async (model: string) => {
  const { db } = started.service.deps;
  const sessions = await sessionsOf(model);
  const lists = await Promise.all(sessions.map(({ id }) => listMessages(db, 'default', id, 0, 100)));
  return lists.map((messages) =>
    messages.map(({ role, parts }) => `${role}: ${parts.flatMap((p) => ('text' in p ? [p.text] : [])).join('|')}`),
  );
};
const ask = async (model: string, messages: ChatCompletionMessageParam[], fields: object = {}, headers = {}) => {
  const { choices } = await client.chat.completions.create({ model, messages, ...fields }, { headers });
  return choices[0]?.message.content;
};
/** Streams until the gate is reached, then goes away. Gives what it was told. */
async function abortAt(name: string, model: string, messages: ChatCompletionMessageParam[]): Promise<string> {
  const stream = await client.chat.completions.create({ model, messages, stream: true });
  let told = '';
  const reading = (async () => {
    for await (const chunk of stream) told += chunk.choices[0]?.delta.content ?? '';
  })().catch(() => undefined);
  await gate(name).reached;
  await eventually(async () => told !== '', 'something was told');
  stream.controller.abort();
  await reading;
  return told;
}
const httpDeps = () => {
  const { deps } = started.service;
  return { ...deps, agents: CATALOGUE, readiness: deps.health.readiness };
};
/** A request without a connection, which can be told that its client has gone away. */
const startDirectly = (body: object, isRetry: boolean) =>
  startCompletion(httpDeps(), ANYBODY, {
    body: completionRequestSchema.parse(body),
    sessionName: undefined,
    repetition: { key: null, isRetry },
    signal: new AbortController().signal,
  });
/** The client of a whole answer goes away. Resolves once that had its consequences. */
const goAway = (request: Awaited<ReturnType<typeof startDirectly>>): Promise<void> =>
  completionPieces(httpDeps(), request, {
    signal: AbortSignal.abort(),
    isDurable: false,
    isStream: false,
    isGone: () => true,
    whyEnded: () => null,
    toError: toErrorRecord,
  }).leave();
/** Two answers in one session; the first is held after a few characters. */
const heldAt = (name: string): Replies => [
  { text: 'One two three.', chunkChars: 3, gates: { afterChunks: { count: 2, gate: name } } },
  { text: 'Then.' },
];

describe('a conversation whose answer did not end', () => {
  beforeAll(async () => {
    started = await startChatService(AGENTS);
    client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none', maxRetries: 0 });
  });
  afterAll(() => started[Symbol.asyncDispose]());

  test('goes on in its session after an abort, with the part that its client has, and writes down who cancelled', async () => {
    const model = nextModel(heldAt('part'));
    const told = await abortAt('part', model, [user('Hi')]);
    started.service.simulator.script(model, [{ text: 'Then.' }]);
    expect(await ask(model, [user('Hi'), assistant(told), user('And?')])).toBe('Then.');
    expect(await sessionsOf(model)).toHaveLength(1);
    expect(await statesOf(model)).toEqual(['cancelled', 'completed']);
    expect((await transcriptsOf(model))[0]).toEqual([
      'user: Hi',
      `assistant: ${told}`,
      'user: And?',
      'assistant: Then.',
    ]);
    const [run] = await runsOf(model);
    const entries = await started.service.deps.db.selectFrom('audit_log').selectAll().execute();
    expect(entries.filter(({ target }) => target.includes(run?.id.replaceAll('-', '') ?? '?'))).toMatchObject([
      { action: 'run:cancel', tenant_id: 'default' },
    ]);
  });

  test('goes on in its session after an abort, where the client keeps nothing of the answer', async () => {
    const model = nextModel(heldAt('dropped'));
    await abortAt('dropped', model, [user('Hi')]);
    started.service.simulator.script(model, [{ text: 'Then.' }]);
    expect(await ask(model, [user('Hi'), user('And?')])).toBe('Then.');
    expect(await sessionsOf(model)).toHaveLength(1);
  });

  test('is somebody else’s, where what the client has is no part of the answer', async () => {
    const model = nextModel(heldAt('other'));
    await abortAt('other', model, [user('Hi')]);
    await eventually(async () => (await statesOf(model))[0] === 'cancelled', 'the run is cancelled');
    started.service.simulator.script(model, [{ text: 'Then.' }]);
    await ask(model, [user('Hi'), assistant('Something else.'), user('And?')]);
    expect(await sessionsOf(model)).toHaveLength(2);
  });

  test.each(['again', 'anew'])('goes on in its session after a failure, asked %s', async (how) => {
    const model = nextModel([{ text: 'Better.' }]);
    started.service.simulator.fault(model, [{ status: 401 }]);
    await expect(ask(model, [user('Hi')])).rejects.toMatchObject({ code: 'auth' });
    const messages = how === 'again' ? [user('Hi')] : [user('Hi'), user('Are you there?')];
    expect(await ask(model, messages)).toBe('Better.');
    expect(await statesOf(model)).toEqual(['failed', 'completed']);
    expect(await sessionsOf(model)).toHaveLength(1);
    const next: ChatCompletionMessageParam[] = [...messages, assistant('Better.'), user('More')];
    await ask(model, next);
    expect(await sessionsOf(model)).toHaveLength(1);
    expect((await transcriptsOf(model))[0]?.filter((line) => line === 'user: Hi')).toHaveLength(1);
  });

  test('is one client’s: of two that go on from the same answer, the second finds its place taken when it gets the lock', async () => {
    const model = nextModel([{ text: 'Hello!' }, { text: 'Next.' }]);
    await ask(model, [user('Hi')]);
    const [session] = await sessionsOf(model);
    const { conversation_head: answered } = session ?? {};
    if (answered == null || session === undefined) throw new Error('nothing was told');
    // Without the limit of the service: who waits for a lock here waits for the other one.
    const db = openDatabase({ connectionString: started.service.deps.databaseUrl });
    const owner = { tenantId: 'default', agentName: model };
    const take = (tx: Tx) => takeTurn(tx, owner, { answered }, () => true);
    let second: Promise<TakenTurn | null> | undefined;
    await db.transaction().execute(async (one) => {
      const found = await take(one);
      second = db.transaction().execute(take);
      await eventually(async () => {
        const { rows } = await sql`
          select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
            and query like '%from "sessions"%'`.execute(db);
        return rows.length > 0;
      }, 'the second one has found the session, too, and waits for it');
      if (found === null) throw new Error('not found');
      const turn = { ...found.turn, runId: started.service.deps.newId() };
      await storeTurn(one, session.id, { asked: Buffer.from('asked'), turn, readerId: started.service.deps.newId() });
    });
    expect(await second).toBeNull();
    await db.destroy();
  });

  test('is one client’s: two that go on at the same moment have a session each', async () => {
    const model = nextModel([{ text: 'Hello!' }, { text: 'Next.' }]);
    await ask(model, [user('Hi')]);
    const said = ['from one', 'from two'];
    await Promise.all(said.map((content) => ask(model, [user('Hi'), assistant('Hello!'), user(content)])));
    const heard = (await transcriptsOf(model)).map((lines) => lines.filter((line) => line.startsWith('user: from')));
    expect(heard.map(({ length }) => length)).toEqual([1, 1]);
    expect(heard.flat().toSorted()).toEqual(['user: from one', 'user: from two']);
  });

  test('was asked before its answer: a message over another way that comes first is not lost from sight', async () => {
    const model = nextModel([
      { text: 'Hello!', gates: { beforeEnd: 'between' } },
      { text: 'Other.' },
      { text: 'Next.' },
    ]);
    const first = ask(model, [user('Hi')]);
    await gate('between').reached;
    const [session] = await sessionsOf(model);
    const sent = await fetch(`${started.url}/v1/sessions/ses_${session?.id.replaceAll('-', '')}/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ content: 'A secret.', delivery: 'followup' }),
    });
    expect(sent.status).toBe(202);
    gate('between').release();
    expect(await first).toBe('Hello!');
    expect((await sessionsOf(model))[0]).toMatchObject({ conversation_head: null, conversation_reader_id: null });
    await ask(model, [user('Hi'), assistant('Hello!'), user('More')]);
    expect(await sessionsOf(model)).toHaveLength(2);
  });

  test('was removed while it waited: asked again it says what it said', async () => {
    const model = nextModel([{ text: 'First.', gates: { beforeEnd: 'busy' } }, { text: 'Second.' }]);
    const headers = { 'x-session-id': `removed from ${model}` };
    const first = ask(model, [user('One')], {}, headers);
    await gate('busy').reached;
    const removed = expect(ask(model, [user('Two')], {}, headers)).rejects.toThrow(OpenAI.APIError);
    const waits = async () => {
      const inbox = started.service.deps.db.selectFrom('inbox').selectAll();
      return (await inbox.where('consumed_message_seq', 'is', null).execute()).length === 1;
    };
    await eventually(waits, 'the second one waits');
    const [session] = await sessionsOf(model);
    const queue = `${started.url}/v1/sessions/ses_${session?.id.replaceAll('-', '')}/queue`;
    expect((await fetch(queue, { method: 'DELETE' })).status).toBe(200);
    await removed;
    const again = ask(model, [user('Two')], {}, headers);
    await eventually(waits, 'it waits again');
    gate('busy').release();
    expect([await first, await again]).toEqual(['First.', 'Second.']);
    expect(await transcriptsOf(model)).toEqual([['user: One', 'assistant: First.', 'user: Two', 'assistant: Second.']]);
  });

  describe('and is asked again by the library', () => {
    /** A client whose first connection breaks when `breaks` says so; the library tries again by itself. */
    const retrying = (breaks: (response: Promise<Response>, cut: AbortController) => Promise<void>): OpenAI => {
      let attempts = 0;
      return new OpenAI({
        baseURL: `${started.url}/v1`,
        apiKey: 'none',
        maxRetries: 2,
        fetch: async (url, init) => {
          if (attempts++ > 0) return fetch(url, init);
          const cut = new AbortController();
          const response = fetch(url, { ...init, signal: cut.signal });
          response.catch(() => undefined);
          await breaks(response, cut);
          throw new TypeError('fetch failed');
        },
      });
    };

    test('while it is at work: the run is the same', async () => {
      const model = nextModel([{ text: 'Slow.', gates: { beforeEnd: 'cut' } }]);
      const own = retrying(async (_response, cut) => {
        await gate('cut').reached;
        cut.abort();
        gate('cut').release();
      });
      const { choices } = await own.chat.completions.create({ model, messages: [user('Hi')] });
      expect(choices[0]?.message.content).toBe('Slow.');
      expect(await statesOf(model)).toEqual(['completed']);
    });

    test('after its end, of which nothing arrived: it is told once more, with the same usage', async () => {
      const model = nextModel([{ text: 'Lost.' }]);
      let lost: { id?: string; usage?: object } = {};
      const own = retrying(async (response) => {
        lost = (await (await response).json()) as typeof lost;
      });
      const { choices, usage, id } = await own.chat.completions.create({ model, messages: [user('Hi')] });
      expect(choices[0]?.message.content).toBe('Lost.');
      expect({ id, usage }).toMatchObject({ id: lost.id, usage: lost.usage });
      expect(await statesOf(model)).toEqual(['completed']);
    });

    test('with an Idempotency-Key: as often as it likes, until the conversation goes on', async () => {
      const model = nextModel([{ text: 'Keyed.' }, { text: 'More.' }]);
      const once = () => ask(model, [user('Hi')], {}, { 'idempotency-key': 'my-key' });
      expect([await once(), await once()]).toEqual(['Keyed.', 'Keyed.']);
      expect(await ask(model, [user('Hi')], {}, { 'idempotency-key': 'another' })).toBe('Keyed.');
      expect(await sessionsOf(model)).toHaveLength(2);
      expect(await statesOf(model)).toEqual(['completed', 'completed']);
    });

    test('in a session with a name, likewise', async () => {
      const model = nextModel([{ text: 'Slow.', gates: { beforeEnd: 'named-cut' } }]);
      const own = retrying(async (_response, cut) => {
        await gate('named-cut').reached;
        cut.abort();
        gate('named-cut').release();
      });
      const headers = { 'x-session-id': `named ${model}` };
      const { choices } = await own.chat.completions.create({ model, messages: [user('Hi')] }, { headers });
      expect(choices[0]?.message.content).toBe('Slow.');
      expect(await statesOf(model)).toEqual(['completed']);
    });

    test('before its run is cancelled: the run goes on for who came back', async () => {
      const model = nextModel([{ text: 'Slow.', gates: { beforeEnd: 'back' } }]);
      const request = (isRetry: boolean) =>
        startDirectly({ model, messages: [{ role: 'user', content: 'Hi' }] }, isRetry);
      const first = await request(false);
      await gate('back').reached;
      const left = goAway(first);
      expect((await request(true)).runId).toBe(first.runId);
      await left;
      expect(await statesOf(model)).toEqual(['running']);
      gate('back').release();
      await eventually(async () => (await statesOf(model))[0] === 'completed', 'the run goes on');
    });

    test('and was told calls: they stay open for who came back, whoever went away before', async () => {
      const model = nextModel([
        { toolCalls: [{ name: 'weather', input: {} }], gates: { beforeEnd: 'calls' } },
        { text: 'Sun.' },
      ]);
      const fields = { model, messages: [user('Weather?')], tools: [WEATHER] };
      const first = await startDirectly(fields, false);
      await gate('calls').reached;
      const left = goAway(first);
      const second = client.chat.completions.create(fields, { headers: { 'x-stainless-retry-count': '1' } });
      await eventually(async () => {
        const [session] = await sessionsOf(model);
        return ![null, first.readerId].includes(session?.conversation_reader_id ?? null);
      }, 'the second one is told the answer');
      gate('calls').release();
      const { choices } = await second;
      const message = choices[0]?.message;
      expect(choices[0]?.finish_reason).toBe('tool_calls');
      await left;
      expect(await statesOf(model)).toEqual(['requires_action']);
      const result = { role: 'tool', tool_call_id: message?.tool_calls?.[0]?.id ?? '', content: 'sun' } as const;
      expect(await ask(model, [user('Weather?'), ...(message === undefined ? [] : [message]), result])).toBe('Sun.');
    });

    test('an abort of a whole answer that nobody comes back for is a cancel', async () => {
      const model = nextModel([{ text: 'Never.', gates: { beforeEnd: 'gone' } }]);
      const controller = new AbortController();
      const asked = client.chat.completions.create({ model, messages: [user('Hi')] }, { signal: controller.signal });
      const refused = expect(asked).rejects.toThrow(OpenAI.APIUserAbortError);
      await gate('gone').reached;
      controller.abort();
      await refused;
      await eventually(async () => (await statesOf(model))[0] === 'cancelled', 'the run is cancelled');
    });
  });

  describe('with results of tools', () => {
    const calls: Replies = [
      { toolCalls: [{ name: 'weather', input: { city: 'Rome' } }] },
      { text: 'Sun.' },
      { text: 'Bye.' },
    ];
    async function askedFor(model: string, headers = {}): Promise<ChatCompletionMessageParam[]> {
      const fields = { model, messages: [user('Weather?')], tools: [WEATHER] };
      const { choices } = await client.chat.completions.create(fields, { headers });
      expect(choices[0]?.finish_reason).toBe('tool_calls');
      return [user('Weather?'), ...choices.map(({ message }) => message)];
    }
    const resultFor = (messages: ChatCompletionMessageParam[], content: string): ChatCompletionMessageParam => {
      const last = messages.at(-1);
      const id = last?.role === 'assistant' ? last.tool_calls?.[0]?.id : undefined;
      return { role: 'tool', tool_call_id: id ?? '', content };
    };

    test('that were taken already is told the same; other results are refused', async () => {
      const model = nextModel(calls);
      const messages = await askedFor(model);
      const given = [...messages, resultFor(messages, 'sun')];
      expect([await ask(model, given), await ask(model, given)]).toEqual(['Sun.', 'Sun.']);
      await expect(ask(model, [...messages, resultFor(messages, 'snow')])).rejects.toMatchObject({
        status: 409,
        code: 'already_answered',
      });
      expect(await ask(model, [...given, assistant('Sun.'), user('Thanks')])).toBe('Bye.');
      // The conversation has gone on, and what came of the calls is what it was.
      expect(await ask(model, given)).toBe('Sun.');
      expect(await statesOf(model)).toEqual(['completed', 'completed']);
      expect(await sessionsOf(model)).toHaveLength(1);
    });

    test('goes on after its run has failed: the results are taken, and the run is not the first one', async () => {
      const model = nextModel(calls);
      const messages = await askedFor(model);
      const given = [...messages, resultFor(messages, 'sun')];
      started.service.simulator.fault(model, [{ status: 401 }]);
      await expect(ask(model, given)).rejects.toMatchObject({ code: 'auth' });
      expect(await ask(model, given)).toBe('Sun.');
      expect(await statesOf(model)).toEqual(['failed', 'completed']);
      expect(await sessionsOf(model)).toHaveLength(1);
    });

    test('and something else that the user says goes on after an abort', async () => {
      const model = nextModel([
        { toolCalls: [{ name: 'weather', input: { city: 'Rome' } }] },
        { text: 'Sun and more.', chunkChars: 3, gates: { afterChunks: { count: 2, gate: 'results' } } },
      ]);
      const messages = await askedFor(model);
      const given = [...messages, resultFor(messages, 'sun')];
      await abortAt('results', model, given);
      started.service.simulator.script(model, [{ text: 'Then.' }]);
      expect(await ask(model, [...given, user('And?')])).toBe('Then.');
      expect(await sessionsOf(model)).toHaveLength(1);
    });

    test('in a session with a name: they reach the run that waits, and nothing else is taken before', async () => {
      const model = nextModel(calls);
      const headers = { 'x-session-id': `tools of ${model}` };
      const messages = await askedFor(model, headers);
      await expect(ask(model, [user('Hello?')], {}, headers)).rejects.toMatchObject({ status: 409, code: 'conflict' });
      const other = nextModel(calls);
      await expect(ask(other, [resultFor(messages, 'sun')], {}, { 'x-session-id': 'nobody' })).rejects.toMatchObject({
        status: 409,
      });
      // A client that names its session need not send what was said before.
      const result = resultFor(messages, 'sun');
      expect(await ask(model, [result], {}, headers)).toBe('Sun.');
      expect(await ask(model, [result], {}, headers)).toBe('Sun.');
      expect(await statesOf(model)).toEqual(['completed']);
    });

    test('is told of a quota that is used up and of too many requests in the form of OpenAI, and can go on later', async () => {
      const model = nextModel(calls);
      const messages = await askedFor(model);
      const given = [...messages, resultFor(messages, 'sun'), user('In a word?')];
      const { deps } = started.service;
      const config = { ...deps.config, tenantTokensPerDay: 1 };
      await using full = await startApi({ ...deps, agents: CATALOGUE, config });
      const own = new OpenAI({ baseURL: `${full.url}/v1`, apiKey: 'none', maxRetries: 0 });
      await expect(own.chat.completions.create({ model, messages: given })).rejects.toMatchObject({
        status: 429,
        code: 'insufficient_quota',
        type: 'insufficient_quota',
      });
      await expect(own.chat.completions.create({ model, messages: given })).rejects.toThrow(OpenAI.RateLimitError);
      // Nothing of it was taken: the results are not half given.
      expect(await statesOf(model)).toEqual(['requires_action']);
      expect(await ask(model, given)).toBe('Sun.');
    });
  });

  describe('with images', () => {
    const shows = (url: string, text = 'What is this?'): ChatCompletionMessageParam => ({
      role: 'user',
      content: [
        { type: 'text', text },
        { type: 'image_url', image_url: { url } },
      ],
    });
    const filesOf = async (model: string) => {
      const { db } = started.service.deps;
      const [session] = await sessionsOf(model);
      const messages = await listMessages(db, 'default', session?.id ?? '', 0, 100);
      return messages.flatMap(({ parts }) => parts.flatMap((part) => (part.type === 'file' ? [part] : [])));
    };

    test('keeps them as blobs and goes on in its session; another image is another conversation', async () => {
      const model = nextModel([{ text: 'A square.' }, { text: 'Red.' }]);
      expect(await ask(model, [shows(DATA_URL)])).toBe('A square.');
      expect(await filesOf(model)).toMatchObject([{ mediaType: 'image/png', url: expect.stringMatching(/^@blob:/) }]);
      expect(await ask(model, [shows(DATA_URL), assistant('A square.'), user('Which colour?')])).toBe('Red.');
      expect(await sessionsOf(model)).toHaveLength(1);
      const another = shows('https://example.com/a.png');
      await ask(model, [another, assistant('A square.'), user('Which colour?')]);
      expect(await sessionsOf(model)).toHaveLength(2);
    });

    test('imports those of a conversation that nobody knows', async () => {
      const model = nextModel([{ text: 'Red.' }]);
      const remote = shows('https://example.com/photo.JPG?size=2');
      await ask(model, [shows(DATA_URL), assistant('A square.'), remote]);
      expect(await filesOf(model)).toMatchObject([
        { mediaType: 'image/png', url: expect.stringMatching(/^@blob:/) },
        { mediaType: 'image/jpeg', url: 'https://example.com/photo.JPG?size=2' },
      ]);
    });

    test('is refused with something that is none', async () => {
      const model = nextModel([{ text: 'Red.' }]);
      for (const url of ['data:image/png;base64,AAEC', 'https://example.com/photo', 'file:///etc/passwd']) {
        await expect(ask(model, [shows(url)])).rejects.toThrow(OpenAI.BadRequestError);
      }
      expect(await sessionsOf(model)).toEqual([]);
    });
  });

  // The last one: from now on every request needs a key.
  test('is told of too many requests between a call and its result', async () => {
    const model = nextModel([{ toolCalls: [{ name: 'weather', input: {} }] }, { text: 'Sun.' }]);
    const key = await createTestKey(started.service.deps.db);
    const { deps } = started.service;
    // The first request of a minute is let through; `limits.test.ts` has the numbers.
    await using api = await startApi({ ...deps, agents: CATALOGUE, config: { ...deps.config, requestsPerMinute: 1 } });
    const own = new OpenAI({ baseURL: `${api.url}/v1`, apiKey: key.secret, maxRetries: 0 });
    const messages = [user('Weather?')];
    const first = await own.chat.completions.create({ model, messages, tools: [WEATHER] });
    const [message] = first.choices.map((choice) => choice.message);
    const id = message?.tool_calls?.[0]?.id ?? '';
    if (message !== undefined) messages.push(message, { role: 'tool', tool_call_id: id, content: 'sun' });
    const limited = async (): Promise<never> => {
      for (;;) await own.models.list();
    };
    await expect(limited()).rejects.toMatchObject({
      status: 429,
      code: 'rate_limit_exceeded',
      type: 'rate_limit_error',
    });
    await expect(own.chat.completions.create({ model, messages })).rejects.toThrow(OpenAI.RateLimitError);
    expect(await statesOf(model)).toEqual(['requires_action']);
  });
});
