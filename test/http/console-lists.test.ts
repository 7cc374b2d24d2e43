import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { revokeApiKey } from '../../src/store/around/api-keys.ts';
import { createTestKey } from '../support/keys.ts';
import { answerStep, askStep, claimJob, failStep } from './play-worker.ts';
import { startTestApi, type TestApi } from './test-api.ts';

type Body = Record<string, unknown>;
type Headers = Record<string, string>;

async function read(api: TestApi, path: string, headers: Headers = {}): Promise<Body> {
  const { status, body } = await api.call('GET', path, undefined, headers);
  expect(status, `${path} ${JSON.stringify(body)}`).toBe(200);
  return body;
}
const listOf = (body: Body, name: string) => body[name] as Body[];

async function begin(api: TestApi, { agent = 'coder', text = 'Go', headers = {} as Headers, title = 'T' } = {}) {
  const { body } = await api.call('POST', '/v1/sessions', { agent, title }, headers);
  const sent = await api.call('POST', `/v1/sessions/${body['id']}/messages`, { content: text }, headers);
  const claimed = await claimJob(api.db, api.added.at(-1));
  return { sessionId: String(body['id']), runId: String(sent.body['runId']), claimed };
}

const approval = (toolName: string) => ({ kind: 'approval', toolName }) as const;

describe('the inbox', () => {
  test('lists the calls that wait, oldest first, with what the user said, in pages', async () => {
    await using api = await startTestApi();
    const first = await begin(api, { text: `Publish ${'x'.repeat(600)}`, title: 'Release' });
    const second = await begin(api, { agent: 'clerk' });
    await askStep(api.db, second.claimed, [approval('later')]);
    await askStep(api.db, first.claimed, [approval('bash'), approval('grep')], 3_600_000);
    const { calls } = await read(api, '/v1/inbox');
    expect(calls).toEqual([
      {
        id: expect.stringMatching(/^call_[0-9a-f]{32}_0$/),
        kind: 'approval',
        toolName: 'bash',
        args: { by: 'bash' },
        questions: null,
        messageId: expect.stringMatching(/^msg_/),
        runId: first.runId,
        sessionId: first.sessionId,
        agent: 'coder',
        sessionName: 'Release',
        title: 'Release',
        step: 1,
        askedAt: expect.any(String),
        expiresAt: expect.any(String),
        userWords: { text: `Publish ${'x'.repeat(492)}`, at: expect.any(String) },
      },
      expect.objectContaining({ toolName: 'grep' }),
      expect.objectContaining({ toolName: 'later', agent: 'clerk', expiresAt: null }),
    ]);
    const seen: unknown[] = [];
    for (let cursor: unknown = ''; cursor !== null; ) {
      const page = await read(api, `/v1/inbox?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`);
      seen.push(...listOf(page, 'calls').map(({ toolName }) => toolName));
      cursor = page['nextCursor'];
    }
    expect(seen).toEqual(['bash', 'grep', 'later']);
  });

  test('leaves out calls that are answered, or whose run was cancelled', async () => {
    await using api = await startTestApi();
    const [answered, cancelled] = [await begin(api), await begin(api)];
    const [call] = await askStep(api.db, answered.claimed, [approval('a'), approval('b')]);
    await askStep(api.db, cancelled.claimed, [approval('c')]);
    await api.call('POST', `/v1/runs/${answered.runId}/tool-calls/${call?.id}`, { decision: 'approve' });
    await api.call('POST', `/v1/runs/${cancelled.runId}/cancel`, {});
    const { calls } = await read(api, '/v1/inbox');
    expect(calls).toEqual([expect.objectContaining({ toolName: 'b' })]);
  });

  test('has nothing of another tenant', async () => {
    await using api = await startTestApi();
    const [alpha, beta] = [await createTestKey(api.db, 'alpha'), await createTestKey(api.db, 'beta')];
    const { claimed } = await begin(api, { headers: alpha.headers });
    await askStep(api.db, claimed, [approval('a')]);
    expect(listOf(await read(api, '/v1/inbox', alpha.headers), 'calls')).toHaveLength(1);
    expect(await read(api, '/v1/inbox', beta.headers)).toEqual({ calls: [], nextCursor: null });
  });
});

