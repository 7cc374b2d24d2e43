import OpenAI from 'openai';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { assistant, conversationSuite, user, WEATHER } from './openai-conversations-fixture.ts';

const { service, url, client, nextModel, gate, sessionsOf, statesOf, runsOf, ask, startDirectly, goAway } =
  conversationSuite();

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

  test('before its run is cancelled: the run goes on', async () => {
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

  test('and was told calls: they stay open, although the first request has gone away', async () => {
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
      return session?.conversation_reader !== first.readerId;
    }, 'the second one reads the answer');
    gate('calls').release();
    const { choices } = await second;
    const message = choices[0]?.message;
    expect(choices[0]?.finish_reason).toBe('tool_calls');
    await left;
    expect(await statesOf(model)).toEqual(['requires_action']);
    const result = { role: 'tool', tool_call_id: message?.tool_calls?.[0]?.id ?? '', content: 'sun' } as const;
    expect(await ask(model, [user('Weather?'), ...(message === undefined ? [] : [message]), result])).toBe('Sun.');
  });

  test('is the newest reader: when it goes away, the run is cancelled', async () => {
    const model = nextModel([{ text: 'Slow.', gates: { beforeEnd: 'newest' } }]);
    const body = { model, messages: [user('Hi')] };
    const first = await startDirectly(body, false);
    await gate('newest').reached;
    const second = await startDirectly(body, true);
    await goAway(first, true);
    expect(await statesOf(model)).toEqual(['running']);
    await goAway(second, true);
    await eventually(async () => (await statesOf(model))[0] === 'cancelled', 'the run is cancelled');
  });

  test('after its run was cancelled: it begins anew', async () => {
    const model = nextModel([{ text: 'Never.', gates: { beforeEnd: 'anew' } }]);
    const body = { model, messages: [user('Hi')] };
    const first = await startDirectly(body, false);
    await gate('anew').reached;
    await goAway(first, true);
    service().simulator.script(model, [{ text: 'Anew.' }]);
    expect(await ask(model, [user('Hi')], {}, { 'x-stainless-retry-count': '1' })).toBe('Anew.');
    expect(await sessionsOf(model)).toHaveLength(2);
  });

  test('an abort of a whole answer is a cancel, if no retry follows', async () => {
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

describe('requests with the same Idempotency-Key', () => {
  const KEY = { headers: { 'idempotency-key': 'my-key' } };
  const textOf = async (model: string, messages = [user('Hi')]): Promise<string> => {
    const stream = await client().chat.completions.create({ model, messages, stream: true }, KEY);
    const chunks = await Array.fromAsync(stream);
    return chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('');
  };
  const askedTimes = (model: string): number =>
    service().simulator.requests.filter(({ rawBody }) => rawBody?.includes(`"${model}"`)).length;

  test('at the same moment: both read the one answer while it streams', async () => {
    const model = nextModel([
      { text: 'One two three.', chunkChars: 3, gates: { afterChunks: { count: 2, gate: 'both' } } },
    ]);
    const both = [textOf(model), textOf(model)];
    await gate('both').reached;
    const third = await client().chat.completions.create({ model, messages: [user('Hi')], stream: true }, KEY);
    gate('both').release();
    const chunks = await Array.fromAsync(third);
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe('One two three.');
    expect(await Promise.all(both)).toEqual(['One two three.', 'One two three.']);
    expect(await statesOf(model)).toEqual(['completed']);
    expect(askedTimes(model)).toBe(1);
  });

  test('have the one answer for as long as its session is kept; another key or conversation has its own', async () => {
    const model = nextModel([{ text: 'One.' }, { text: 'Two.' }]);
    expect([await textOf(model), await textOf(model)]).toEqual(['One.', 'One.']);
    expect(await textOf(model, [user('Hi'), assistant('One.'), user('More')])).toBe('Two.');
    expect(await textOf(model)).toBe('One.');
    expect(await sessionsOf(model)).toHaveLength(1);
    expect(await statesOf(model)).toEqual(['completed', 'completed']);
    await ask(model, [user('Hi')], {}, { 'idempotency-key': 'another' });
    expect(await sessionsOf(model)).toHaveLength(2);
  });

  test('find the answer of a run that went on although the first client has gone', async () => {
    const model = nextModel([
      { text: 'One two three.', chunkChars: 3, gates: { afterChunks: { count: 2, gate: 'kept' } } },
    ]);
    const first = await client().chat.completions.create({ model, messages: [user('Hi')], stream: true }, KEY);
    await gate('kept').reached;
    first.controller.abort();
    const hasGone = async () => /^baton_sse_readers 0$/m.test(await (await fetch(`${url()}/metrics`)).text());
    await eventually(hasGone, 'the service knows that the client has gone');
    gate('kept').release();
    await eventually(async () => (await statesOf(model))[0] !== 'running', 'the run ends');
    expect(await textOf(model)).toBe('One two three.');
    expect(await runsOf(model)).toMatchObject([{ status: 'completed', cancel_requested_at: null }]);
  });
});

test('two requests with the same conversation and without a key have a session each', async () => {
  const model = nextModel(() => ({ text: 'Hello!' }));
  await Promise.all([ask(model, [user('Hi')]), ask(model, [user('Hi')])]);
  expect(await sessionsOf(model)).toHaveLength(2);
  const goOn = () => ask(model, [user('Hi'), assistant('Hello!'), user('More')]);
  await goOn();
  await goOn();
  expect(await sessionsOf(model)).toHaveLength(2);
  await goOn();
  expect(await sessionsOf(model)).toHaveLength(3);
});
