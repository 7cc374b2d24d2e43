import { describe, expect, test } from 'vitest';
import { formatId, parseId } from '../../src/domain/ids.ts';
import { newId } from '../../src/platform/new-id.ts';
import { answerStep, claimJob } from './play-worker.ts';
import { startTestApi } from './test-api.ts';

describe('sending a message', () => {
  test('to an idle session starts a run, adds its job and announces its events', async () => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const { status, body } = await api.send(sessionId, 'hello');
    expect(status).toBe(202);
    expect(body).toEqual({
      messageId: expect.stringMatching(/^msg_[0-9a-f]{32}$/),
      runId: expect.stringMatching(/^run_[0-9a-f]{32}$/),
      queued: false,
      position: 0,
      status: 'queued',
    });
    const runId = parseId('run', String(body['runId']));
    expect(api.added).toEqual([{ runId, kind: 'step', no: 1, dispatch: 1 }]);
    expect(api.announced).toEqual([{ sessionId: parseId('session', sessionId), seq: 1 }]);
    expect((await api.call('GET', `/v1/sessions/${sessionId}`)).body).toMatchObject({
      status: 'busy',
      activeRunId: body['runId'],
    });
  });

  test('may choose any 32 digits as its id, also those that no version of UUID has', async () => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const id = `msg_${'0f'.repeat(16)}`;
    await api.call('POST', `/v1/sessions/${sessionId}/messages`, { content: 'one', id });
    await answerStep(api.db, await claimJob(api.db, api.added[0]), 'taken');
    const { status, body } = await api.call('GET', `/v1/sessions/${sessionId}/messages`);
    expect([status, body['messages']]).toMatchObject([200, [{ id }, { role: 'assistant' }]]);
    expect((await api.call('GET', `/v1/sessions/${sessionId}/context`)).status).toBe(200);
  });

  test('to a busy session waits in line and adds no job', async () => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const first = await api.send(sessionId, 'one');
    await claimJob(api.db, api.added[0]);
    const second = await api.send(sessionId, 'two');
    const third = await api.send(sessionId, 'three', { delivery: 'steer' });
    expect(second.body).toMatchObject({ runId: first.body['runId'], queued: true, position: 1, status: 'running' });
    expect(third.body).toMatchObject({ runId: first.body['runId'], queued: true, position: 2, status: 'running' });
    expect(api.added).toHaveLength(1);
    const queue = await api.call('GET', `/v1/sessions/${sessionId}/queue`);
    expect(queue.body['messages']).toMatchObject([
      { id: second.body['messageId'], position: 1, delivery: 'steer', content: [{ type: 'text', text: 'two' }] },
      { id: third.body['messageId'], position: 2, delivery: 'steer', content: [{ type: 'text', text: 'three' }] },
    ]);
  });

  test('takes parts as well as text', async () => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const content = [
      { type: 'text', text: 'one' },
      { type: 'text', text: 'two' },
    ];
    expect((await api.call('POST', `/v1/sessions/${sessionId}/messages`, { content })).status).toBe(202);
    expect((await api.call('GET', `/v1/sessions/${sessionId}/queue`)).body).toMatchObject({ messages: [{ content }] });
  });

  test('limits the steps of the run that it starts', async () => {
    await using api = await startTestApi();
    const { body } = await api.send(await api.createSession(), 'hello', { limits: { maxSteps: 3 } });
    expect((await api.call('GET', `/v1/runs/${body['runId']}`)).body['maxSteps']).toBe(3);
  });

  test.each<[string, unknown, string]>([
    ['no schema', {}, 'output.schema'],
    ['a schema that is none', { schema: 'x' }, 'output.schema'],
    [
      'a wrong keyword',
      { schema: { type: 'object', properties: { a: { type: 'no' } } } },
      'output.schema.properties.a.type',
    ],
    ['a schema that is too large', { schema: { type: 'object', title: 'x'.repeat(40_000) } }, 'output.schema'],
    ['an unknown mode', { schema: { type: 'object' }, mode: 'best' }, 'output.mode'],
    ['another field', { schema: { type: 'object' }, strict: true }, 'output.strict'],
  ])('refuses a result with %s, and names the field', async (_name, output, path) => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const refused = await api.send(sessionId, 'hello', { output });
    expect(refused).toMatchObject({ status: 400, body: { code: 'invalid_request', errors: [{ path }] } });
    const created = await api.call('POST', '/v1/sessions', { agent: 'coder', overrides: { output } });
    expect(created).toMatchObject({ status: 400, body: { errors: [{ path: `overrides.${path}` }] } });
    expect(api.added).toEqual([]);
  });

  test('with the same id again gives the same answer and stores nothing more', async () => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const id = formatId('message', newId());
    const first = await api.send(sessionId, 'hello', { id });
    const again = await api.send(sessionId, 'hello', { id });
    expect(again.status).toBe(202);
    expect(again.body).toEqual(first.body);
    expect(first.body['messageId']).toBe(id);
    expect(await api.db.selectFrom('inbox').select('id').execute()).toHaveLength(1);
    expect(await api.db.selectFrom('runs').select('id').execute()).toHaveLength(1);
    expect(api.added).toHaveLength(1);
  });

  test('with an id that another session has is a conflict', async () => {
    await using api = await startTestApi();
    const id = formatId('message', newId());
    await api.send(await api.createSession(), 'hello', { id });
    const refused = await api.send(await api.createSession(), 'hello', { id });
    expect(refused.status).toBe(409);
    expect(refused.body).toMatchObject({ code: 'conflict', detail: expect.stringContaining(id) });
  });

  test('twice at the same instant starts one run; the other message waits', async () => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const answers = await Promise.all([api.send(sessionId, 'one'), api.send(sessionId, 'two')]);
    expect(answers.map((answer) => answer.status)).toEqual([202, 202]);
    expect(new Set(answers.map((answer) => answer.body['queued']))).toEqual(new Set([true, false]));
    expect(new Set(answers.map((answer) => answer.body['runId'])).size).toBe(1);
    expect(await api.db.selectFrom('runs').select('id').execute()).toHaveLength(1);
    expect(await api.db.selectFrom('inbox').select('id').execute()).toHaveLength(2);
    expect(api.added).toHaveLength(1);
  });

  test('with the same id to two sessions at the same instant stores it once', async () => {
    await using api = await startTestApi();
    const sessions = [await api.createSession(), await api.createSession()];
    const id = formatId('message', newId());
    const answers = await Promise.all(sessions.map((sessionId) => api.send(sessionId, 'hello', { id })));
    expect(answers.map((answer) => answer.status).toSorted()).toEqual([202, 409]);
    expect(await api.db.selectFrom('inbox').select('id').execute()).toHaveLength(1);
  });

  test('succeeds when the queue is away: the run is stored and the failure is logged', async () => {
    const away = async (): Promise<never> => {
      throw new Error('connect ECONNREFUSED');
    };
    await using api = await startTestApi({
      jobs: {
        backend: 'redis',
        add: away,
        stateOf: away,
        hasten: away,
        isPaused: away,
        takerOf: away,
        takenBy: away,
        consume: away,
        deliveries: { add: away, consume: away },
        counts: away,
        countFailed: away,
        removeFailed: away,
        bullQueues: () => [],
        probe: away,
        [Symbol.asyncDispose]: async () => undefined,
      },
    });
    const { status, body } = await api.send(await api.createSession(), 'hello');
    expect(status).toBe(202);
    const runId = parseId('run', String(body['runId']));
    expect(api.logged).toMatchObject([{ event: 'jobs_not_enqueued', runIds: [runId] }]);
    expect(await api.db.selectFrom('runs').select(['id', 'pending_kind']).execute()).toEqual([
      { id: runId, pending_kind: 'step' },
    ]);
  });
});

