import { describe, expect, it } from 'vitest';
import { afterAnswered, afterCancelled } from '../../src/commands/after-commit.ts';
import { formatId, parseCallId } from '../../src/domain/ids.ts';
import { deleteIfStale } from '../../src/store/around/retention.ts';
import { answerCall } from '../../src/store/changes/call-answers.ts';
import { requestCancel, requestSessionCancel } from '../../src/store/changes/cancels.ts';
import { listWaitingCalls } from '../../src/store/lists/waiting-calls.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { deleteSession, findSession } from '../../src/store/session/sessions.ts';
import { readActionsOfTrees } from '../../src/store/transcript/open-calls.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import type { TestService } from '../support/service.ts';
import { agentOf, childrenOf, eventsOf, resultsShown, startTeam, task, tasks, typesOf } from './children-scenario.ts';
import { createWaitingTools } from './waiting-scenario.ts';

const statusOf = async ({ deps }: TestService, runId: string) => (await findRun(deps.db, 'default', runId)).status;

const inBackground = { tools: [{ agent: 'researcher', mode: 'background' as const }] };

describe.each(availableBackends())('children in the background on %s', (backend) => {
  it('let their parent go on at once, and their end is one message that is no message of the user', async () => {
    await using service = await startTeam(backend, [agentOf('researcher')]);
    const { simulator, deps } = service;
    simulator.script('test', [tasks('researcher', 1), { text: 'I go on meanwhile.' }, { text: 'So it is.' }]);
    simulator.script('researcher', [{ text: 'Found.', gates: { beforeFirstChunk: 'research' } }]);
    await service.startWorker();
    const session = await service.createSession(inBackground);
    const { runId } = await service.send(session, 'Find out');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(resultsShown(service, 'test')).toEqual([expect.stringMatching(/"status":"running","session":"ses_\w+"/)]);
    expect(await childrenOf(deps.db)).toMatchObject([{ state: 'running' }]);
    simulator.gate('research').release();
    await eventually(async () => (await childrenOf(deps.db))[0]?.state === 'delivered', 'the end is told');
    const [notice, ...others] = await deps.db
      .selectFrom('inbox')
      .select(['origin', 'run_id', 'content'])
      .where('session_id', '=', session)
      .where('origin', '=', 'system')
      .execute();
    expect(others).toEqual([]);
    expect(JSON.stringify(notice?.content)).toContain('This is no message of the user');
    expect(await service.ended(notice?.run_id ?? '')).toMatchObject({ status: 'completed', trigger: 'notice' });
    const asked = simulator.requests.findLast(({ request }) => request?.model === 'test');
    expect(JSON.stringify(asked?.request?.messages.at(-1))).toContain('Found.');
    const { metadata } = await deps.db
      .selectFrom('messages')
      .select('metadata')
      .where('run_id', '=', notice?.run_id ?? '')
      .where('role', '=', 'user')
      .executeTakeFirstOrThrow();
    expect(metadata).toMatchObject({ inbox: [{ origin: 'system' }] });
  });

  it('are listed, read and stopped by their parent; one that was stopped is not told of', async () => {
    await using service = await startTeam(backend, [agentOf('researcher')]);
    const { simulator, deps } = service;
    const childOf = async () => formatId('session', (await childrenOf(deps.db))[0]?.sessionId ?? '');
    simulator.script('test', async ({ messages }) => {
      const results = messages.flatMap(({ toolResults }) => toolResults).length;
      if (results === 0) return tasks('researcher', 1);
      if (results === 1) return { toolCalls: [task('list_children', {})] };
      if (results === 2) return { toolCalls: [task('read_child', { session: await childOf() })] };
      return results === 3 ? { toolCalls: [task('stop_child', { session: await childOf() })] } : { text: 'Enough.' };
    });
    simulator.script('researcher', [{ text: 'Never.', gates: { beforeFirstChunk: 'research' } }]);
    await service.startWorker();
    const session = await service.createSession(inBackground);
    const { runId } = await service.send(session, 'Find out');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    expect(resultsShown(service, 'test').slice(1)).toEqual([
      expect.stringContaining('"status":"running"'),
      '[nothing yet]',
      'It stops.',
    ]);
    await eventually(async () => (await childrenOf(deps.db))[0]?.state === 'dropped', 'it has stopped');
    expect(await deps.db.selectFrom('inbox').select('id').where('origin', '=', 'system').execute()).toEqual([]);
    expect(await statusOf(service, (await childrenOf(deps.db))[0]?.runId ?? '')).toBe('cancelled');
  });

  it('stop with the session that began them', async () => {
    await using service = await startTeam(backend, [agentOf('researcher')]);
    const { simulator, deps } = service;
    simulator.script('test', [tasks('researcher', 1), { text: 'I go on meanwhile.' }]);
    simulator.script('researcher', [{ text: 'Never.', gates: { beforeFirstChunk: 'research' } }]);
    await service.startWorker();
    const session = await service.createSession(inBackground);
    const { runId } = await service.send(session, 'Find out');
    await service.ended(runId);
    await requestSessionCancel(deps.db, 'default', session);
    deps.lookAfterChildren();
    await eventually(async () => (await childrenOf(deps.db))[0]?.state === 'dropped', 'it has stopped');
    expect(await statusOf(service, (await childrenOf(deps.db))[0]?.runId ?? '')).toBe('cancelled');
  });

  it('stop with the run at the root, although the child between has ended', async () => {
    await using service = await startTeam(backend, [agentOf('lead', inBackground), agentOf('researcher')]);
    const { simulator, deps } = service;
    simulator.script('test', [tasks('lead', 1), { text: 'Never.', gates: { beforeFirstChunk: 'root' } }]);
    simulator.script('lead', [tasks('researcher', 1), { text: 'I do not wait.' }]);
    simulator.script('researcher', [{ text: 'Never.', gates: { beforeFirstChunk: 'research' } }]);
    await service.startWorker();
    const session = await service.createSession({ tools: [{ agent: 'lead' }] });
    const { runId } = await service.send(session, 'Find out');
    await simulator.gate('root').reached;
    await simulator.gate('research').reached;
    const [lead] = await childrenOf(deps.db, session);
    expect(lead?.state).toBe('delivered');
    await afterCancelled(deps, await requestCancel(deps.db, 'default', runId));
    deps.lookAfterChildren();
    await service.ended(runId);
    await eventually(
      async () => (await childrenOf(deps.db, lead?.sessionId))[0]?.state === 'dropped',
      'the researcher has stopped',
    );
  });
});

