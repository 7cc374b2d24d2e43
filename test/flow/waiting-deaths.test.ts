import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { type CallAnswer, UNKNOWN_OUTCOME } from '../../src/domain/transcript/required-action.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { startWorkerProcess } from '../support/worker-process.ts';
import { answer, call, callsOf, keyOf, send, shownResults, untilWaiting, violations } from './waiting-scenario.ts';

/** A folder with a tool that notes its calls, and hangs in the first one. */
function createTillFolder() {
  const folder = mkdtempSync(path.join(tmpdir(), 'baton-till-'));
  const till = path.join(folder, 'till');
  writeFileSync(till, '');
  writeFileSync(
    path.join(folder, 'pay.mjs'),
    `import { appendFileSync, readFileSync } from 'node:fs';
    export default {
      name: 'pay',
      description: 'Pays.',
      inputSchema: { type: 'object' },
      onUnknown: 'ask',
      async execute(_input, { callKey }) {
        appendFileSync(${JSON.stringify(till)}, callKey + '\\n');
        if (readFileSync(${JSON.stringify(till)}, 'utf8').split('\\n').length === 2) await new Promise(() => setInterval(() => {}, 1000));
        return 'paid';
      },
    };`,
  );
  return {
    folder,
    paid: () => readFileSync(till, 'utf8').split('\n').filter(Boolean),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true }),
  };
}

describe.each(availableBackends())('a call whose worker was killed while it ran on %s', (backend) => {
  it.each<[string, CallAnswer, { times: number; shown: string }]>([
    ['run again with the same key', { kind: 'approve' }, { times: 2, shown: 'paid' }],
    ['reported as unknown', { kind: 'deny' }, { times: 1, shown: UNKNOWN_OUTCOME }],
    ['taken as it went', { kind: 'output', output: 'It went through.' }, { times: 1, shown: 'It went through.' }],
  ])('is asked about, and %s', async (_what, given, { times, shown }) => {
    using till = createTillFolder();
    await using service = await startTestService({
      backend,
      environment: { BATON_AGENTS_DIR: till.folder, BATON_LEASE_DURATION_MS: '600000' },
    });
    service.simulator.script('test', [{ toolCalls: [call('pay')] }, { text: 'Done.' }]);
    await using first = await startWorkerProcess('steps', service.environment);
    const session = await service.createSession({ tools: [{ module: './pay.mjs' }] });
    const { runId } = await send(service, session, 'Go');
    await eventually(async () => till.paid().length === 1, 'the call runs');
    await first.kill('SIGKILL');
    await using _second = await startWorkerProcess('steps', service.environment);
    const [action] = await untilWaiting(service, runId);
    expect(action).toMatchObject({ kind: 'unknown_outcome', toolName: 'pay' });
    expect(await callsOf(service, session)).toMatchObject([{ state: 'unknown' }]);
    expect(service.simulator.requests).toHaveLength(1);
    expect(await answer(service, runId, action?.id, given)).toMatchObject({ open: 0 });
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(till.paid()).toEqual(Array.from({ length: times }, () => keyOf(action)));
    expect(shownResults(service)).toEqual([expect.stringContaining(shown)]);
    expect(violations(service)).toEqual([]);
  });
});