describe('the keys', () => {
  test('are those of the tenant, newest first, without what opens the door', async () => {
    await using api = await startTestApi();
    const admin = await createTestKey(api.db, 'acme', ['read', 'admin']);
    const other = await createTestKey(api.db, 'acme', ['write'], new Date(Date.now() + 60_000));
    await createTestKey(api.db, 'beta', ['admin']);
    await api.db.transaction().execute((tx) => revokeApiKey(tx, other.id));
    // Both in one millisecond, of which the cursor is not the end.
    const at = (micros: number) =>
      sql<Date>`'2026-01-01T00:00:00Z'::timestamptz + make_interval(secs => ${micros / 1e6})`;
    await api.db
      .updateTable('api_keys')
      .set({ created_at: at(200) })
      .where('id', '=', admin.id)
      .execute();
    await api.db
      .updateTable('api_keys')
      .set({ created_at: at(400) })
      .where('id', '=', other.id)
      .execute();
    const { keys, nextCursor } = await read(api, '/v1/keys?limit=1', admin.headers);
    const first = {
      id: formatId('key', other.id),
      name: 'for acme',
      shown: other.secret.slice(0, 10),
      scopes: ['write'],
      createdAt: expect.any(String),
      lastUsedAt: null,
      expiresAt: expect.any(String),
      revokedAt: expect.any(String),
    };
    expect(keys).toEqual([first]);
    const rest = await read(api, `/v1/keys?cursor=${nextCursor}`, admin.headers);
    expect(rest).toMatchObject({ keys: [{ id: formatId('key', admin.id), revokedAt: null }], nextCursor: null });
    expect((await api.call('GET', '/v1/keys', undefined, other.headers)).status).toBe(401);
    const reader = await createTestKey(api.db, 'acme', ['read', 'write']);
    expect((await api.call('GET', '/v1/keys', undefined, reader.headers)).status).toBe(403);
  });
});

describe('failures', () => {
  test('are grouped by cause, of the tenant alone; an operator sees those of all, and no message', async () => {
    await using api = await startTestApi();
    const [alpha, beta] = [await createTestKey(api.db, 'alpha'), await createTestKey(api.db, 'beta')];
    const operator = await createTestKey(api.db, 'ops', ['operator']);
    for (const [n, key] of [alpha, alpha, beta].entries()) {
      const { claimed } = await begin(api, { headers: key.headers });
      await failStep(api.db, claimed, { code: 'rate_limited', message: `Wait ${n} s for "secret ${n}"` });
    }
    const mine = await read(api, '/v1/errors', alpha.headers);
    expect(mine).toMatchObject({
      complete: true,
      groups: [
        {
          code: 'rate_limited',
          agent: 'coder',
          text: 'Wait # s for <text>',
          count: 2,
          hours: [expect.anything()],
          newest: [{ message: 'Wait 1 s for "secret 1"' }, { message: 'Wait 0 s for "secret 0"' }],
        },
      ],
    });
    const all = await read(api, '/v1/operator/errors', operator.headers);
    expect(all).toMatchObject({ groups: [{ count: 3, tenants: 2, newest: [{ tenant: 'beta' }, {}, {}] }] });
    expect(JSON.stringify(all)).not.toContain('secret');
    const { groups } = mine as { groups: { fingerprint: string }[] };
    const one = await read(api, `/v1/errors?group=${groups[0]?.fingerprint}`, alpha.headers);
    expect(one).toMatchObject({ groups: [{ count: 2, newest: [{}, {}] }] });
    expect(await read(api, `/v1/errors?group=${'0'.repeat(16)}`, alpha.headers)).toMatchObject({ groups: [] });
    expect(await read(api, '/v1/errors?agent=clerk', alpha.headers)).toMatchObject({ groups: [] });
    const later = new Date(Date.now() + 60_000).toISOString();
    expect(await read(api, `/v1/errors?since=${later}`, alpha.headers)).toMatchObject({ groups: [] });
  });
});