describe.each(availableBackends())('a session whose children are at work on %s', (backend) => {
  it('is not deleted, at any level above them; its cancel stops them all, and then they outlive it', async () => {
    await using service = await startTeam(backend, [agentOf('lead', inBackground), agentOf('researcher')]);
    const { simulator, deps } = service;
    simulator.script('test', [tasks('lead', 1), { text: 'Done.' }]);
    simulator.script('lead', [tasks('researcher', 1), { text: 'I do not wait.' }]);
    simulator.script('researcher', [{ text: 'Never.', gates: { beforeFirstChunk: 'research' } }]);
    await service.startWorker();
    const session = await service.createSession({ tools: [{ agent: 'lead' }] });
    await service.ended((await service.send(session, 'Find out')).runId);
    const [lead] = await childrenOf(deps.db, session);
    const [researcher] = await childrenOf(deps.db, lead?.sessionId);
    const working = formatId('session', researcher?.sessionId ?? '');
    for (const above of [session, lead?.sessionId ?? '']) {
      await expect(deleteSession(deps.db, 'default', above)).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining(`are at work: ${working}. Cancel it first`),
      });
    }
    expect(await deleteIfStale(deps.db, lead?.sessionId ?? '', new Date(Date.now() + 60_000))).toBe(false);
    await requestSessionCancel(deps.db, 'default', session);
    deps.lookAfterChildren();
    await eventually(
      async () => (await childrenOf(deps.db, lead?.sessionId))[0]?.state === 'dropped',
      'the researcher has stopped',
    );
    await deleteSession(deps.db, 'default', session);
    expect(await findSession(deps.db, 'default', lead?.sessionId ?? '')).toMatchObject({ parent_session_id: null });
    expect(await deleteIfStale(deps.db, lead?.sessionId ?? '', new Date(Date.now() + 60_000))).toBe(true);
  });
});

