import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { startJobWorker } from '../../src/app/job-worker.ts';
import { afterCancelled } from '../../src/commands/after-commit.ts';
import { lookAfter } from '../../src/delegation/child-keeper.ts';
import { formatId } from '../../src/domain/ids.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { type Child, readChild } from '../../src/store/session/children.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { findSession } from '../../src/store/session/sessions.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import type { TestService } from '../support/service.ts';
import {
  agentOf,
  childrenOf,
  eventsOf,
  LANES,
  resultsShown,
  startTeam,
  takeDue,
  task,
  tasks,
  typesOf,
} from './children-scenario.ts';

const usesResearcher = { tools: [{ agent: 'researcher' }] };

/** Dependencies for tests that look after children themselves, without the keeper of the process. */
const delegationDeps = ({ deps }: TestService) => ({ ...deps });

/** A worker of steps whose process looks after no children: the test does. */
const startWithoutChildren = ({ deps }: TestService) =>
  startJobWorker({
    ...deps,
    lookAfterChildren: () => undefined,
    children: { ...deps.children, look: () => undefined },
  });

const statusOf = async ({ deps }: TestService, runId: string) => (await findRun(deps.db, 'default', runId)).status;

describe.each(availableBackends())('children of a run on %s', (backend) => {
  it('work side by side while nobody has their parent, and each gives its answer to its call once', async () => {
    await using service = await startTeam(backend, [agentOf('researcher')]);
    const { simulator, deps } = service;
    simulator.script('test', [tasks('researcher', 3), { text: 'All is found.' }]);
    simulator.script('researcher', ({ messages }) => ({
      text: `Found by ${JSON.stringify(messages.at(-1)).match(/part \d/)?.[0]}`,
      gates: { beforeFirstChunk: 'research' },
    }));
    await service.startWorker();
    const session = await service.createSession(usesResearcher);
    const { runId } = await service.send(session, 'Find out');
    await eventually(
      async () => (await childrenOf(deps.db, session)).filter(({ state }) => state === 'running').length === 3,
      'three children run',
    );
    await eventually(
      async () => simulator.requests.filter(({ request }) => request?.model === 'researcher').length === 3,
      'all three ask their model',
    );
    // Clients see a run that waits for children as running, though no worker has it.
    expect(await statusOf(service, runId)).toBe('running');
    const parent = await deps.db.selectFrom('runs').selectAll().where('id', '=', runId).executeTakeFirstOrThrow();
    expect(parent).toMatchObject({
      ...{ status: 'requires_action', is_delegating: true, children_count: 3 },
      ...{ claim_id: null, lease_owner: null, pending_kind: null, approval_expires_at: null },
    });
    expect(await findSession(deps.db, 'default', session)).toMatchObject({ status: 'busy' });
    simulator.gate('research').release();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    const children = await childrenOf(deps.db, session);
    expect(children.map(({ state, dueAt }) => [state, dueAt])).toEqual(Array(3).fill(['delivered', null]));
    const shown = resultsShown(service, 'test').map((output): unknown => JSON.parse(output));
    expect(shown).toEqual(
      children.map(({ sessionId, runId: childRun }, no) => ({
        ...{ status: 'completed', session: formatId('session', sessionId), run: formatId('run', childRun) },
        ...{ steps: 1, tokens: expect.any(Number), costUsd: 0, answer: `Found by part ${no}` },
      })),
    );
    const types = (await typesOf(service, session)).filter((type) => /^child:|^run:/.test(type));
    expect(types.filter((type) => type === 'child:started')).toHaveLength(3);
    expect(types.filter((type) => type === 'child:ended')).toHaveLength(3);
    expect(types).not.toContain('run:requires-action');
    const [child] = children;
    expect(await findSession(deps.db, 'default', child?.sessionId ?? '')).toMatchObject({
      ...{ parent_session_id: session, root_session_id: session, depth: 1, title: 'Look at part 0', status: 'idle' },
    });
    expect(simulator.requests.flatMap(({ violations }) => violations)).toEqual([]);
  });

  it('reach depth 3, and a deeper one is refused with the name of the limit', async () => {
    const agents = ['one', 'two', 'three', 'four'];
    const below = (no: number) => (agents[no] === undefined ? {} : { tools: [{ agent: agents[no] }] });
    await using service = await startTeam(
      backend,
      agents.map((name, no) => agentOf(name, below(no + 1))),
    );
    const { simulator, deps } = service;
    const passOn = (agent: string) => [{ toolCalls: [task(agent, { task: 'Dig' })] }, { text: 'Dug.' }];
    simulator.script('test', passOn('one'));
    simulator.script('one', passOn('two'));
    simulator.script('two', passOn('three'));
    simulator.script('three', passOn('four'));
    await service.startWorker();
    const session = await service.createSession({ tools: [{ agent: 'one' }] });
    const { runId } = await service.send(session, 'Dig deep');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    const depths = await deps.db.selectFrom('sessions').select('depth').orderBy('depth').execute();
    expect(depths.map(({ depth }) => depth)).toEqual([0, 1, 2, 3]);
    expect(resultsShown(service, 'three')).toEqual([expect.stringContaining('depth: this session is at depth 3')]);
    expect(resultsShown(service, 'one')).toEqual([expect.stringContaining('"status":"completed"')]);
  });

  it('need one slot of a worker and of a tenant for a whole tree, because who waits for them has none', async () => {
    const agents = ['one', 'two', 'three'];
    const below = (no: number) => (agents[no] === undefined ? {} : { tools: [{ agent: agents[no] }] });
    await using service = await startTeam(
      backend,
      agents.map((name, no) => agentOf(name, below(no + 1))),
      { environment: { BATON_STEP_CONCURRENCY: '1', BATON_TENANT_CONCURRENCY: '1' } },
    );
    const { simulator, deps } = service;
    const passOn = (agent: string) => [{ toolCalls: [task(agent, { task: 'Dig' })] }, { text: 'Dug.' }];
    simulator.script('test', passOn('one'));
    simulator.script('one', passOn('two'));
    simulator.script('two', passOn('three'));
    simulator.script('three', [{ text: 'Found.', gates: { beforeFirstChunk: 'bottom' } }]);
    const worker = await service.startWorker();
    const session = await service.createSession({ tools: [{ agent: 'one' }] });
    const { runId } = await service.send(session, 'Dig deep');
    await simulator.gate('bottom').reached;
    expect(worker.activeJobs()).toBe(1);
    const runs = await deps.db.selectFrom('runs').select(['claim_id', 'pending_kind', 'throttled_at']).execute();
    expect(runs.filter(({ claim_id: claim }) => claim === null)).toEqual(
      Array(3).fill({ claim_id: null, pending_kind: null, throttled_at: null }),
    );
    simulator.gate('bottom').release();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
  });

  it('are cancelled with their root, however deep they are', async () => {
    await using service = await startTeam(backend, [agentOf('lead', usesResearcher), agentOf('researcher')]);
    const { simulator, deps } = service;
    simulator.script('test', [tasks('lead', 3), { text: 'Never.' }]);
    simulator.script('lead', [tasks('researcher', 3), { text: 'Never.' }]);
    simulator.script('researcher', [{ text: 'Never.', gates: { beforeFirstChunk: 'research' } }]);
    await service.startWorker();
    const session = await service.createSession({ tools: [{ agent: 'lead' }] });
    const { runId } = await service.send(session, 'Find out');
    await eventually(
      async () => (await childrenOf(deps.db)).filter(({ state }) => state === 'running').length === 12,
      'all twelve run',
    );
    const outcome = await requestCancel(deps.db, 'default', runId);
    expect(outcome).toMatchObject({ status: 'cancelled', hasEnded: true });
    await afterCancelled(deps, outcome);
    await eventually(
      async () => (await childrenOf(deps.db)).every(({ state, dueAt }) => state === 'dropped' && dueAt === null),
      'nobody waits for any of them',
    );
    const runs = await deps.db.selectFrom('runs').select(['status']).execute();
    expect(runs.map(({ status }) => status)).toEqual(Array(13).fill('cancelled'));
    // The log counts each once: metrics are made of it.
    const ended = () => service.logged.filter(({ event }) => event === 'run_ended');
    await eventually(async () => ended().length >= 13, 'the log has the end of each run');
    expect(ended()).toEqual(Array(13).fill(expect.objectContaining({ status: 'cancelled' })));
    const ends = (await eventsOf(service, session)).filter(({ type }) => type === 'child:ended');
    expect(ends.map(({ data }) => data['status'])).toEqual(['cancelled', 'cancelled', 'cancelled']);
  });

  it('that fail or are refused say so to the model, which goes on', async () => {
    await using service = await startTeam(backend, [
      agentOf('researcher'),
      { name: 'unpaid', model: 'simulated/unscripted' },
    ]);
    const { simulator } = service;
    simulator.script('test', [
      {
        toolCalls: [
          task('unpaid', { task: 'Fail' }),
          task('researcher', { task: 'Go on', session: 'ses_0123456789abcdef0123456789abcdef' }),
          task('gone', { task: 'Be there' }),
        ],
      },
      { text: 'I did it myself.' },
    ]);
    await service.startWorker();
    const session = await service.createSession({
      tools: [{ agent: 'researcher' }, { agent: 'unpaid' }, { agent: 'gone' }],
    });
    const { runId } = await service.send(session, 'Find out');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    const [failed, refused, unknown] = resultsShown(service, 'test');
    expect(failed?.replaceAll('\\', '')).toMatch(/"status":"failed","session":"ses_\w+"/);
    expect(refused).toMatch(/session: .* is no session that this tool has begun here/);
    expect(unknown).toContain('agent: there is no gone any more');
  });

  it('wait for each other beyond `maxParallel`', async () => {
    await using service = await startTeam(backend, [agentOf('researcher')]);
    const { simulator, deps } = service;
    simulator.script('test', [tasks('researcher', 3), { text: 'Done.' }]);
    simulator.script('researcher', [{ text: 'Found.', gates: { beforeFirstChunk: 'research' } }]);
    await service.startWorker();
    const session = await service.createSession({ tools: [{ agent: 'researcher', maxParallel: 1 }] });
    const { runId } = await service.send(session, 'Find out');
    await eventually(
      async () => (await childrenOf(deps.db)).map(({ state }) => state).join() === 'running,held,held',
      'one runs and two wait',
    );
    simulator.gate('research').release();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    const runs = await deps.db
      .selectFrom('runs')
      .select(['started_at', 'finished_at'])
      .where('session_id', '!=', session)
      .orderBy('started_at')
      .execute();
    for (const [no, run] of runs.slice(1).entries()) {
      expect(run.started_at?.getTime()).toBeGreaterThanOrEqual(runs[no]?.finished_at?.getTime() ?? Number.NaN);
    }
  });

  it('begin once and answer once, by however many processes they are looked after at the same time', async () => {
    await using service = await startTeam(backend, [agentOf('researcher')]);
    const { simulator, deps } = service;
    simulator.script('test', [tasks('researcher', 2), { text: 'Done.' }]);
    simulator.script('researcher', [{ text: 'Found.', gates: { beforeFirstChunk: 'research' } }]);
    const { signal } = new AbortController();
    // Eight processes at the same point: each has read the children before any of them acts.
    const byMany = async (): Promise<void> => {
      await sql`update children set due_at = clock_timestamp()`.execute(deps.db);
      const due = await takeDue(deps.db);
      const many = due.flatMap((child) => Array.from({ length: 8 }, () => child));
      await Promise.all(many.map((child) => lookAfter(delegationDeps(service), child, signal, LANES)));
    };
    {
      await using _worker = await startWithoutChildren(service);
      const session = await service.createSession(usesResearcher);
      const { runId } = await service.send(session, 'Find out');
      await eventually(async () => (await childrenOf(deps.db)).length === 2, 'the calls wait for children');
      await byMany();
      simulator.gate('research').release();
      await eventually(
        async () => (await childrenOf(deps.db)).every(({ state }) => state === 'ended'),
        'both children have ended',
      );
      await byMany();
      expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
      const [parent] = await deps.db.selectFrom('runs').select('children_steps').where('id', '=', runId).execute();
      expect(parent).toEqual({ children_steps: 2 });
      const types = await typesOf(service, session);
      expect(types.filter((type) => type === 'child:started')).toHaveLength(2);
      expect(types.filter((type) => type === 'child:ended')).toHaveLength(2);
    }
    expect(await deps.db.selectFrom('sessions').select('id').execute()).toHaveLength(3);
    expect(await deps.db.selectFrom('runs').select('id').execute()).toHaveLength(3);
    expect(await deps.db.selectFrom('inbox').select('id').execute()).toHaveLength(3);
  });

  it('never begin after the cancel of their parent, and a result that comes after it goes nowhere', async () => {
    await using service = await startTeam(backend, [agentOf('researcher')]);
    const { simulator, deps } = service;
    simulator.script('test', [tasks('researcher', 1), { text: 'Never.' }]);
    simulator.script('researcher', [{ text: 'Found.', gates: { beforeFirstChunk: 'research' } }]);
    const { signal } = new AbortController();
    await using _worker = await startWithoutChildren(service);
    const begin = async (): Promise<readonly [string, Child]> => {
      const session = await service.createSession(usesResearcher);
      const { runId } = await service.send(session, 'Find out');
      await eventually(async () => (await childrenOf(deps.db, session)).length === 1, 'the call waits for a child');
      const child = (await takeDue(deps.db)).find(({ parentRunId }) => parentRunId === runId);
      if (child === undefined) throw new Error('no child is due');
      return [runId, child];
    };
    const [cancelled, unborn] = await begin();
    await requestCancel(deps.db, 'default', cancelled);
    await lookAfter(delegationDeps(service), unborn, signal, LANES);
    expect(await childrenOf(deps.db, unborn.parentSessionId)).toMatchObject([{ state: 'dropped' }]);
    expect(await deps.db.selectFrom('sessions').select('id').where('depth', '=', 1).execute()).toEqual([]);

    const [later, child] = await begin();
    await lookAfter(delegationDeps(service), child, signal, LANES);
    // The child must not end earlier: a look that is still going on then would deliver its result, too.
    simulator.gate('research').release();
    await eventually(
      async () => (await childrenOf(deps.db, child.parentSessionId))[0]?.state === 'ended',
      'the child has ended',
    );
    await requestCancel(deps.db, 'default', later);
    await lookAfter(delegationDeps(service), (await readChild(deps.db, child)) ?? child, signal, LANES);
    expect(await childrenOf(deps.db, child.parentSessionId)).toMatchObject([{ state: 'dropped' }]);
    expect(await statusOf(service, later)).toBe('cancelled');
  });
});
