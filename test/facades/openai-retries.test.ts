import OpenAI from 'openai';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { conversationSuite, user, WEATHER } from './openai-conversations-fixture.ts';

const { url, client, nextModel, gate, sessionsOf, statesOf, ask, startDirectly, goAway } = conversationSuite();

describe('a request that the library makes again', () => {
  /** A client whose first connection breaks when `breaks` says so; the library tries again by itself. */
  const retrying = (breaks: (response: Promise<Response>, cut: AbortController) => Promise<void>): OpenAI => {
    let attempts = 0;
    return new OpenAI({
      baseURL: `${url()}/v1`,
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
    const second = client().chat.completions.create(fields, { headers: { 'x-stainless-retry-count': '1' } });
    await eventually(async () => {
      const [session] = await sessionsOf(model);
      return session?.conversation_readers.some((reader) => reader !== first.readerId) === true;
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

  const READERS = [
    { leaving: 'the newest', order: [1, 0] },
    { leaving: 'the oldest', order: [0, 1] },
  ] as const;

  test.each(READERS)(
    'is told beside the first one: $leaving goes away, and the other one hears the end',
    async ({ order: [leaving, staying] }) => {
      const name = `hears-${leaving}`;
      const model = nextModel([{ text: 'Slow.', gates: { beforeEnd: name } }]);
      const body = { model, messages: [user('Hi')] };
      const headers = { 'x-stainless-retry-count': String(staying) };
      const begin = () => startDirectly(body, leaving === 1);
      const early = leaving === 0 ? await begin() : null;
      const told = Array.fromAsync(await client().chat.completions.create({ ...body, stream: true }, { headers }));
      await gate(name).reached;
      await goAway(early ?? (await begin()), true);
      expect(await statesOf(model)).toEqual(['running']);
      gate(name).release();
      expect((await told).map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe('Slow.');
      expect(await statesOf(model)).toEqual(['completed']);
    },
  );

  test.each(READERS)(
    'is told beside the first one: both go away, $leaving first, and the run is cancelled',
    async ({ order }) => {
      const { model, streams } = await twoReaders(`both-${order[0]}`);
      for (const [at, stream] of order.entries()) {
        expect(await statesOf(model)).toEqual(['running']);
        streams[stream]?.abort();
        await readersOf(model, 1 - at);
      }
      await eventually(async () => (await statesOf(model))[0] === 'cancelled', 'the run is cancelled');
    },
  );

  const readersOf = (model: string, count: number) =>
    eventually(
      async () => (await sessionsOf(model))[0]?.conversation_readers.length === count,
      `${count} are told the answer`,
    );

  /** A request and one that the library makes again, over a connection each, while the model answers. */
  async function twoReaders(name: string) {
    const model = nextModel([{ text: 'Slow.', gates: { beforeEnd: name } }]);
    const streams: { abort: () => void; told: Promise<string> }[] = [];
    for (const attempt of [0, 1]) {
      const headers = { 'x-stainless-retry-count': String(attempt) };
      const body = { model, messages: [user('Hi')], stream: true as const };
      const stream = await client().chat.completions.create(body, { headers });
      const told = (async () => {
        let text = '';
        for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
        return text;
      })();
      told.catch(() => undefined);
      streams.push({ abort: () => stream.controller.abort(), told });
      await readersOf(model, attempt + 1);
    }
    await gate(name).reached;
    return { model, streams };
  }

  test('an abort of a whole answer that nobody comes back for is a cancel', async () => {
    const model = nextModel([{ text: 'Never.', gates: { beforeEnd: 'gone' } }]);
    const controller = new AbortController();
    const asked = client().chat.completions.create({ model, messages: [user('Hi')] }, { signal: controller.signal });
    const refused = expect(asked).rejects.toThrow(OpenAI.APIUserAbortError);
    await gate('gone').reached;
    controller.abort();
    await refused;
    await eventually(async () => (await statesOf(model))[0] === 'cancelled', 'the run is cancelled');
  });
});