describe('reading the transcript', () => {
  test('gives the messages of one run, and goes back from the newest', async () => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const runs: string[] = [];
    for (const [index, content] of ['first', 'second'].entries()) {
      runs.push(String((await api.send(sessionId, content)).body['runId']));
      await answerStep(api.db, await claimJob(api.db, api.added[index]), `to the ${content}`);
    }
    const read = async (query: string) => {
      const { body } = await api.call('GET', `/v1/sessions/${sessionId}/messages?${query}`);
      const messages = body['messages'] as { seq: number; runId: string }[];
      return { seqs: messages.map(({ seq }) => seq), next: body['next'], previous: body['previous'] };
    };
    expect(await read(`runId=${runs[1]}`)).toEqual({ seqs: [3, 4], next: null, previous: null });
    expect(await read(`runId=${runs[0]}&order=desc`)).toEqual({ seqs: [2, 1], next: null, previous: null });
    expect(await read('order=desc&limit=3')).toEqual({ seqs: [4, 3, 2], next: null, previous: 2 });
    expect(await read(`order=desc&limit=1&before=4&runId=${runs[1]}`)).toEqual({ seqs: [3], next: 3, previous: null });
  });

  test('gives messages with their parts, in order and in pages', async () => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const sent = await api.send(sessionId, 'hello');
    await answerStep(api.db, await claimJob(api.db, api.added[0]), 'hi there');
    const { status, body } = await api.call('GET', `/v1/sessions/${sessionId}/messages`);
    expect(status).toBe(200);
    expect(body['next']).toBeNull();
    expect(body['messages']).toMatchObject([
      {
        id: sent.body['messageId'],
        seq: 1,
        role: 'user',
        runId: sent.body['runId'],
        step: 1,
        model: null,
        usage: null,
        parts: [{ type: 'text', text: 'hello' }],
      },
      {
        seq: 2,
        role: 'assistant',
        runId: sent.body['runId'],
        step: 1,
        model: 'simulated/coder',
        finishReason: 'stop',
        usage: { inputTokens: 12, outputTokens: 5, totalTokens: 17 },
        parts: [{ type: 'step-start' }, { type: 'text', text: 'hi there' }],
      },
    ]);
    const first = await api.call('GET', `/v1/sessions/${sessionId}/messages?limit=1`);
    expect(first.body).toMatchObject({ next: 1, messages: [{ seq: 1 }] });
    const second = await api.call('GET', `/v1/sessions/${sessionId}/messages?limit=1&after=1`);
    expect(second.body).toMatchObject({ next: null, previous: 2, messages: [{ seq: 2 }] });
    const back = await api.call('GET', `/v1/sessions/${sessionId}/messages?limit=1&before=2`);
    expect(back.body).toMatchObject({ next: 1, previous: null, messages: [{ seq: 1 }] });
    const newest = await api.call('GET', `/v1/sessions/${sessionId}/messages?limit=1&before=9007199254740991`);
    expect(newest.body).toEqual(second.body);
    expect((await api.call('GET', `/v1/sessions/${sessionId}/messages?after=1&before=2`)).status).toBe(400);
    const wrong = await api.call('GET', `/v1/sessions/${sessionId}/messages?after=1&order=desc`);
    expect(wrong).toMatchObject({ status: 400, body: { errors: [{ path: 'after' }] } });
    expect((await api.call('GET', `/v1/sessions/${sessionId}/queue`)).body).toEqual({ messages: [], nextCursor: null });
  });
});
