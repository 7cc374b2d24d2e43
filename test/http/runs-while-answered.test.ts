import type { KyselyPlugin } from 'kysely';
import { describe, expect, test } from 'vitest';
import { createApp } from '../../src/app/app.ts';
import { startHttpServer } from '../../src/http/server.ts';
import type { Db } from '../../src/store/db/database.ts';
import { askStep, claimJob } from './play-worker.ts';
import { callApi, testDeps } from './test-api.ts';

/** The same database; `act` runs once, after the result of the query with this number. */
function actingAfter(db: Db, no: number, act: () => Promise<unknown>): Readonly<{ db: Db; hasActed: () => boolean }> {
  let answered = 0;
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      answered += 1;
      if (answered === no) await act();
      return result;
    },
  };
  return { db: db.withPlugin(plugin), hasActed: () => answered >= no };
}

type Ids = Readonly<{ sessionId: string; runId: string }>;

/** Many more than any of the requests makes. */
const MOST_QUERIES = 40;

describe('a run whose last call is answered between two queries of one request', () => {
  test.each([
    ['is read', ({ runId }: Ids) => `/v1/runs/${runId}`],
    ['is waited for', ({ runId }: Ids) => `/v1/runs/${runId}/wait?timeoutMs=0`],
    ['is listed', ({ sessionId }: Ids) => `/v1/runs?sessionId=${sessionId}`],
    ['is listed by its id', ({ runId }: Ids) => `/v1/runs?ids=${runId}`],
  ])('asks for something exactly while it waits, when it %s', async (_, pathOf) => {
    await using made = await testDeps();
    const { db, deps } = made;
    await using server = await startHttpServer(createApp(deps), { host: '127.0.0.1', port: 0 });
    const seen = new Set<unknown>();
    for (let no = 1; no <= MOST_QUERIES; no += 1) {
      const sessionId = String((await callApi(server.url, 'POST', '/v1/sessions', { agent: 'coder' })).body['id']);
      const sent = await callApi(server.url, 'POST', `/v1/sessions/${sessionId}/messages`, { content: 'Go' });
      const runId = String(sent.body['runId']);
      const asked = [{ kind: 'approval', toolName: 'deploy' }] as const;
      const [call] = await askStep(db, await claimJob(db, made.added.at(-1)), asked, 60_000);
      const acting = actingAfter(db, no, () =>
        callApi(server.url, 'POST', `/v1/runs/${runId}/tool-calls/${call?.id}`, { decision: 'approve' }),
      );
      const app = createApp({ ...deps, db: acting.db });
      await using observed = await startHttpServer(app, { host: '127.0.0.1', port: 0 });
      const { body } = await callApi(observed.url, 'GET', pathOf({ sessionId, runId }));
      const [{ status, requiredActions, approvalExpiresAt } = body] = (body['runs'] ?? []) as (typeof body)[];
      expect({ status, requiredActions, approvalExpiresAt }).toEqual(
        status === 'requires_action'
          ? { status, requiredActions: [expect.anything()], approvalExpiresAt: expect.any(String) }
          : { status: 'running', requiredActions: [], approvalExpiresAt: null },
      );
      seen.add(status);
      if (!acting.hasActed()) break;
    }
    expect([...seen].sort()).toEqual(['requires_action', 'running']);
  });
});
