import { describe, expect, it } from 'vitest';
import { ENGINE_VERSION } from '../../src/domain/tunables.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { acceptMessage } from '../support/unlimited.ts';

describe.each(availableBackends())('a run that asks for a newer version than the worker is, on %s', (backend) => {
  it('goes back to the queue as it was, and is done as soon as a worker may work on it', async () => {
    await using service = await startTestService({ backend });
    const { db, jobs } = service.deps;
    service.simulator.script('test', [{ text: 'Done.' }]);
    const sessionId = await service.createSession();
    const { job, runId } = await acceptMessage(db, {
      tenantId: 'default',
      sessionId,
      messageId: service.deps.newId(),
      content: [{ type: 'text', text: 'Go' }],
      runId: service.deps.newId(),
    });
    const require = (engine: number) =>
      db.updateTable('runs').set({ required_engine: engine }).where('id', '=', runId).execute();
    await require(ENGINE_VERSION + 1);
    await jobs.add(job === null ? [] : [job]);
    await service.startWorker();
    await eventually(async () => (await jobs.counts()).step.delayed === 1, 'the job waits for a newer worker');
    expect(await findRun(db, 'default', runId)).toMatchObject({ status: 'queued', step_count: 0 });
    expect(service.simulator.requests).toEqual([]);
    await require(ENGINE_VERSION);
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 1 });
    expect(service.logged.filter(({ event }) => event === 'run_recovered')).toEqual([]);
  });
});
