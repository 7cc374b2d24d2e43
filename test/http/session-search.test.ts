import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { createTestKey } from '../support/keys.ts';
import { answerStep, askStep, claimJob, failStep, retryStep } from './play-worker.ts';
import { startTestApi, type TestApi } from './test-api.ts';

type Listed = Readonly<{ id: string; overview: Record<string, unknown> }>;

async function list(api: TestApi, query: string, headers: Record<string, string> = {}) {
  const { status, body } = await api.call('GET', `/v1/sessions?${query}`, undefined, headers);
  expect(status, JSON.stringify(body)).toBe(200);
  return { sessions: body['sessions'] as Listed[], nextCursor: body['nextCursor'] };
}
const idsOf = async (api: TestApi, query: string, headers?: Record<string, string>) =>
  (await list(api, query, headers)).sessions.map(({ id }) => id);

const FAILURE = { code: 'transport', message: 'No.' } as const;

describe('the search for sessions', () => {
  test('finds words of title, external key and metadata by their beginning, in any case and order', async () => {
    await using api = await startTestApi();
    const title = await api.createSession({ title: 'Why was Überweisung [7731] charged?' });
    const label = await api.createSession({ metadata: { customer: 'ACME-north/7732' } });
    const key = await api.createSession();
    await sql`update sessions set external_key = 'order:9_17' where id = ${uuid(key)}`.execute(api.db);
    expect(await idsOf(api, 'q=77')).toEqual([label, title]);
    expect(await idsOf(api, `q=${encodeURIComponent('charged ÜBERW')}`)).toEqual([title]);
    expect(await idsOf(api, 'q=north-acme')).toEqual([label]);
    expect(await idsOf(api, 'q=17+order')).toEqual([key]);
    expect(await idsOf(api, 'q=harged')).toEqual([]);
    await api.call('PATCH', `/v1/sessions/${title}`, { title: 'Renamed' });
    expect(await idsOf(api, 'q=7731')).toEqual([]);
    expect(await idsOf(api, 'q=renamed')).toEqual([title]);
    await api.call('DELETE', `/v1/sessions/${title}`);
    expect(await idsOf(api, 'q=renamed')).toEqual([]);
  });

  test('finds the session of an id, its own or that of a run', async () => {
    await using api = await startTestApi();
    const [session] = [await api.createSession(), await api.createSession()];
    const { body } = await api.send(session, 'Hello');
    expect(await idsOf(api, `q=${session}`)).toEqual([session]);
    expect(await idsOf(api, `q=${body['runId']}`)).toEqual([session]);
  });

  test('finds nothing of another tenant, however the tenant is called', async () => {
    await using api = await startTestApi();
    const [alpha, beta] = [await createTestKey(api.db, "a'l\\pha"), await createTestKey(api.db, 'beta')];
    const { body } = await api.call('POST', '/v1/sessions', { agent: 'coder', title: 'secret' }, alpha.headers);
    expect(await idsOf(api, 'q=secret', alpha.headers)).toEqual([body['id']]);
    for (const query of ['q=secret', `q=${body['id']}`, `ids=${body['id']}`, 'q=tenant+alpha']) {
      expect(await idsOf(api, query, beta.headers)).toEqual([]);
    }
  });

  test('keeps those of an agent, a time, a cost, and those that wait or whose newest run has failed', async () => {
    await using api = await startTestApi();
    const [failed, recovered, waiting] = [
      await api.createSession({ agent: 'clerk', title: 'x' }),
      await api.createSession({ title: 'x' }),
      await api.createSession({ title: 'x' }),
    ];
    const next = async (id: string) => {
      await api.send(id, 'Go');
      return claimJob(api.db, api.added.at(-1));
    };
    await failStep(api.db, await next(failed), FAILURE);
    await failStep(api.db, await next(recovered), FAILURE);
    await answerStep(api.db, await next(recovered), 'Done');
    await askStep(api.db, await next(waiting), [{ kind: 'approval', toolName: 'bash' }]);
    await sql`update sessions set cost_usd = 0.5 where id = ${uuid(recovered)}`.execute(api.db);
    const { rows } = await sql<{
      at: Date;
    }>`select created_at as at from sessions where id = ${uuid(recovered)}`.execute(api.db);
    expect(await idsOf(api, 'agent=clerk')).toEqual([failed]);
    expect(await idsOf(api, `since=${rows[0]?.at.toISOString()}`)).toEqual([waiting, recovered]);
    expect(await idsOf(api, 'minCost=0.25')).toEqual([recovered]);
    expect(await idsOf(api, 'waiting=true')).toEqual([waiting]);
    expect(await idsOf(api, 'failed=true')).toEqual([failed]);
    expect(await idsOf(api, 'q=x&failed=true')).toEqual([failed]);
    expect(await idsOf(api, 'q=x&waiting=true&agent=coder')).toEqual([waiting]);
    expect(await idsOf(api, 'q=x&agent=clerk&minCost=0.25')).toEqual([]);
    expect(await idsOf(api, `ids=${waiting},${failed}`)).toEqual([waiting, failed]);
  });

  test('gives each match once over its pages', async () => {
    await using api = await startTestApi();
    const all: string[] = [];
    for (let n = 0; n < 7; n++) all.unshift(await api.createSession({ title: `match ${n}` }));
    const seen: string[] = [];
    for (let cursor = ''; ; ) {
      const { sessions, nextCursor } = await list(api, `q=match&limit=3${cursor}`);
      seen.push(...sessions.map(({ id }) => id));
      if (nextCursor === null) break;
      cursor = `&cursor=${nextCursor}`;
    }
    expect(seen).toEqual(all);
  });

  test('names what is wrong with a parameter', async () => {
    await using api = await startTestApi();
    const wrong: [string, string][] = [
      ['q=--', 'q'],
      [`q=${'x'.repeat(201)}`, 'q'],
      ['ids=ses_1', 'ids'],
      [`ids=${Array.from({ length: 51 }, () => `ses_${'1'.repeat(32)}`)}`, 'ids'],
      ['minCost=-1', 'minCost'],
      ['failed=yes', 'failed'],
      ['waiting=true&status=idle', 'waiting'],
      ['since=yesterday', 'since'],
      ['qq=x', 'qq'],
    ];
    for (const [query, path] of wrong) {
      const { status, body } = await api.call('GET', `/v1/sessions?${query}`);
      expect([status, body.errors?.map((error) => error.path)], query).toEqual([400, expect.arrayContaining([path])]);
    }
  });
});

