import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import type { Agent } from '../../src/agents/agent.ts';
import { startReconciler } from '../../src/recovery/reconciler.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { agentOf, childrenOf, resultsShown, startTeam, tasks } from './children-scenario.ts';

const look: Tool = {
  name: 'look',
  description: 'Looks.',
  inputSchema: { type: 'object', additionalProperties: true },
  execute: async () => 'nothing there',
};
const STEP_USD = 0.05;
/** The tokens of each answer; each token costs a cent. */
const usage = { input: 5, output: 0 };

/** A team whose models have a price. */
async function startPricedTeam(
  stack: AsyncDisposableStack,
  backend: Parameters<typeof startTeam>[0],
  agents: readonly Partial<Agent>[],
) {
  const folder = stack.use(await temporaryFolder());
  const file = path.join(folder.path, 'models.json');
  writeFileSync(
    file,
    JSON.stringify([{ provider: 'simulated', model: '*', prices: { input: 10_000, output: 10_000 } }]),
  );
  return stack.use(await startTeam(backend, agents, { tools: [look], environment: { BATON_MODELS_FILE: file } }));
}

describe.each(availableBackends())('the limits of a tree on %s', (backend) => {
  it('are shared by the children of an answer, and what they use counts there', async () => {
    await using service = await startTeam(backend, [agentOf('researcher', { limits: { maxSteps: 50 } })]);
    const { simulator, deps } = service;
    simulator.script('test', [tasks('researcher', 2), tasks('researcher', 2), { text: 'Done.' }]);
    simulator.script('researcher', [{ text: 'Found.', usage: { input: 60, output: 30 } }]);
    await service.startWorker();
    const session = await service.createSession({
      tools: [{ agent: 'researcher', limits: { maxTokens: 100 } }],
      limits: { maxSteps: 8 },
    });
    const { runId } = await service.send(session, 'Find out', { maxTokens: 10_000 });
    await service.ended(runId);
    const children = await childrenOf(deps.db);
    // 8 steps, less the parent's own and the one that it is to end with, for two; then what those have left.
    expect(children.map(({ limits }) => limits)).toEqual([
      { maxSteps: 3, maxTokens: 100 },
      { maxSteps: 3, maxTokens: 100 },
      { maxSteps: 1, maxTokens: 100 },
      { maxSteps: 2, maxTokens: 100 },
    ]);
    const run = await deps.db
      .selectFrom('runs')
      .select(['children_steps', 'children_tokens', 'children_count', 'status'])
      .where('id', '=', runId)
      .executeTakeFirstOrThrow();
    expect(run).toEqual({ children_steps: 4, children_tokens: 360, children_count: 4, status: 'completed' });
    const shares = await deps.db.selectFrom('runs').select('max_steps').where('session_id', '!=', session).execute();
    expect(shares.map(({ max_steps: steps }) => steps).sort()).toEqual([1, 2, 3, 3]);
  });

  it.each([
    ['maxSteps', 5],
    ['maxTokens', 100],
  ] as const)('give %s to the first calls of an answer that they are enough for', async (name, most) => {
    await using service = await startTeam(backend, [agentOf('researcher')]);
    const { simulator, deps } = service;
    simulator.script('test', [
      { ...tasks('researcher', 7), usage: { input: 67, output: 30 } },
      { text: 'The rest alone, then.', usage: { input: 1, output: 1 } },
    ]);
    simulator.script('researcher', () => ({ text: 'Found.', usage: { input: 1, output: 0 } }));
    await service.startWorker();
    const session = await service.createSession({ tools: [{ agent: 'researcher' }], limits: { [name]: most } });
    const { runId } = await service.send(session, 'Find out');
    await service.ended(runId);
    const children = await childrenOf(deps.db);
    expect(children.map(({ limits }) => limits[name])).toEqual([1, 1, 1, ...Array(4).fill(undefined)]);
    const statuses = children.map(({ result }) => result?.['status']);
    expect(statuses).toEqual([...Array(3).fill('completed'), ...Array(4).fill('refused')]);
    const words = { message: expect.stringContaining(`limits.${name}: the run has nothing of it left`) };
    expect(children.at(-1)?.result).toMatchObject({ error: words });
    expect(await deps.db.selectFrom('sessions').select('id').execute()).toHaveLength(4);
  });

  it('leave to later calls of an answer what earlier ones may not use', async () => {
    await using service = await startTeam(backend, [agentOf('researcher'), agentOf('checker')]);
    const { simulator, deps } = service;
    const [first, second] = [tasks('researcher', 1), tasks('checker', 1)];
    simulator.script('test', [
      { text: 'I share it out.', toolCalls: [...(first.toolCalls ?? []), ...(second.toolCalls ?? [])] },
      { text: 'Done.' },
    ]);
    await service.startWorker();
    const session = await service.createSession({
      tools: [{ agent: 'researcher', limits: { maxSteps: 2 } }, { agent: 'checker' }],
      limits: { maxSteps: 12 },
    });
    await service.ended((await service.send(session, 'Find out')).runId);
    expect((await childrenOf(deps.db)).map(({ limits }) => limits['maxSteps'])).toEqual([2, 8]);
  });

  it('refuse a child by their name when one in the background has taken all of maxCostUsd', async () => {
    await using stack = new AsyncDisposableStack();
    const service = await startPricedTeam(stack, backend, [agentOf('researcher'), agentOf('checker')]);
    const { simulator, deps } = service;
    simulator.script('test', [
      { ...tasks('researcher', 1), usage },
      { ...tasks('checker', 1), usage },
      { text: 'Alone, then.', usage },
    ]);
    simulator.script('researcher', [{ text: 'Never.', gates: { beforeFirstChunk: 'research' } }]);
    await service.startWorker();
    const session = await service.createSession({
      tools: [{ agent: 'researcher', mode: 'background' }, { agent: 'checker' }],
    });
    const { runId } = await service.send(session, 'Find out', { maxCostUsd: 1 });
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    const [researcher, checker] = await childrenOf(deps.db, session);
    expect(researcher?.limits['maxCostUsd']).toBeCloseTo(1 - STEP_USD);
    expect(checker).toMatchObject({ limits: {}, result: { status: 'refused', error: { code: 'limit_exceeded' } } });
    expect(resultsShown(service, 'test').at(-1)).toContain('limits.maxCostUsd: the run has nothing of it left');
  });

  it.each([
    ['maxCostUsd', 1],
    ['maxTokens', 100],
  ] as const)('end every run below the root when its %s is used up, and then the root', async (limit, most) => {
    await using stack = new AsyncDisposableStack();
    const service = await startPricedTeam(stack, backend, [
      agentOf('lead', { tools: [{ agent: 'researcher' }] }),
      agentOf('researcher', { tools: ['test'] }),
    ]);
    const { simulator, deps } = service;
    simulator.script('test', () => ({ ...tasks('lead', 2), usage }));
    simulator.script('lead', () => ({ ...tasks('researcher', 3), usage }));
    simulator.script('researcher', ({ index }) => ({
      toolCalls: [{ id: `c${index}`, name: 'look', input: { at: index } }],
      usage,
    }));
    await service.startWorker();
    const session = await service.createSession({ tools: [{ agent: 'lead' }] });
    const { runId } = await service.send(session, 'Find out', { [limit]: most });
    await service.ended(runId);
    const runs = await deps.db.selectFrom('runs').selectAll().execute();
    // A root, two leads, three researchers below each of them.
    expect(runs).toHaveLength(9);
    for (const run of runs) expect(run).toMatchObject({ status: 'incomplete', status_reason: 'budget' });
    const sum = (of: readonly (number | null | undefined)[]) =>
      of.reduce<number>((all, each) => all + (each ?? Number.NaN), 0);
    const used = runs.map((run) => (limit === 'maxTokens' ? run.input_tokens + run.output_tokens : run.cost_usd));
    // Each run stops at the step that crosses its own share.
    expect(sum(used)).toBeCloseTo(most * 1.05);
    const root = runs.find(({ id }) => id === runId);
    const below = limit === 'maxTokens' ? root?.children_tokens : root?.children_cost_usd;
    expect(below, 'all that the tree used counts at its root').toBeCloseTo(most);
  });

  it('end every run below the root when its deadline has passed, and the root tells why', async () => {
    await using service = await startTeam(backend, [
      agentOf('lead', { tools: [{ agent: 'researcher' }] }),
      agentOf('researcher'),
    ]);
    const { simulator, deps } = service;
    simulator.script('test', () => tasks('lead', 2));
    simulator.script('lead', () => tasks('researcher', 2));
    simulator.script('researcher', () => ({ text: 'Never.', gates: { beforeFirstChunk: 'research' } }));
    await service.startWorker();
    const session = await service.createSession({ tools: [{ agent: 'lead' }] });
    const { runId } = await service.send(session, 'Find out', { deadlineMs: 3_600_000 });
    const atWork = () => simulator.requests.filter(({ request }) => request?.model === 'researcher');
    await eventually(async () => atWork().length === 4, 'four researchers are at work');
    await sql`update runs set deadline_at = clock_timestamp(), approval_expires_at = clock_timestamp()
      where id = ${runId}`.execute(deps.db);
    await using reconciler = startReconciler({ ...deps, leaseDurationMs: 30_000 }, 3_600_000);
    await reconciler.sweep();
    expect(await service.ended(runId)).toMatchObject({ status: 'incomplete', status_reason: 'deadline' });
    deps.lookAfterChildren();
    await eventually(
      async () => (await childrenOf(deps.db)).every(({ state, dueAt }) => state === 'dropped' && dueAt === null),
      'all below have stopped',
    );
    const below = await deps.db.selectFrom('runs').select('status').where('id', '!=', runId).execute();
    expect(below.map(({ status }) => status)).toEqual(Array(6).fill('cancelled'));
    await eventually(async () => atWork().every(({ outcome }) => outcome === 'aborted-by-client'), 'no model goes on');
  });
});
