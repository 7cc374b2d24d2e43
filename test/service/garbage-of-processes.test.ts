import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { createMetrics } from '../../src/metrics/metrics.ts';
import { askMetrics } from '../../src/service/parent-process.ts';
import { runSupervised } from '../../src/tools/workspace/supervised-command.ts';
import { garbageLike, watchForDeath } from '../support/outside-garbage.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { createMcpFixture } from '../tools/mcp-fixture.ts';

const MCP_MESSAGES = [
  { jsonrpc: '2.0', id: 0, result: {} },
  { jsonrpc: '2.0', id: 'none', error: { code: 1, message: 'no' } },
  { jsonrpc: '2.0', id: 7, method: 'sampling/createMessage', params: { messages: [] } },
  { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 1, progress: 1 } },
  { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } },
  { jsonrpc: '2.0', method: 'notifications/tools/list_changed', params: {} },
];

const startChild = async (metrics?: string): Promise<ChildProcess> => {
  const file = fileURLToPath(new URL('./garbage-child.ts', import.meta.url));
  const child = fork(file, metrics === undefined ? [] : [metrics], { stdio: 'inherit' });
  await once(child, 'message');
  return child;
};

describe('what a child process sends', () => {
  it('ends no process when it is an MCP server, whose tools work nevertheless', async () => {
    using watch = watchForDeath();
    const line = fc.oneof(...MCP_MESSAGES.map(garbageLike)).map((each) => each.replaceAll(/[\r\n]/g, ' '));
    await fc.assert(
      fc.asyncProperty(fc.array(line, { maxLength: 12 }), async (garbage) => {
        // An answer to a request of ours is no garbage, whoever made it up.
        const unasked = garbage.filter((each) => !/"id":\s*[0-9]/.test(each));
        const args = [fileURLToPath(new URL('../tools/garbage-server.ts', import.meta.url)), JSON.stringify(unasked)];
        await using fixture = createMcpFixture({ own: { command: process.execPath, args } });
        const agent = await fixture.pin([{ mcp: 'own' }]);
        expect(await fixture.call(agent, 'own__find')).toBe('found');
        expect(watch.causes).toEqual([]);
      }),
      { numRuns: propertyRuns(0.2) },
    );
  });

  it('ends no process when it is a command of bash', async () => {
    using watch = watchForDeath();
    const command = 'head -c 65536 /dev/urandom; head -c 65536 /dev/urandom >&2; exit 3';
    const signal = new AbortController().signal;
    const ended = await runSupervised({ command, cwd: '/', timeoutMs: 60_000, maxOutputChars: 10_000, signal });
    expect(ended.exitCode).toBe(3);
    expect(watch.causes).toEqual([]);
  });

  it('is left out of the metrics when it is none', async () => {
    using watch = watchForDeath();
    const metric = { name: 'a', help: 'b', type: 'counter', values: [{ value: 1, labels: {} }], aggregator: 'sum' };
    const answers = fc.sample(
      garbageLike(metric)
        .map((each) => `[${each}]`)
        .filter(isJson),
      propertyRuns(0.1),
    );
    const metrics = createMetrics();
    for (const answer of ['{"values":1}', 'null', '[null]', '[{"values":[null]}]', ...answers]) {
      const child = await startChild(answer);
      const values = await askMetrics(child);
      using _shown = metrics.add({ registry: new Registry(), others: async () => (values === null ? [] : [values]) });
      expect(await metrics.text()).toContain('# TYPE');
      child.kill();
    }
    expect(watch.causes).toEqual([]);
  });

  it('and what its parent sends, or metrics that cannot be read, do not end it', async () => {
    const child = await startChild();
    const ended = once(child, 'exit').then(() => 'ended');
    for (const message of ['metrics', '', 'x', 0, null, [], { metrics: true }]) {
      await new Promise((sent) => child.send(message as never, sent));
    }
    const other = await startChild('[]');
    expect(await askMetrics(other)).toEqual([]);
    other.kill();
    expect(child.connected && child.exitCode === null).toBe(true);
    child.kill();
    expect(await ended).toBe('ended');
  });
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