describe('usage', () => {
  test('is summed up by what is asked for, of the tenant alone; an operator sees all tenants', async () => {
    await using api = await startTestApi();
    const [alpha, beta] = [await createTestKey(api.db, 'alpha'), await createTestKey(api.db, 'beta')];
    const operator = await createTestKey(api.db, 'ops', ['operator']);
    for (const [agent, key] of [
      ['coder', alpha],
      ['coder', alpha],
      ['clerk', alpha],
      ['clerk', beta],
    ] as const) {
      const { claimed } = await begin(api, { agent, headers: key.headers });
      await answerStep(api.db, claimed, 'Done');
    }
    const day = new Date().toISOString().slice(0, 10);
    expect(await read(api, '/v1/usage', alpha.headers)).toMatchObject({
      by: ['day'],
      complete: true,
      rows: [{ day, runs: 3, failedRuns: 0, steps: 3, usage: { inputTokens: 36, totalTokens: 51 }, costUsd: 0 }],
    });
    const { rows } = await read(api, '/v1/usage?by=agent,model', alpha.headers);
    expect(rows).toEqual([
      expect.objectContaining({ agent: 'coder', model: 'simulated/coder', runs: 2 }),
      expect.objectContaining({ agent: 'clerk', runs: 1 }),
    ]);
    expect(listOf({ rows }, 'rows')[0]).not.toHaveProperty('day');
    const { rows: tenants } = await read(api, '/v1/operator/usage?by=tenant', operator.headers);
    expect(tenants).toEqual([
      expect.objectContaining({ tenant: 'alpha', runs: 3 }),
      expect.objectContaining({ tenant: 'beta', runs: 1 }),
    ]);
    const before = new Date(Date.now() - 60_000).toISOString();
    expect(await read(api, `/v1/usage?until=${before}`, alpha.headers)).toMatchObject({ rows: [] });
  });

  test('is not known as a whole where the price of a run is not known', async () => {
    await using api = await startTestApi();
    for (let n = 0; n < 2; n++) await answerStep(api.db, (await begin(api)).claimed, 'Done');
    await sql`update runs set cost_usd = null where id = (select id from runs limit 1)`.execute(api.db);
    expect(await read(api, '/v1/usage')).toMatchObject({ rows: [{ runs: 2, costUsd: null }] });
  });
});

