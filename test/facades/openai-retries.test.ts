import OpenAI from 'openai';
import { describe, expect, test } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
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

  test('and was told calls: they stay open, although the first request has gone away', async () => {
    const model = nextModel([
      { toolCalls: [{ name: 'weather', input: {} }], gates: { beforeEnd: 'calls' } },
      { text: 'Sun.' },
    ]);
    const fields = { model, messages: [user('Weather?')], tools: [WEATHER] };
    const first = await startDirectly(fields, false);
    await gate('calls').reached;
    await goAway(first);
    const second = await startDirectly(fields, true);
    expect(second.runId).toBe(first.runId);
    gate('calls').release();
    await eventually(async () => (await statesOf(model))[0] === 'requires_action', 'the run waits for the client');
    const { choices } = await client().chat.completions.create(fields, { headers: { 'x-stainless-retry-count': '1' } });
    const message = choices[0]?.message;
    expect(choices[0]?.finish_reason).toBe('tool_calls');
    const result = { role: 'tool', tool_call_id: message?.tool_calls?.[0]?.id ?? '', content: 'sun' } as const;
    expect(await ask(model, [user('Weather?'), ...(message === undefined ? [] : [message]), result])).toBe('Sun.');
    expect(await statesOf(model)).toEqual(['completed']);
  });

  test('for a stream without a key begins anew: the first run ends with its client', async () => {
    const model = nextModel([{ text: 'Never.', gates: { beforeEnd: 'first' } }]);
    const body = { model, messages: [user('Hi')] };
    const first = await startDirectly(body, false, true);
    await gate('first').reached;
    service().simulator.script(model, [{ text: 'Second.' }]);
    const second = await startDirectly(body, true, true);
    expect(second.sessionId).not.toBe(first.sessionId);
    await goAway(first, true);
    await eventually(async () => (await statesOf(model)).includes('cancelled'), 'the first run is cancelled');
    await eventually(async () => (await statesOf(model)).includes('completed'), 'the second run completes');
  });

  test('for a whole answer never reads a stream, which could end with another client', async () => {
    const model = nextModel([{ text: 'Streamed.', gates: { beforeEnd: 'streamed' } }]);
    const streamed = await startDirectly({ model, messages: [user('Hi')] }, false, true);
    await gate('streamed').reached;
    service().simulator.script(model, [{ text: 'Whole.' }]);
    expect(await ask(model, [user('Hi')], {}, { 'x-stainless-retry-count': '1' })).toBe('Whole.');
    await goAway(streamed, true);
    gate('streamed').release();
  });

  test('after its run was cancelled: it begins anew', async () => {
    const model = nextModel([{ text: 'Never.', gates: { beforeEnd: 'anew' } }]);
    const body = { model, messages: [user('Hi')] };
    const { runId } = await startDirectly(body, false);
    await gate('anew').reached;
    await fetch(`${url()}/v1/runs/${formatId('run', runId)}/cancel`, { method: 'POST' });
    await eventually(async () => (await statesOf(model))[0] === 'cancelled', 'the run is cancelled');
    service().simulator.script(model, [{ text: 'Anew.' }]);
    expect(await ask(model, [user('Hi')], {}, { 'x-stainless-retry-count': '1' })).toBe('Anew.');
    expect(await sessionsOf(model)).toHaveLength(2);
  });
});

describe('a client that goes away', () => {
  const countAnswered = async (): Promise<number> => {
    const text = await (await fetch(`${url()}/metrics`)).text();
    const counts = text.matchAll(/^baton_http_requests_total\{.*chat\/completions.*\} (\d+)$/gm);
    return counts.reduce((sum, [, count]) => sum + Number(count), 0);
  };

  test('cancels nothing where it waited for a whole answer, which a retry would read', async () => {
    const model = nextModel([{ text: 'Late.', gates: { beforeEnd: 'gone' } }]);
    const before = await countAnswered();
    const controller = new AbortController();
    const answer = client().chat.completions.create({ model, messages: [user('Hi')] }, { signal: controller.signal });
    const refused = expect(answer).rejects.toThrow(OpenAI.APIUserAbortError);
    await gate('gone').reached;
    controller.abort();
    await refused;
    await eventually(async () => (await countAnswered()) === before + 1, 'the service knows that the client has gone');
    gate('gone').release();
    await eventually(async () => (await statesOf(model))[0] === 'completed', 'the run completes');
    expect(await runsOf(model)).toMatchObject([{ cancel_requested_at: null }]);
  });

  test('does not cancel a run for which a newer message waits', async () => {
    const model = nextModel([{ text: 'First.', gates: { beforeEnd: 'newer' } }, { text: 'Second.' }]);
    const { sessionId, ...first } = await startDirectly({ model, messages: [user('Hi')] }, false, true);
    await gate('newer').reached;
    const sent = await fetch(`${url()}/v1/sessions/${formatId('session', sessionId)}/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ content: 'More.', delivery: 'followup' }),
    });
    expect(sent.status).toBe(202);
    await goAway({ sessionId, ...first }, true);
    gate('newer').release();
    await eventually(async () => (await statesOf(model)).join() === 'completed,completed', 'both runs complete');
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
