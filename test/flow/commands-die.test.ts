import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { anyBackend } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startWorkerProcess } from '../support/worker-process.ts';
import { isRunning } from '../tools/workspace-fixture.ts';

const backend = anyBackend();

/**
 * A shell, its child and a grandchild that would run for a long time; each writes its pid. The second ignores SIGTERM.
 */
const FAMILY = 'echo $$ >> pids; (echo $BASHPID >> pids; sleep 1000 & echo $! >> pids; wait) & wait';
const STUBBORN_FAMILY = `trap "" TERM; ${FAMILY}`;

/** A worker process in whose `bash` call a family of processes is at work. */
async function workingFamily(command: string) {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await temporaryFolder());
  const service = stack.use(
    await startTestService({
      backend,
      environment: { BATON_SHUTDOWN_GRACE_MS: '100', BATON_WORKSPACE_DIR: folder.path },
    }),
  );
  service.simulator.script('test', [{ toolCalls: [{ name: 'bash', input: { command } }] }, { text: 'Done.' }]);
  const worker = stack.use(await startWorkerProcess('steps', service.environment));
  const { runId } = await service.send(await service.createSession({ tools: ['workspace'] }), 'Go');
  const pids = await eventually(async () => {
    const text = await readFile(path.join(folder.path, 'pids'), 'utf8').catch(() => '');
    const found = text.trim().split('\n').map(Number);
    return found.length === 3 ? found : null;
  }, 'the family is at work');
  expect(pids.filter(isRunning)).toEqual(pids);
  const owned = stack.move();
  return {
    service,
    worker,
    runId,
    gone: () => eventually(async () => !pids.some(isRunning), 'no process of the family is left'),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const FAMILIES = [
  ['ordinary', FAMILY],
  ['SIGTERM-ignoring', STUBBORN_FAMILY],
] as const;

describe.each(FAMILIES)('an %s command and everything that it has started', (_, command) => {
  it.each(['SIGKILL', 'SIGTERM'] as const)('dies with its worker on %s', async (signal) => {
    await using family = await workingFamily(command);
    await family.worker.kill(signal);
    await family.gone();
  });

  it('dies when its run is cancelled, and the worker lives on', async () => {
    await using family = await workingFamily(command);
    const { service, runId, worker } = family;
    expect(await requestCancel(service.deps.db, 'default', runId)).toMatchObject({ notify: true });
    service.deps.bus.requestCancel(runId);
    expect(await service.ended(runId)).toMatchObject({ status: 'cancelled' });
    await family.gone();
    expect(isRunning(worker.pid)).toBe(true);
  });
});
