import { execFile } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { startApi } from '../../src/runtime/api-server.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { parseMetrics, sumOf } from './text-format.ts';

type Verdict = Readonly<{ exitCode: number | null; said: string }>;

/** Null: there is no promtool on this machine. */
function promtool(args: readonly string[], input: string): Promise<Verdict | null> {
  return new Promise((resolve) => {
    const child = execFile('promtool', args, (error, stdout, stderr) => {
      if (error?.code === 'ENOENT') return resolve(null);
      resolve({ exitCode: child.exitCode, said: `${stdout}${stderr}` });
    });
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(input);
  });
}

const isMissing = (await promtool(['--version'], '')) === null;
const WHY = 'no promtool on the PATH: text-format.ts checks alone';

describe('promtool', () => {
  it('finds nothing to say about what a service shows that has worked', async ({ skip }) => {
    skip(isMissing, WHY);
    const [backend = 'postgres'] = availableBackends();
    const tool = { name: 'look', description: 'Looks.', inputSchema: { type: 'object' } as const };
    const execute = async () => 'seen';
    await using service = await startTestService({
      backend,
      tools: [{ ...tool, execute }],
      environment: { BATON_PORT: '0' },
    });
    await using api = await startApi(service.deps);
    service.simulator.fault('test', { kind: 'rate-limit', retryAfterMs: 1 });
    service.simulator.script('test', [{ toolCalls: [{ name: 'look', input: {} }] }, { text: 'Done.' }]);
    await service.startWorker();
    const { runId } = await service.send(await service.createSession(), 'Go');
    await service.ended(runId);
    const text = await eventually(async () => {
      const scraped = await (await fetch(`${api.url}/metrics`)).text();
      return sumOf(parseMetrics(scraped), 'baton_tool_calls_total') > 0 ? scraped : null;
    }, 'the call is counted');
    expect(await promtool(['check', 'metrics'], text)).toEqual({ exitCode: 0, said: '' });
  });

  it('would have something to say about others', async ({ skip }) => {
    skip(isMissing, WHY);
    const broken = '# HELP baton_runs Runs.\n# TYPE baton_runs counter\nbaton_runs 1\n';
    expect((await promtool(['check', 'metrics'], broken))?.said).toContain(
      'counter metrics should have "_total" suffix',
    );
  });
});
