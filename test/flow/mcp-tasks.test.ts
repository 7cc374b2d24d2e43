import { expect, it } from 'vitest';
import { MAX_RESUMES_PER_STEP } from '../../src/domain/tunables.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { startWorkerProcess } from '../support/worker-process.ts';
import { startTaskServer } from '../tools/task-server.ts';
import { callsOf, shownResults, violations } from './waiting-scenario.ts';

/** A run whose call is a task, and whose worker has asked about it. */
async function startScene() {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startTaskServer('modern'));
  const environment = { BATON_LEASE_DURATION_MS: '600000' };
  const service = stack.use(await startTestService({ backend: 'postgres', environment }));
  service.simulator.script('test', [{ toolCalls: [{ name: 'own__hang', input: {} }] }, { text: 'Done.' }]);
  const session = await service.createSession({
    mcpServers: { own: { ...server.config, timeoutMs: 60_000, trust: false } },
    tools: [{ mcp: 'own' }],
  });
  const workers = stack.use(new AsyncDisposableStack());
  const startWorker = async () => workers.use(await startWorkerProcess('steps', service.environment));
  const worker = await startWorker();
  const { runId } = await service.send(session, 'Go');
  await eventually(async () => server.lines().includes('get hang'), 'the task is asked about');
  const owned = stack.move();
  return { server, service, session, runId, worker, startWorker, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

it.each(['SIGKILL', 'SIGTERM'] as const)(
  'the task of a worker that ended by %s is gone on with by the next one',
  async (signal) => {
    await using scene = await startScene();
    const { server, service, session, runId, worker, startWorker } = scene;
    await worker.kill(signal);
    server.end();
    const next = await startWorker();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(server.lines().filter((line) => !line.startsWith('get'))).toEqual(['call hang']);
    expect(next.logged).toContainEqual(expect.objectContaining({ event: 'tool_call_resumed', tool: 'own__hang' }));
    expect(await callsOf(service, session)).toMatchObject([{ state: 'completed' }]);
    expect(shownResults(service)).toEqual([expect.stringContaining('hang is done')]);
    expect(violations(service)).toEqual([]);
  },
);

it('the task of a dead worker is cancelled at the server if the run was cancelled meanwhile', async () => {
  await using scene = await startScene();
  const { server, service, session, runId, worker, startWorker } = scene;
  await worker.kill('SIGKILL');
  await requestCancel(service.deps.db, 'default', runId);
  await startWorker();
  expect(await service.ended(runId)).toMatchObject({ status: 'cancelled' });
  expect(server.lines().filter((line) => !line.startsWith('get'))).toEqual(['call hang', 'cancel hang']);
  expect(await callsOf(service, session)).toMatchObject([{ state: 'error' }]);
});

it('the task of a run that has lost too many workers is cancelled at the server', async () => {
  await using scene = await startScene();
  const { server, service, session, runId, worker, startWorker } = scene;
  await worker.kill('SIGKILL');
  await service.deps.db
    .updateTable('runs')
    .set({ resume_count: MAX_RESUMES_PER_STEP })
    .where('id', '=', runId)
    .execute();
  await startWorker();
  expect(await service.ended(runId)).toMatchObject({ status: 'failed', error: { code: 'resume_limit' } });
  await eventually(async () => server.lines().includes('cancel hang'), 'the task is cancelled');
  expect(server.lines().filter((line) => !line.startsWith('get'))).toEqual(['call hang', 'cancel hang']);
  expect(await callsOf(service, session)).toMatchObject([{ state: 'error' }]);
});
