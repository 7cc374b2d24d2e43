import { describe, expect, it } from 'vitest';
import { type Agent, agentSchema, agentVersion } from '../../src/agents/agent.ts';
import { queuedJobSchema } from '../../src/domain/run/job.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { agentWith, readingReplies, readTool } from '../compaction/compaction-support.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

/** Starts a run of the tenant in a session of its own. The name of the tenant is that of its model. */
async function submit(
  { deps, sendParts }: TestService,
  tenantId: string,
  changes: Partial<Agent> = {},
): Promise<string> {
  const agent = agentSchema.parse({ name: 'tester', model: `simulated/${tenantId}`, tools: ['test'], ...changes });
  const sessionId = deps.newId();
  const agentSnapshot = await deps.pinTools(agent, new AbortController().signal);
  const snapshot = { agentName: agent.name, agentVersion: agentVersion(agent), agentSnapshot };
  await insertSession(deps.db, { id: sessionId, tenantId, ...snapshot, title: null, metadata: {} });
  return (await sendParts(sessionId, [{ type: 'text', text: 'Go' }], tenantId)).runId;
}

const endOf = ({ deps }: TestService, tenantId: string, runId: string) =>
  eventually(async () => {
    const run = await findRun(deps.db, tenantId, runId);
    return ['completed', 'failed'].includes(run.status) ? run : null;
  }, `the run of ${tenantId} ends`);

async function claimedOf({ deps }: TestService, tenantId: string): Promise<number> {
  const { count } = await deps.db
    .selectFrom('runs')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('tenant_id', '=', tenantId)
    .where('claim_id', 'is not', null)
    .executeTakeFirstOrThrow();
  return Number(count);
}

const isIdle = async ({ deps }: TestService) => {
  const { step, compaction } = await deps.jobs.counts();
  return [step, compaction].every(({ waiting, active, delayed }) => waiting + active + delayed === 0);
};

describe.each(availableBackends())('a tenant that holds all slots of a worker on %s', (backend) => {
  it('keeps no other tenant waiting, whose runs go on from step to step past a full queue', async () => {
    await using service = await startTestService({
      backend,
      tools: [readTool],
      environment: { BATON_STEP_CONCURRENCY: '2' },
    });
    service.simulator.script('loud', () => ({ text: 'late', gates: { afterChunks: { count: 1, gate: 'dam' } } }));
    service.simulator.script('quiet', readingReplies(12, 10));
    service.simulator.script('third', () => ({ text: 'done' }));
    const flood = await Promise.all(Array.from({ length: 30 }, () => submit(service, 'loud')));
    await service.startWorker();
    await eventually(async () => (await claimedOf(service, 'loud')) === 2, 'one tenant has both slots');
    const quiet = await submit(service, 'quiet');
    expect(await endOf(service, 'quiet', quiet)).toMatchObject({ status: 'completed', step_count: 13 });
    expect((await endOf(service, 'third', await submit(service, 'third'))).status).toBe('completed');
    expect(await claimedOf(service, 'loud')).toBe(2);
    service.simulator.gate('dam').release();
    for (const runId of flood) expect((await endOf(service, 'loud', runId)).status).toBe('completed');
    await eventually(() => isIdle(service), 'the queue has forgotten the jobs that found nothing to do');
    expect(service.simulator.requests.filter(({ model }) => model === 'quiet')).toHaveLength(13);
    const [steps] = service.deps.jobs.bullQueues();
    const completed = (await steps?.getJobs(['completed'])) ?? [];
    const ofQuiet = completed.filter(({ data }) => queuedJobSchema.parse(data).runId === quiet);
    expect(ofQuiet.map(({ data }) => queuedJobSchema.parse(data).no).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: 13 }, (_, at) => at + 1),
    );
  });

  it('keeps no compaction of another tenant waiting', async () => {
    await using service = await startTestService({
      backend,
      tools: [readTool],
      environment: { BATON_COMPACTION_CONCURRENCY: '1' },
    });
    const small = agentWith({ maxContextTokens: 16_000, prune: { enabled: false } });
    for (const model of ['loud', 'quiet']) {
      service.simulator.setWindow(model, 16_000);
      service.simulator.script(model, readingReplies(12, 1_500));
    }
    service.simulator.summaries(['hang']);
    await service.startWorker();
    await submit(service, 'loud', small);
    await eventually(async () => service.simulator.requests.some(({ summary }) => summary), 'the summarizer hangs');
    expect((await service.deps.jobs.counts()).compaction).toMatchObject({ active: 1, waiting: 0 });
    const quiet = await submit(service, 'quiet', small);
    expect((await endOf(service, 'quiet', quiet)).status).toBe('completed');
    expect(service.simulator.requests.filter(({ summary }) => summary).length).toBeGreaterThan(1);
    expect(await claimedOf(service, 'loud')).toBe(1);
  });
});

describe.each(availableBackends())('a run that fails in an extra slot on %s', (backend) => {
  it('leaves its failed job to an operator', async () => {
    await using service = await startTestService({ backend, environment: { BATON_STEP_CONCURRENCY: '1' } });
    service.simulator.script('loud', () => ({ text: 'late', gates: { afterChunks: { count: 1, gate: 'dam' } } }));
    service.simulator.script('quiet', () => ({ fault: { status: 401 } }));
    await submit(service, 'loud');
    await service.startWorker();
    await eventually(async () => (await claimedOf(service, 'loud')) === 1, 'one tenant has the slot');
    expect((await endOf(service, 'quiet', await submit(service, 'quiet'))).status).toBe('failed');
    service.simulator.gate('dam').release();
    await eventually(async () => (await service.deps.jobs.counts()).step.failed === 1, 'the job is kept');
  });
});
