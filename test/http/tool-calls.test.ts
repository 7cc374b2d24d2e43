import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { formatCallId, formatId } from '../../src/domain/ids.ts';
import type { ActionKind, RequiredAction } from '../../src/domain/transcript/required-action.ts';
import { newId } from '../../src/platform/new-id.ts';
import { askStep, claimJob } from './play-worker.ts';
import { startTestApi } from './test-api.ts';

const APPROVAL = { kind: 'approval', toolName: 'deploy' } as const;
const OUTPUT = { kind: 'output', toolName: 'browser' } as const;

/** A session whose run waits for answers. */
async function waitingSession(...asked: Readonly<{ kind: ActionKind; toolName: string }>[]) {
  const api = await startTestApi();
  const session = await api.createSession();
  const runId = String((await api.send(session, 'Go')).body['runId']);
  const actions = await askStep(api.db, await claimJob(api.db, api.added[0]), asked);
  return {
    api,
    session,
    runId,
    actions,
    answer: (action: RequiredAction | undefined, body: object | string, headers: Record<string, string> = {}) =>
      api.call('POST', `/v1/runs/${runId}/tool-calls/${action?.id}`, body, headers),
    run: async () => (await api.call('GET', `/v1/runs/${runId}`)).body,
    [Symbol.asyncDispose]: api[Symbol.asyncDispose],
  };
}