describe.each(availableBackends())('a child on %s', (backend) => {
  it('asks at the root, however deep it is, and is answered there', async () => {
    const { tools, ran } = createWaitingTools();
    await using service = await startTeam(
      backend,
      [agentOf('lead', { tools: [{ agent: 'operator' }] }), agentOf('operator', { tools: ['test'] })],
      { tools },
    );
    const { simulator, deps } = service;
    simulator.script('test', [tasks('lead', 1), { text: 'Done.' }]);
    simulator.script('lead', [tasks('operator', 1), { text: 'Done.' }]);
    simulator.script('operator', [{ toolCalls: [task('deploy', { to: 'prod' })] }, { text: 'Deployed.' }]);
    await service.startWorker();
    const session = await service.createSession({ tools: [{ agent: 'lead' }] });
    const { runId } = await service.send(session, 'Deploy');
    await eventually(async () => (await statusOf(service, runId)) === 'requires_action', 'the root asks');
    expect(await findSession(deps.db, 'default', session)).toMatchObject({ status: 'requires_action' });
    const actions = (await readActionsOfTrees(deps.db, [await findRun(deps.db, 'default', runId)])).get(runId);
    expect(actions).toMatchObject([
      { kind: 'approval', toolName: 'deploy', args: { to: 'prod' }, child: { agent: 'operator' } },
    ]);
    const waiting = await listWaitingCalls(deps.db, { tenantId: 'default', limit: 10 });
    expect(waiting).toMatchObject([{ toolName: 'deploy', agent: 'operator' }]);
    const place = parseCallId(actions?.[0]?.id ?? '');
    if (place === null) throw new Error('no call is asked for');
    const answered = await answerCall(deps.db, { tenantId: 'default', runId, ...place }, { kind: 'approve' });
    expect(answered.root?.sessionId).toBe(session);
    // The root asks for nothing any more, although no worker has looked yet.
    expect(await statusOf(service, runId)).toBe('running');
    await afterAnswered(deps, answered);
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    expect(ran).toMatchObject([{ name: 'deploy', input: { to: 'prod' } }]);
    const asks = (await eventsOf(service, session)).filter(({ type }) => type === 'child:requires-action');
    expect(asks.map(({ data }) => data['open'])).toEqual([1, 0]);
    expect(await typesOf(service, session)).not.toContain('run:requires-action');
  });

  it('goes on by its id, and knows what it did', async () => {
    await using service = await startTeam(backend, [agentOf('researcher')]);
    const { simulator, deps } = service;
    const childOf = async () => formatId('session', (await childrenOf(deps.db))[0]?.sessionId ?? '');
    simulator.script('test', async ({ messages }) => {
      const results = messages.flatMap(({ toolResults }) => toolResults).length;
      if (results === 0) return tasks('researcher', 1);
      return results === 1
        ? { toolCalls: [task('researcher', { task: 'And why?', session: await childOf() })] }
        : { text: 'Done.' };
    });
    simulator.script('researcher', [{ text: 'It is so.' }, { text: 'Because.' }]);
    await service.startWorker();
    const session = await service.createSession({ tools: [{ agent: 'researcher' }] });
    const { runId } = await service.send(session, 'Find out');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    const [first, second] = await childrenOf(deps.db);
    expect(second?.sessionId).toBe(first?.sessionId);
    expect(second?.runId).not.toBe(first?.runId);
    const asked = simulator.requests.findLast(({ request }) => request?.model === 'researcher');
    expect(asked?.request?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user']);
  });
});