describe('a listed session', () => {
  test('says what was said last, how its newest run is, and what that waits for', async () => {
    await using api = await startTestApi();
    const id = await api.createSession();
    const overview = async () => (await list(api, `ids=${id}`)).sessions[0]?.overview;
    expect(await overview()).toEqual({ lastWords: null, lastRun: null, waitsFor: null, context: null, queued: 0 });
    const { body } = await api.send(id, `Look ${'x'.repeat(300)}`);
    expect(await overview()).toMatchObject({
      lastWords: null,
      lastRun: { id: body['runId'], kind: 'task', status: 'queued', steps: 0, errorCode: null },
      waitsFor: { kind: 'worker', until: null, count: 0 },
      queued: 1,
    });
    const first = await claimJob(api.db, api.added.at(-1));
    expect(await overview()).toMatchObject({
      lastWords: { role: 'user', text: `Look ${'x'.repeat(195)}` },
      lastRun: { status: 'running' },
      waitsFor: null,
      queued: 0,
    });
    const { jobs } = await retryStep(api.db, first, FAILURE, 3_600_000);
    expect(await overview()).toMatchObject({ waitsFor: { kind: 'retry', until: expect.any(String) } });
    await sql`update runs set pending_at = now() where id = ${uuid(String(body['runId']))}`.execute(api.db);
    const again = await claimJob(api.db, jobs[0]);
    await askStep(api.db, again, [{ kind: 'approval', toolName: 'bash' }], 3_600_000);
    expect(await overview()).toMatchObject({
      lastRun: { status: 'requires_action', steps: 2 },
      waitsFor: {
        kind: 'approval',
        toolNames: ['bash'],
        count: 1,
        until: expect.any(String),
        since: expect.any(String),
      },
    });
  });
});

const uuid = (id: string): string => id.replace(/^\w+?_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