describe('a run that waits', () => {
  test('says for what, in the run, in lists, in the transcript and in its event', async () => {
    await using waiting = await waitingSession(APPROVAL, OUTPUT);
    const { api, session, runId, actions } = waiting;
    expect(actions).toMatchObject([
      { kind: 'approval', toolName: 'deploy', args: { by: 'deploy' } },
      { kind: 'output', toolName: 'browser' },
    ]);
    expect(await waiting.run()).toMatchObject({
      status: 'requires_action',
      requiredActions: actions,
      approvalExpiresAt: null,
    });
    const { body: list } = await api.call('GET', '/v1/runs?status=requires_action');
    expect(list['runs']).toMatchObject([{ id: runId, requiredActions: actions }]);
    expect((await api.call('GET', `/v1/runs/${runId}/wait?timeoutMs=60000`)).body['status']).toBe('requires_action');
    expect((await api.call('GET', `/v1/sessions/${session}`)).body['status']).toBe('requires_action');
    const { body: transcript } = await api.call('GET', `/v1/sessions/${session}/messages`);
    expect(transcript['messages']).toMatchObject([
      {},
      {
        id: actions[0]?.messageId,
        parts: [
          { id: actions[0]?.id, state: 'awaiting_approval' },
          { id: actions[1]?.id, state: 'awaiting_output' },
        ],
      },
    ]);
    const events = await api.call('GET', `/v1/sessions/${session}/events?after=0`, undefined, {
      accept: 'application/json',
    });
    expect(events.body['events']).toContainEqual(
      expect.objectContaining({ type: 'run:requires-action', data: { runId, calls: actions } }),
    );
  });

  test('goes on with the last answer, and not before', async () => {
    await using waiting = await waitingSession(APPROVAL, OUTPUT);
    const { api, runId, actions } = waiting;
    const [deploy, browser] = actions;
    api.added.length = 0;
    expect(await waiting.answer(browser, { output: { title: 'Home' } })).toMatchObject({
      status: 200,
      body: { runId, toolCallId: browser?.id, kind: 'output', status: 'requires_action', open: 1 },
    });
    expect(api.added).toEqual([]);
    expect((await waiting.run())['requiredActions']).toEqual([deploy]);
    expect(await waiting.answer(deploy, { decision: 'deny', reason: 'No.' })).toMatchObject({
      status: 200,
      body: { kind: 'approval', status: 'running', open: 0 },
    });
    expect(api.added).toMatchObject([{ kind: 'step', no: 1 }]);
    expect(await waiting.run()).toMatchObject({ status: 'running', requiredActions: [] });
    const { body } = await api.call('GET', `/v1/sessions/${waiting.session}`);
    expect(body['status']).toBe('busy');
    expect(api.announced.at(-1)?.seq).toBe(body['eventSeq'] ?? api.announced.at(-1)?.seq);
  });

  test('takes the same answer again with the same reply, and no other one', async () => {
    await using waiting = await waitingSession(APPROVAL, OUTPUT);
    const { api, actions } = waiting;
    const [deploy, browser] = actions;
    const first = await waiting.answer(browser, { output: { b: 1, a: 2 } });
    const last = await waiting.answer(deploy, { decision: 'approve' });
    api.added.length = 0;
    expect(await waiting.answer(browser, { output: { a: 2, b: 1 } })).toMatchObject({ status: 200, body: first.body });
    expect(await waiting.answer(deploy, { decision: 'approve' })).toMatchObject({ status: 200, body: last.body });
    for (const other of [{ decision: 'deny' }, { decision: 'deny', reason: 'x' }]) {
      expect(await waiting.answer(deploy, other)).toMatchObject({ status: 409, body: { code: 'already_answered' } });
    }
    expect(await waiting.answer(browser, { output: { a: 2 } })).toMatchObject({ status: 409 });
    expect(api.added).toEqual([]);
  });

  test('answers the same Idempotency-Key with the first answer, and refuses it for another request', async () => {
    await using waiting = await waitingSession(APPROVAL, APPROVAL);
    const [one, other] = waiting.actions;
    const key = { 'idempotency-key': 'once' };
    const first = await waiting.answer(one, { decision: 'approve' }, key);
    const again = await waiting.answer(one, { decision: 'approve' }, key);
    expect(again.body).toEqual(first.body);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(await waiting.answer(other, { decision: 'approve' }, key)).toMatchObject({
      status: 409,
      body: { code: 'idempotency_conflict' },
    });
  });

  test('knows what fits, and what is unknown', async () => {
    await using waiting = await waitingSession(APPROVAL, OUTPUT, { kind: 'unknown_outcome', toolName: 'pay' });
    const { api, runId, actions } = waiting;
    const [deploy, browser, pay] = actions;
    expect(await waiting.answer(deploy, { output: 'x' })).toMatchObject({
      status: 400,
      body: { code: 'invalid_request' },
    });
    expect(await waiting.answer(browser, { decision: 'approve' })).toMatchObject({ status: 400 });
    expect(await waiting.answer(pay, { decision: 'approve', args: {} })).toMatchObject({ status: 400 });
    const bodies: [object | string, string][] = [
      [{}, 'decision'],
      [{ decision: 'perhaps' }, 'decision'],
      [{ decision: 'expired' }, 'decision'],
      [{ decision: 'approve', reason: 'why not' }, 'reason'],
      [{ decision: 'deny', output: 'x' }, 'output'],
      [{ decision: 'deny', isError: true }, 'isError'],
      [{ decision: 'deny', args: {} }, 'args'],
      [{ decision: 'approve', args: ['x'] }, 'args'],
      [{ decision: 'deny', because: 'x' }, 'because'],
      [`{"output":${'['.repeat(105)}${']'.repeat(105)}}`, 'output'],
    ];
    for (const [body, path] of bodies) {
      const refused = await waiting.answer(deploy, body);
      expect(refused.status).toBe(400);
      expect((refused.body.errors ?? []).map((error) => error.path)).toContain(path);
    }
    const elsewhere = async (run: string, call: string) =>
      (await api.call('POST', `/v1/runs/${run}/tool-calls/${call}`, { decision: 'approve' })).status;
    const messageId = newId();
    expect(await elsewhere(runId, formatCallId(messageId, 0))).toBe(404);
    expect(await elsewhere(runId, `${deploy?.id.replace(/_\d+$/, '')}_77`)).toBe(404);
    expect(await elsewhere(formatId('run', newId()), deploy?.id ?? '')).toBe(404);
    expect(await elsewhere(runId, 'call_1')).toBe(400);
    const other = await api.createSession();
    const otherRun = String((await api.send(other, 'Go')).body['runId']);
    expect(await elsewhere(otherRun, deploy?.id ?? '')).toBe(404);
    expect((await waiting.run())['requiredActions']).toEqual(actions);
    expect((await waiting.answer(pay, { decision: 'deny', reason: 'Look first.' })).body).toMatchObject({ open: 2 });
    expect((await waiting.answer(browser, { output: null })).status).toBe(200);
  });

  test('takes no answer after its cancel', async () => {
    await using waiting = await waitingSession(APPROVAL);
    expect(await waiting.api.call('POST', `/v1/runs/${waiting.runId}/cancel`)).toMatchObject({
      status: 200,
      body: { status: 'cancelled', requiredActions: [] },
    });
    expect(await waiting.answer(waiting.actions[0], { decision: 'approve' })).toMatchObject({
      status: 409,
      body: { code: 'conflict' },
    });
    expect((await waiting.api.call('GET', `/v1/sessions/${waiting.session}`)).body['status']).toBe('idle');
    expect(waiting.api.cancelled).toEqual([]);
  });
});

test('the output of a client and the arguments of an approval keep their digits and the order of their keys', async () => {
  await using waiting = await waitingSession(OUTPUT, APPROVAL);
  const json = '{"z":2512292042121000001,"7":1.10,"a":[1e3]}';
  await waiting.answer(waiting.actions[0], `{"output":${json}}`);
  await waiting.answer(waiting.actions[1], `{"decision":"approve","args":${json}}`);
  const { rows } = await sql<{ answer: unknown }>`
    select answer from parts where answer is not null order by idx`.execute(waiting.api.db);
  expect(rows.map(({ answer }) => JSON.stringify(answer))).toEqual([
    expect.stringContaining(`"output":${json}`),
    expect.stringContaining(`"args":${json}`),
  ]);
});
