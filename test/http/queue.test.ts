import { describe, expect, test } from 'vitest';
import { parseId } from '../../src/domain/ids.ts';
import { finishCleanUp } from '../store/race.ts';
import { answerStep, claimJob } from './play-worker.ts';
import { startTestApi } from './test-api.ts';

/** A session whose run is at work, with a waiting message for each text. */
async function busySession(...texts: string[]) {
  const api = await startTestApi();
  const session = await api.createSession();
  const first = await api.send(session, 'Go');
  const claimed = await claimJob(api.db, api.added[0]);
  const sent: Record<string, unknown>[] = [];
  for (const text of texts) sent.push((await api.send(session, text)).body);
  const queue = `/v1/sessions/${session}/queue`;
  return {
    api,
    session,
    claimed,
    sent,
    queue,
    runId: String(first.body['runId']),
    [Symbol.asyncDispose]: api[Symbol.asyncDispose],
  };
}

describe('the queue of a session', () => {
  test('is changed, item by item', async () => {
    await using busy = await busySession('left', 'right');
    const { api, queue, sent } = busy;
    const path = `${queue}/${sent[0]?.['messageId']}`;
    const changed = await api.call('PATCH', path, { content: 'straight on', delivery: 'followup' });
    expect(changed).toMatchObject({
      status: 200,
      body: { position: 1, delivery: 'followup', content: [{ type: 'text', text: 'straight on' }] },
    });
    expect(await api.call('GET', path)).toMatchObject({ status: 200, body: changed.body });
    expect((await api.call('GET', queue)).body).toMatchObject({
      messages: [changed.body, { position: 2, delivery: 'steer' }],
      nextCursor: null,
    });
    expect((await api.call('DELETE', path)).status).toBe(204);
    expect((await api.call('DELETE', path)).status).toBe(404);
    expect((await api.call('GET', queue)).body['messages']).toMatchObject([
      { position: 1, id: sent[1]?.['messageId'] },
    ]);
  });

  test('is read in pages', async () => {
    await using busy = await busySession('1', '2', '3');
    const { api, queue, sent } = busy;
    const first = (await api.call('GET', `${queue}?limit=2`)).body;
    expect(first).toMatchObject({ messages: [{ position: 1 }, { position: 2 }], nextCursor: expect.any(String) });
    const second = (await api.call('GET', `${queue}?limit=2&cursor=${first['nextCursor']}`)).body;
    expect(second).toMatchObject({ messages: [{ position: 3, id: sent[2]?.['messageId'] }], nextCursor: null });
    // A message before the cursor may be removed before the next page is read.
    await api.call('DELETE', `${queue}/${sent[0]?.['messageId']}`);
    const again = (await api.call('GET', `${queue}?cursor=${first['nextCursor']}`)).body;
    expect(again).toMatchObject({ messages: [{ position: 2, id: sent[2]?.['messageId'] }] });
    expect((await api.call('GET', '/v1/sessions?limit=1')).status).toBe(200);
    const { nextCursor } = (await api.call('GET', `/v1/sessions?limit=1`)).body;
    expect(nextCursor).toBeNull();
    expect(await api.call('GET', `${queue}?cursor=x`)).toMatchObject({ status: 400 });
    expect(await api.call('GET', `/v1/sessions?cursor=${first['nextCursor']}`)).toMatchObject({ status: 400 });
  });

  test('is cleared at once, and says what it held', async () => {
    await using busy = await busySession('left', 'right');
    const { api, queue, sent } = busy;
    const cleared = await api.call('DELETE', queue);
    expect(cleared.body).toEqual({ removed: sent.map((message) => message['messageId']) });
    expect((await api.call('DELETE', queue)).body).toEqual({ removed: [] });
  });

  test('refuses what is taken up already, what is unknown, and what no message can say', async () => {
    await using busy = await busySession('left');
    const { api, queue, claimed, sent } = busy;
    const path = `${queue}/${sent[0]?.['messageId']}`;
    expect(await api.call('PATCH', path, { content: ' ' })).toMatchObject({ status: 400 });
    expect(await api.call('PATCH', path, { delivery: 'interrupt' })).toMatchObject({ status: 400 });
    const finished = await answerStep(api.db, claimed, 'Fine.');
    await claimJob(api.db, finished.jobs[0]);
    expect(await api.call('PATCH', path, { content: 'x' })).toMatchObject({ status: 409, body: { code: 'conflict' } });
    const unknown = await api.call('DELETE', `${queue}/msg_018f0000000070008000000000000000`);
    expect(unknown).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });

  test('tells the worker that has nothing to compact for any more, and passes on what follows a cancel', async () => {
    await using busy = await busySession();
    const { api, session, queue, claimed, runId } = busy;
    const { body } = await api.send(session, 'Then this', { delivery: 'followup' });
    await api.call('POST', `/v1/sessions/${session}/compact`);
    const { jobs } = await answerStep(api.db, claimed, 'Fine.');
    await claimJob(api.db, jobs[0]);
    expect(jobs).toMatchObject([{ runId: parseId('run', String(body['runId'])), kind: 'compaction' }]);
    expect((await api.call('DELETE', `${queue}/${body['messageId']}`)).status).toBe(204);
    expect(api.cancelled).toEqual([parseId('run', String(body['runId']))]);
    expect(runId).not.toBe(body['runId']);

    const other = await api.createSession();
    await api.send(other, 'Go');
    await api.call('POST', `/v1/sessions/${other}/prune`);
    await api.call('POST', `/v1/sessions/${other}/cancel`);
    expect(api.added.at(-1)).toMatchObject({ kind: 'prune' });
  });

  test('survives a cancel, unless the cancel clears it', async () => {
    await using busy = await busySession('left');
    const { api, queue, session } = busy;
    await api.call('POST', `/v1/sessions/${session}/cancel`, { queue: 'keep' });
    expect((await api.call('GET', queue)).body['messages']).toHaveLength(1);
    await api.call('POST', `/v1/sessions/${session}/cancel`, { queue: 'clear' });
    expect((await api.call('GET', queue)).body['messages']).toEqual([]);
  });
});

