import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startWorkerProcess } from '../support/worker-process.ts';

/** A short lease, so that a dead worker is noticed within the test. */
const LEASE = { BATON_LEASE_DURATION_MS: '1500', BATON_HEARTBEAT_INTERVAL_MS: '300' };

describe.each(availableBackends())('worker processes on %s', (backend) => {
  it('complete the run of a worker that was killed in mid-stream, without a trace of the broken answer', async () => {
    await using folder = await temporaryFolder();
    await using service = await startTestService({
      backend,
      environment: { ...LEASE, BATON_WORKSPACE_DIR: folder.path },
    });
    service.simulator.script('test', [
      { toolCalls: [{ name: 'bash', input: { command: 'echo once >> ledger' } }] },
      { text: 'This answer has many chunks.', chunkChars: 4, gates: { afterChunks: { count: 3, gate: 'middle' } } },
    ]);
    await using first = await startWorkerProcess('steps', service.environment);
    const session = await service.createSession({ tools: ['workspace'] });
    const { runId } = await service.send(session, 'Go');
    await service.simulator.gate('middle').reached;
    await using _second = await startWorkerProcess('steps', service.environment);
    await first.kill('SIGKILL');
    // Until then the simulator may not have noticed that the first connection is gone, and would take its answer for delivered.
    await eventually(async () => service.simulator.requests.length === 3, 'the second worker has asked again');
    service.simulator.gate('middle').release();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(await readFile(path.join(folder.path, 'ledger'), 'utf8')).toBe('once\n');
    const messages = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 });
    expect(messages.map((message) => message.finishReason)).toEqual([null, 'tool-calls', 'stop']);
    expect(messages[2]?.parts.at(-1)).toMatchObject({ text: 'This answer has many chunks.' });
    const events = await readEvents(service.deps.db, 'default', session, { afterSeq: 0, limit: 1_000 });
    expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
    expect(events.filter((event) => event.type === 'step:reset').length).toBe(1);
    expect(service.simulator.requests.flatMap((request) => request.violations)).toEqual([]);
  });

  it('never repeat a call whose worker was killed while it ran: the model is told that its outcome is unknown', async () => {
    await using folder = await temporaryFolder();
    await using service = await startTestService({
      backend,
      environment: { ...LEASE, BATON_WORKSPACE_DIR: folder.path },
    });
    service.simulator.script('test', [
      {
        toolCalls: [
          { id: 'call_done', name: 'bash', input: { command: 'echo done >> ledger' } },
          { id: 'call_hangs', name: 'bash', input: { command: 'echo begun >> ledger; sleep 600' } },
        ],
      },
      { text: 'I will verify.' },
    ]);
    await using first = await startWorkerProcess('steps', service.environment);
    const session = await service.createSession({ tools: ['workspace'] });
    const { runId } = await service.send(session, 'Go');
    const ledger = () => readFile(path.join(folder.path, 'ledger'), 'utf8').catch(() => '');
    const states = async () =>
      (
        await service.deps.db.selectFrom('parts').select('state').where('type', '=', 'tool').orderBy('idx').execute()
      ).map((part) => part.state);
    await eventually(async () => (await ledger()).includes('begun'), 'the second call has begun');
    await eventually(async () => (await states())[0] === 'completed', 'the first call is completed');
    await using _second = await startWorkerProcess('steps', service.environment);
    await first.kill('SIGKILL');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect((await ledger()).trim().split('\n').sort()).toEqual(['begun', 'done']);
    const [, answer] = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 });
    expect(answer?.parts.filter((part) => part.type === 'tool')).toMatchObject([
      { toolCallId: 'call_done', state: 'completed' },
      { toolCallId: 'call_hangs', state: 'error', output: { value: expect.stringContaining('unknown') } },
    ]);
    expect(service.simulator.requests.length).toBe(2);
    expect(service.simulator.requests.flatMap((request) => request.violations)).toEqual([]);
  });

  it('share the work of many sessions', async () => {
    await using service = await startTestService({ backend, environment: { BATON_STEP_CONCURRENCY: '2' } });
    service.simulator.script('test', () => ({ text: 'An answer.', gates: { beforeFirstChunk: 'all' } }));
    await using _first = await startWorkerProcess('steps', service.environment);
    await using _second = await startWorkerProcess('steps', service.environment);
    const sessions = await Promise.all(Array.from({ length: 12 }, () => service.createSession({ tools: [] })));
    const sent = await Promise.all(sessions.map((session) => service.send(session, 'Go')));
    // Each takes two at a time: four requests at once need both.
    await eventually(async () => service.simulator.requests.length === 4, 'both workers ask their models');
    service.simulator.gate('all').release();
    const runs = await Promise.all(sent.map(({ runId }) => service.ended(runId)));
    expect(runs.map((run) => run.status)).toEqual(runs.map(() => 'completed'));
    const finishedBy = () =>
      [_first, _second].map((worker) => worker.logged.filter((entry) => entry['event'] === 'step_finished').length);
    // The last lines may still be on their way through the pipe when the database has the end of the run.
    await eventually(async () => finishedBy().reduce((sum, count) => sum + count, 0) === 12, 'all steps are logged');
    expect(finishedBy().every((count) => count > 0)).toBe(true);
  });

  it('hand their steps back on SIGTERM: nothing is lost, nothing is repeated, no attempt is burned', async () => {
    await using folder = await temporaryFolder();
    await using service = await startTestService({
      backend,
      environment: { BATON_SHUTDOWN_GRACE_MS: '100', BATON_WORKSPACE_DIR: folder.path },
    });
    service.simulator.script('test', [
      { toolCalls: [{ name: 'bash', input: { command: 'echo once >> ledger' } }] },
      { text: 'A long answer here.', chunkChars: 4, gates: { afterChunks: { count: 2, gate: 'middle' } } },
    ]);
    await using first = await startWorkerProcess('steps', service.environment);
    const session = await service.createSession({ tools: ['workspace'] });
    const { runId } = await service.send(session, 'Go');
    await service.simulator.gate('middle').reached;
    await using _second = await startWorkerProcess('steps', service.environment);
    expect(await first.kill('SIGTERM')).toBe(0);
    service.simulator.gate('middle').release();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(first.logged.map((entry) => entry['event'])).toContain('step_handed_back');
    const { resume_count } = await service.deps.db
      .selectFrom('runs')
      .select('resume_count')
      .where('id', '=', runId)
      .executeTakeFirstOrThrow();
    expect(resume_count).toBe(0);
    expect(await readFile(path.join(folder.path, 'ledger'), 'utf8')).toBe('once\n');
  });

  it('say as they start that nothing keeps commands from their keys, where that is so', async () => {
    await using folder = await temporaryFolder();
    await using service = await startTestService({ backend, environment: { BATON_WORKSPACE_DIR: folder.path } });
    // Without the programs that would do it.
    const PATH = path.join(folder.path, 'bin');
    await using worker = await startWorkerProcess('steps', { ...service.environment, PATH });
    expect(worker.logged).toContainEqual(expect.objectContaining({ level: 'warn', event: 'commands_not_apart' }));
  });
});
