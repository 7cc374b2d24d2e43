import pg from 'pg';
import { describe, expect, inject, it } from 'vitest';
import type { Tool } from '../../src/tools/tool.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

const RUNS = 50;

/** The resources that keep this process alive, counted by kind. */
function resources(): Readonly<Record<string, number>> {
  return Object.fromEntries(
    [...Map.groupBy(process.getActiveResourcesInfo(), (kind) => kind)].map(([kind, all]) => [kind, all.length]),
  );
}

async function connectionsTo(databaseUrl: string): Promise<number> {
  const client = new pg.Client({ connectionString: inject('postgres').adminUrl });
  await client.connect();
  try {
    const name = new URL(databaseUrl).pathname.slice(1);
    const { rows } = await client.query('select count(*)::int as count from pg_stat_activity where datname = $1', [
      name,
    ]);
    return rows[0].count as number;
  } finally {
    await client.end();
  }
}

/** Every second run is cancelled: some while they stream, some in their tool, some before they begin. */
async function makeRuns(service: TestService): Promise<string[]> {
  const statuses = await Promise.all(
    Array.from({ length: RUNS }, async (_, no) => {
      const { runId } = await service.send(await service.createSession(), 'Go');
      if (no % 2 === 0) {
        await service.cancel(runId);
      }
      return (await service.ended(runId)).status;
    }),
  );
  return statuses;
}

describe.each(availableBackends())('fifty runs on %s, half of them cancelled', (backend) => {
  it('leave no listener, timer, socket or connection behind', async () => {
    const warnings: string[] = [];
    const onWarning = (warning: Error) => void warnings.push(warning.name);
    process.on('warning', onWarning);
    using _ = { [Symbol.dispose]: () => process.off('warning', onWarning) };
    const signals: AbortSignal[] = [];
    const look: Tool = {
      name: 'look',
      description: 'looks',
      inputSchema: { type: 'object' },
      async execute(_input, { signal }) {
        signals.push(signal);
        return 'seen';
      },
    };
    const before = resources();
    {
      await using service = await startTestService({ backend, tools: [look] });
      service.simulator.script('test', (request) =>
        request.messages.at(-1)?.role === 'tool'
          ? { text: 'Done.' }
          : { text: 'I look at it now.', chunkChars: 4, toolCalls: [{ name: 'look', input: {} }] },
      );
      const worker = await service.startWorker();
      const statuses = await makeRuns(service);
      expect(statuses.filter((_status, no) => no % 2 === 1)).toEqual(Array(RUNS / 2).fill('completed'));
      expect(statuses.filter((_status, no) => no % 2 === 0)).toContain('cancelled');
      await eventually(async () => worker.activeJobs() === 0, 'no step is in hand');
      await worker[Symbol.asyncDispose]();
      await service.deps[Symbol.asyncDispose]();
      await eventually(
        async () => (await connectionsTo(service.deps.databaseUrl)) === 0,
        'no connection to the database is left',
      ).catch(async (cause: Error) => {
        throw new Error(`${await connectionsTo(service.deps.databaseUrl)} connections are left`, { cause });
      });
    }
    await eventually(async () => {
      const now = resources();
      return Object.keys(now).every((kind) => (now[kind] ?? 0) <= (before[kind] ?? 0));
    }, 'nothing is left open').catch((cause: Error) => {
      throw new Error(`before: ${JSON.stringify(before)}, after: ${JSON.stringify(resources())}`, { cause });
    });
    expect(signals.length).toBeGreaterThanOrEqual(RUNS / 2);
    expect(warnings.filter((name) => name === 'MaxListenersExceededWarning')).toEqual([]);
  });
});