describe('sending to a session at work', () => {
  test('as an interrupt tells the worker, and promises the next run', async () => {
    await using busy = await busySession();
    const { api, session, runId } = busy;
    const { status, body } = await api.send(session, 'Stop', { delivery: 'interrupt' });
    expect({ status, body }).toMatchObject({ status: 202, body: { queued: true, position: 1, status: 'queued' } });
    expect(api.cancelled).toEqual([parseId('run', runId)]);
    expect((await api.call('GET', `/v1/runs/${body['runId']}`)).body).toMatchObject({ status: 'queued', steps: 0 });
  });

  test('is refused with 409 where the sender wants it so', async () => {
    await using busy = await busySession();
    const answer = await busy.api.send(busy.session, 'Me?', { delivery: 'reject' });
    expect(answer).toMatchObject({ status: 409, body: { code: 'session_busy' } });
  });
});

describe('POST /resume', () => {
  test('goes on with what a cancelled run left behind', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    await api.send(session, 'Go');
    await api.call('POST', `/v1/sessions/${session}/cancel`);
    const resumed = await api.call('POST', `/v1/sessions/${session}/resume`, { limits: { maxSteps: 2 } });
    expect(resumed).toMatchObject({ status: 202, body: { status: 'queued' } });
    expect(api.added.at(-1)).toMatchObject({ runId: parseId('run', String(resumed.body['runId'])), kind: 'step' });
    expect((await api.call('GET', `/v1/runs/${resumed.body['runId']}`)).body).toMatchObject({ maxSteps: 2 });
  });

  test('follows the clean-up that the session is at, with its run known from now on', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    await api.send(session, 'Go');
    await api.call('POST', `/v1/sessions/${session}/cancel`);
    await api.call('POST', `/v1/sessions/${session}/prune`);
    const tidying = await claimJob(api.db, api.added.at(-1));
    const added = api.added.length;
    const resumed = await api.call('POST', `/v1/sessions/${session}/resume`);
    expect(resumed).toMatchObject({ status: 202, body: { status: 'queued' } });
    expect(api.added).toHaveLength(added);
    const { runId } = resumed.body;
    expect((await api.call('GET', `/v1/runs/${runId}`)).body).toMatchObject({ status: 'queued', steps: 0 });
    const { jobs } = await finishCleanUp(api.db, tidying);
    expect(jobs).toMatchObject([{ runId: parseId('run', String(runId)), kind: 'step' }]);
  });

  test('is refused where there is nothing to go on with, and where something goes on', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    const resume = () => api.call('POST', `/v1/sessions/${session}/resume`);
    expect(await resume()).toMatchObject({ status: 409, body: { code: 'conflict' } });
    await api.send(session, 'Go');
    expect(await resume()).toMatchObject({ status: 409, body: { code: 'session_busy' } });
  });
});

describe('a request with an Idempotency-Key', () => {
  const key = { 'idempotency-key': 'order-17' };

  test('is carried out once, however often and in parallel it is sent', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    const path = `/v1/sessions/${session}/messages`;
    const answers = await Promise.all(Array.from({ length: 6 }, () => api.call('POST', path, { content: 'Go' }, key)));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 6 }, () => 202));
    expect(answers.filter(({ headers }) => headers.get('idempotency-replayed') === 'true')).toHaveLength(5);
    expect(api.added).toHaveLength(1);
    expect((await api.call('GET', `/v1/sessions/${session}/queue`)).body['messages']).toHaveLength(1);
  });

  test('is refused where the key came with another request', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    const path = `/v1/sessions/${session}/messages`;
    await api.call('POST', path, { content: 'Go' }, key);
    const other = { status: 409, body: { code: 'idempotency_conflict' } };
    expect(await api.call('POST', path, { content: 'Go!' }, key)).toMatchObject(other);
    const elsewhere = `/v1/sessions/${await api.createSession()}/messages`;
    expect(await api.call('POST', elsewhere, { content: 'Go' }, key)).toMatchObject(other);
  });

  test('that failed is tried again', async () => {
    await using api = await startTestApi();
    const path = '/v1/sessions/ses_018f0000000070008000000000000000/messages';
    expect(await api.call('POST', path, { content: 'Go' }, key)).toMatchObject({ status: 404 });
    expect(await api.call('POST', path, { content: 'Go' }, key)).toMatchObject({ status: 404 });
    const bad = await api.call('POST', path, { content: 'Go' }, { 'idempotency-key': 'a b' });
    expect(bad).toMatchObject({ status: 400 });
  });

  test('creates one session, and one run where it resumes', async () => {
    await using api = await startTestApi();
    const create = () => api.call('POST', '/v1/sessions', { agent: 'coder' }, key);
    const [first, second] = [await create(), await create()];
    expect(second.body).toEqual(first.body);
    expect(second).toMatchObject({ status: 201 });
    const session = String(first.body['id']);
    await api.send(session, 'Go');
    await api.call('POST', `/v1/sessions/${session}/cancel`);
    const resume = () => api.call('POST', `/v1/sessions/${session}/resume`, undefined, key);
    const [one, again] = [await resume(), await resume()];
    expect(one.status).toBe(202);
    expect(again.body).toEqual(one.body);
  });
});
