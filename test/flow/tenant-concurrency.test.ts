import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { agentSchema, agentVersion } from '../../src/agents/agent.ts';
import type { Db } from '../../src/store/db/database.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { startWorkerProcess } from '../support/worker-process.ts';

const FLOOD = 200;

/** A session of the tenant with a message, its run and the run's job. */
async function submit({ deps, sendParts }: TestService, tenantId: string, model: string): Promise<string> {
  const agent = agentSchema.parse({ name: 'tester', model: `simulated/${model}` });
  const sessionId = deps.newId();
  const snapshot = { agentName: agent.name, agentVersion: agentVersion(agent), agentSnapshot: agent };
  await insertSession(deps.db, { id: sessionId, tenantId, ...snapshot, title: null, metadata: {} });
  return (await sendParts(sessionId, [{ type: 'text', text: 'Go' }], tenantId)).runId;
}

type Counts = Readonly<{ claimed: number; throttled: number; completed: number }>;

async function countRuns(db: Db, tenantId: string): Promise<Counts> {
  const { rows } = await sql<Counts>`
    select count(*) filter (where claim_id is not null)::integer as claimed,
      count(*) filter (where throttled_at is not null)::integer as "throttled",
      count(*) filter (where status = 'completed')::integer as completed
    from runs where tenant_id = ${tenantId}`.execute(db);
  return rows[0] ?? { claimed: 0, throttled: 0, completed: 0 };
}

const statusOf = async (db: Db, runId: string) =>
  (await db.selectFrom('runs').select('status').where('id', '=', runId).executeTakeFirstOrThrow()).status;

describe.each(availableBackends())('a limit of runs per tenant on %s', (backend) => {
  it(`lets another tenant through while ${FLOOD} runs of one wait, and forgets none of them`, async () => {
    const limit = 3;
    const environment = { BATON_TENANT_CONCURRENCY: String(limit), BATON_STEP_CONCURRENCY: '10' };
    await using service = await startTestService({ backend, environment });
    const { db } = service.deps;
    service.simulator.script('flood', () => ({ text: 'done', gates: { afterChunks: { count: 1, gate: 'dam' } } }));
    service.simulator.script('other', () => ({ text: 'done' }));
    for (let n = 0; n < FLOOD; n += 10) {
      await Promise.all(Array.from({ length: 10 }, () => submit(service, 'loud', 'flood')));
    }
    await service.startWorker();
    await service.startWorker();
    const quiet = await submit(service, 'quiet', 'other');
    await eventually(async () => (await statusOf(db, quiet)) === 'completed', 'the other tenant is served');
    const held = await eventually(async () => {
      const counts = await countRuns(db, 'loud');
      return counts.claimed === limit && counts.throttled === FLOOD - limit ? counts : null;
    }, 'all of the flood but those at work wait in Postgres');
    expect(held.completed).toBe(0);
    let most = 0;
    service.simulator.gate('dam').release();
    await eventually(async () => {
      const { claimed, completed } = await countRuns(db, 'loud');
      most = Math.max(most, claimed);
      return completed === FLOOD;
    }, 'the whole flood is worked off');
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(limit);
  }, 120_000);
});

it('loses no admission when the worker is killed that had the only slot', async () => {
  const environment = { BATON_TENANT_CONCURRENCY: '1' };
  await using service = await startTestService({ backend: 'postgres', environment });
  const { db } = service.deps;
  service.simulator.script('test', () =>
    service.simulator.requests.length <= 1
      ? { text: 'never finished', gates: { afterChunks: { count: 1, gate: 'middle' } } }
      : { text: 'done' },
  );
  await using first = await startWorkerProcess('steps', service.environment);
  const runs = [await submit(service, 'a', 'test')];
  await service.simulator.gate('middle').reached;
  for (let n = 0; n < 4; n++) runs.push(await submit(service, 'a', 'test'));
  await eventually(async () => (await countRuns(db, 'a')).throttled === 4, 'the others wait');
  await using _second = await startWorkerProcess('steps', service.environment);
  await first.kill('SIGKILL');
  for (const run of runs) await eventually(async () => (await statusOf(db, run)) === 'completed', `run ${run} ends`);
});