describe('what operators see', () => {
  test('is no content, and nobody else sees it', async () => {
    await using api = await startTestApi();
    const [alpha, beta] = [
      await createTestKey(api.db, 'alpha', ['read', 'write', 'admin']),
      await createTestKey(api.db, 'beta'),
    ];
    const operator = await createTestKey(api.db, 'ops', ['operator']);
    const failing = await begin(api, { headers: alpha.headers, text: 'a secret', title: 'a secret' });
    await failStep(api.db, failing.claimed, { code: 'transport', message: 'a secret' });
    const waiting = await begin(api, { headers: beta.headers, text: 'a secret' });
    await askStep(api.db, waiting.claimed, [approval('secret')]);
    for (const path of ['/v1/operator/runs', '/v1/operator/errors', '/v1/operator/usage', '/v1/workers']) {
      expect((await api.call('GET', path, undefined, alpha.headers)).status, path).toBe(403);
      expect(JSON.stringify(await read(api, path, operator.headers)), path).not.toContain('a secret');
    }
    const { runs } = await read(api, '/v1/operator/runs', operator.headers);
    expect(runs).toEqual([
      expect.objectContaining({ id: waiting.runId, tenant: 'beta', status: 'requires_action', waitsFor: null }),
      expect.objectContaining({ id: failing.runId, tenant: 'alpha', status: 'failed', errorCode: 'transport' }),
    ]);
    const failed = await read(api, '/v1/operator/runs?status=failed&tenant=alpha&limit=1', operator.headers);
    expect(failed).toMatchObject({ runs: [{ id: failing.runId }], nextCursor: null });
    const page = await read(api, '/v1/operator/runs?limit=1', operator.headers);
    const next = await read(api, `/v1/operator/runs?limit=1&cursor=${page['nextCursor']}`, operator.headers);
    expect(next).toMatchObject({ runs: [{ id: failing.runId }], nextCursor: null });
    for (const path of ['/v1/sessions', '/v1/inbox', '/v1/errors', '/v1/usage', '/v1/activity']) {
      expect((await api.call('GET', path, undefined, operator.headers)).status, path).toBe(403);
    }
  });

  test('are the workers with what they have in hand, and the work that waits', async () => {
    await using api = await startTestApi();
    const { runId, sessionId } = await begin(api);
    const waiting = await api.createSession();
    await api.send(waiting, 'Go');
    await sql`insert into workers (id, kinds, lock_key) values ('w1', '{step}', 1)`.execute(api.db);
    const body = await read(api, '/v1/workers');
    expect(body).toMatchObject({
      workers: [
        {
          id: 'w1',
          kinds: ['step'],
          isAlive: false,
          inHand: 1,
          runs: [{ runId, sessionId, tenant: 'default', kind: 'step', step: 1, status: 'running' }],
        },
      ],
      queues: [
        { kind: 'step', due: 1, oldestDueAt: expect.any(String), waiting: null },
        { kind: 'compaction', due: 0, oldestDueAt: null },
        { kind: 'prune', due: 0 },
        { kind: 'delivery', due: 0 },
      ],
    });
    expect(api.logged).toContainEqual(expect.objectContaining({ event: 'metrics_source_failed', source: 'queue' }));
  });
});

describe('the stream of activity', () => {
  test('names sessions and runs that change, of the tenant alone', async () => {
    await using api = await startTestApi();
    const [alpha, beta] = [await createTestKey(api.db, 'alpha'), await createTestKey(api.db, 'beta')];
    const hangUp = new AbortController();
    const response = await fetch(`${api.url}/v1/activity`, { headers: alpha.headers, signal: hangUp.signal });
    expect(response.headers.get('content-type')).toMatch(/event-stream/);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    const until = async (pattern: RegExp): Promise<void> => {
      while (!pattern.test(text)) text += (await reader?.read())?.value ?? '';
    };
    await until(/event: overflow\ndata: {}\n\n/);
    const other = await begin(api, { headers: beta.headers });
    const { runId, sessionId, claimed } = await begin(api, { headers: alpha.headers });
    await until(new RegExp(`event: activity\\ndata: .*"${sessionId}".*"${runId}"`));
    text = '';
    await answerStep(api.db, claimed, 'Done');
    await until(new RegExp(`"sessions":\\["${sessionId}"\\],"runs":\\["${runId}"\\]`));
    expect(text).not.toContain(other.sessionId);
    hangUp.abort();
  });
});

test('wrong parameters are named', async () => {
  await using api = await startTestApi();
  const wrong: [string, string][] = [
    ['/v1/inbox?cursor=x', 'cursor'],
    ['/v1/inbox?kind=approval', 'kind'],
    ['/v1/errors?since=yesterday', 'since'],
    ['/v1/errors?group=all', 'group'],
    ['/v1/usage?by=hour', 'by'],
    ['/v1/usage?by=tenant', 'by'],
    ['/v1/operator/usage?by=', 'by'],
    ['/v1/operator/runs?status=lost', 'status'],
    ['/v1/workers?x=1', 'x'],
    ['/v1/activity?x=1', 'x'],
    [`/v1/runs/run_${'1'.repeat(32)}/steps?after=-1`, 'after'],
  ];
  for (const [path, name] of wrong) {
    const { status, body } = await api.call('GET', path);
    expect([status, body.errors?.map((error) => error.path)], path).toEqual([400, expect.arrayContaining([name])]);
  }
});
