import path from 'node:path';
import { expect, it } from 'vitest';
import { startApi } from '../../src/app/api-server.ts';
import { formatId } from '../../src/domain/ids.ts';
import { runNode } from '../deploy/process.ts';
import { agentOf, task } from '../flow/children-scenario.ts';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { anyBackend } from '../support/backends.ts';
import { startTestService } from '../support/service.ts';

const ROOT = path.join(import.meta.dirname, '../..');

it('baton shows the children of a run, and ends with 4 when one of them asks: it is answered at the root', async () => {
  const { tools } = createWaitingTools();
  const agents = [agentOf('operator', { tools: ['test'] })];
  const environment = { BATON_PORT: '0' };
  await using service = await startTestService({ backend: anyBackend(), agents, tools, environment });
  await using api = await startApi(service.deps);
  await service.startWorker();
  const { simulator } = service;
  simulator.script('test', [{ toolCalls: [task('operator', { task: 'Deploy it' })] }, { text: 'All done.' }]);
  simulator.script('operator', [{ toolCalls: [task('deploy', { to: 'production' })] }, { text: 'Deployed.' }]);
  const baton = (...args: string[]) =>
    runNode(['bin/baton.js', ...args], { cwd: ROOT, environment: { BATON_URL: api.url } }).ended;
  const session = formatId('session', await service.createSession({ tools: [{ agent: 'operator' }] }));

  const asked = await baton('send', session, 'Deploy', '--follow');
  expect(asked.output).toMatch(/⇢ operator begins in ses_\w+[\s\S]*\? deploy to: production waits for an approval/);
  expect(asked.code).toBe(4);
  const [, runId = '', callId = ''] = /baton -- answer (run_\w+) (call_\w+) approve/.exec(asked.output) ?? [];
  expect((await baton('show', runId)).output).toMatch(/child +operator requires_action, ses_\w+\n/);

  const answered = await baton('answer', runId, callId, 'approve', '--follow');
  expect(answered.output).toMatch(/⇠ operator completed after 2 steps, [\s\S]*All done\.[\s\S]*✓ completed/);
  expect(answered.code).toBe(0);
  const shown = await baton('show', runId);
  const [, child = ''] = /child +operator completed, 2 steps, [\d,]+ tokens, (ses_\w+)\n/.exec(shown.output) ?? [];
  expect((await baton('show', child)).output).toContain(`child      of ${session}\n`);
  const listed = await baton('sessions', '--parent', session);
  expect(listed.output).toContain(`${child}  `);
  expect(listed.output).toContain(`child of ${session}`);
});
