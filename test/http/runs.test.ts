import { describe, expect, test } from 'vitest';
import { parseId } from '../../src/domain/ids.ts';
import { answerStep, claimJob, failStep } from './play-worker.ts';
import { startTestApi, type TestApi } from './test-api.ts';

async function startRun(api: TestApi): Promise<{ sessionId: string; runId: string }> {
  const sessionId = await api.createSession();
  const { body } = await api.send(sessionId, 'hello');
  return { sessionId, runId: String(body['runId']) };
}

describe('reading runs', () => {
  test('tells what became of a run', async () => {
    await using api = await startTestApi();
    const { sessionId, runId } = await startRun(api);
    expect((await api.call('GET', `/v1/runs/${runId}`)).body).toMatchObject({
      id: runId,
      sessionId,
      kind: 'task',
      status: 'queued',
      reason: null,
      steps: 0,
      error: null,
      output: null,
      startedAt: null,
      finishedAt: null,
      cancelRequestedAt: null,
      traceId: null,
    });
    await answerStep(api.db, await claimJob(api.db, api.added[0]), 'done');
    expect((await api.call('GET', `/v1/runs/${runId}`)).body).toMatchObject({
      status: 'completed',
      steps: 1,
      output: { messageId: expect.stringMatching(/^msg_/), text: 'done', files: [] },
      usage: { inputTokens: 12, outputTokens: 5, reasoningTokens: 2, cacheReadTokens: 4, totalTokens: 17 },
      startedAt: expect.any(String),
      finishedAt: expect.any(String),
    });
    expect((await api.call('GET', `/v1/sessions/${sessionId}`)).body).toMatchObject({
      status: 'idle',
      activeRunId: null,
      usage: { inputTokens: 12, totalTokens: 17 },
    });
  });

  test('lists runs newest first, by status and by session, in pages', async () => {
    await using api = await startTestApi();
    const runs = [await startRun(api), await startRun(api), await startRun(api)];
    await answerStep(api.db, await claimJob(api.db, api.added[0]), 'done');
    const idsOf = async (query: string): Promise<unknown[]> => {
      const { status, body } = await api.call('GET', `/v1/runs?${query}`);
      expect(status).toBe(200);
      return (body['runs'] as { id: string }[]).map((run) => run.id);
    };
    expect(await idsOf('status=completed')).toEqual([runs[0]?.runId]);
    const listed = (await api.call('GET', '/v1/runs?status=completed')).body['runs'];
    expect(listed).toEqual([expect.not.objectContaining({ output: expect.anything() })]);
    expect(await idsOf(`sessionId=${runs[1]?.sessionId}`)).toEqual([runs[1]?.runId]);
    const first = await api.call('GET', '/v1/runs?limit=2');
    const second = await idsOf(`limit=2&cursor=${first.body['nextCursor']}`);
    const all = [...(first.body['runs'] as { id: string }[]).map((run) => run.id), ...second];
    expect(all.toSorted()).toEqual(runs.map((run) => run.runId).toSorted());
  });
});

describe('waiting for a run', () => {
  test('answers as soon as the run has ended', async () => {
    await using api = await startTestApi();
    const { runId } = await startRun(api);
    const waiting = api.call('GET', `/v1/runs/${runId}/wait`);
    await answerStep(api.db, await claimJob(api.db, api.added[0]), 'done');
    expect(await waiting).toMatchObject({ status: 200, body: { id: runId, status: 'completed' } });
  });

  test('answers with the run as it is when the time is up', async () => {
    await using api = await startTestApi();
    const { runId } = await startRun(api);
    for (const timeoutMs of [0, 50]) {
      const answer = await api.call('GET', `/v1/runs/${runId}/wait?timeoutMs=${timeoutMs}`);
      expect(answer).toMatchObject({ status: 200, body: { id: runId, status: 'queued' } });
    }
  });

  test('a failed run comes with its error', async () => {
    await using api = await startTestApi();
    const { runId } = await startRun(api);
    const error = { code: 'content_policy', message: 'refused by the provider' } as const;
    await failStep(api.db, await claimJob(api.db, api.added[0]), error);
    const answer = await api.call('GET', `/v1/runs/${runId}/wait`);
    expect(answer).toMatchObject({ status: 200, body: { status: 'failed', error } });
  });
});

describe('cancelling', () => {
  test('a run that nobody has ends at once, and its session is free', async () => {
    await using api = await startTestApi();
    const { sessionId, runId } = await startRun(api);
    const cancelled = await api.call('POST', `/v1/sessions/${sessionId}/cancel`);
    expect(cancelled).toMatchObject({ status: 200, body: { sessionId, runId, status: 'cancelled' } });
    expect(api.cancelled).toEqual([]);
    expect(api.announced.at(-1)).toEqual({ sessionId: parseId('session', sessionId), seq: 2 });
    expect((await api.call('GET', `/v1/sessions/${sessionId}`)).body['status']).toBe('idle');
  });

  test('a run in work tells its worker', async () => {
    await using api = await startTestApi();
    const { sessionId, runId } = await startRun(api);
    await claimJob(api.db, api.added[0]);
    const cancelled = await api.call('POST', `/v1/sessions/${sessionId}/cancel`, {});
    expect(cancelled).toMatchObject({ status: 202, body: { runId, status: 'cancelling' } });
    expect(api.cancelled).toEqual([parseId('run', runId)]);
    const again = await api.call('POST', `/v1/runs/${runId}/cancel`);
    expect(again).toMatchObject({ status: 202, body: { id: runId, status: 'cancelling' } });
    expect(again.body['cancelRequestedAt']).toEqual(expect.any(String));
  });

  test('can wait until the run has ended', async () => {
    await using api = await startTestApi();
    const { runId } = await startRun(api);
    const claimed = await claimJob(api.db, api.added[0]);
    const waiting = api.call('POST', `/v1/runs/${runId}/cancel?wait=30000`);
    await expect.poll(() => api.cancelled).toHaveLength(1);
    await answerStep(api.db, claimed, 'too late');
    expect(await waiting).toMatchObject({ status: 200, body: { id: runId, status: 'completed' } });
  });

  test('and so can the cancel of a session', async () => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const { body } = await api.send(sessionId, 'hello');
    const claimed = await claimJob(api.db, api.added[0]);
    const waiting = api.call('POST', `/v1/sessions/${sessionId}/cancel?wait=30000`);
    await expect.poll(() => api.cancelled).toHaveLength(1);
    await answerStep(api.db, claimed, 'too late');
    expect(await waiting).toMatchObject({ status: 200, body: { runId: body['runId'], status: 'completed' } });
  });

  test('an idle session has nothing to cancel, which is no error', async () => {
    await using api = await startTestApi();
    const sessionId = await api.createSession();
    const answer = await api.call('POST', `/v1/sessions/${sessionId}/cancel`);
    expect(answer).toMatchObject({ status: 200, body: { sessionId, runId: null, status: 'idle' } });
  });

  test('a run that has ended stays as it is', async () => {
    await using api = await startTestApi();
    const { runId } = await startRun(api);
    await answerStep(api.db, await claimJob(api.db, api.added[0]), 'done');
    const answer = await api.call('POST', `/v1/runs/${runId}/cancel`);
    expect(answer).toMatchObject({ status: 200, body: { status: 'completed', cancelRequestedAt: null } });
    expect(api.cancelled).toEqual([]);
  });
});
