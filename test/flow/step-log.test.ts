import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { createApp } from '../../src/app/app.ts';
import type { StepPage } from '../../src/client/contract.ts';
import { formatId } from '../../src/domain/ids.ts';
import { createMetrics } from '../../src/metrics/metrics.ts';
import { agentWith, readingReplies, readTool } from '../compaction/compaction-support.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

async function stepsOf({ deps }: TestService, runId: string, query = ''): Promise<StepPage> {
  const app = createApp({ ...deps, readiness: deps.health.readiness, metrics: createMetrics() });
  const response = await app.request(
    `/v1/runs/${formatId('run', runId)}/steps${query}`,
    { headers: { host: '127.0.0.1' } },
    { openWithoutKeys: true, allowedHosts: [] },
  );
  expect(response.status).toBe(200);
  return (await response.json()) as StepPage;
}

describe.each(availableBackends().slice(0, 1))('the steps of a run on %s', (backend) => {
  it('tell each phase of what a worker did, in pages of whole steps', async () => {
    await using service = await startTestService({ backend, tools: [readTool] });
    service.simulator.script('test', readingReplies(3, 100));
    const session = await service.createSession(agentWith({}));
    const { runId } = await service.send(session, 'Read.');
    const worker = await service.startWorker();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 4 });
    void worker;
    const { rows } = await stepsOf(service, runId);
    expect(rows).toHaveLength(4);
    const { rows: workers } = await sql<{ id: string }>`select id from workers`.execute(service.deps.db);
    for (const row of rows) {
      if (row.kind !== 'step') throw new Error(row.kind);
      const { waitedMs, claimMs, viewMs, firstTokenMs, streamMs, commitMs } = row;
      for (const phase of [waitedMs, claimMs, viewMs, firstTokenMs, streamMs, commitMs]) {
        expect(phase, JSON.stringify(row)).toBeGreaterThanOrEqual(0);
      }
      expect(row).toMatchObject({ state: 'completed', attempt: 1, workers: workers.map(({ id }) => id) });
      expect(row.context?.usableTokens).toBeGreaterThan(row.context?.usedTokens ?? Number.POSITIVE_INFINITY);
      const times = [
        row.queuedAt,
        row.startedAt,
        ...row.tools.flatMap((tool) => [tool.startedAt, tool.finishedAt]),
        row.finishedAt,
      ];
      expect(times.toSorted()).toEqual(times);
    }
    expect(rows.map((row) => row.kind === 'step' && row.tools.length)).toEqual([1, 1, 1, 0]);
    const first = await stepsOf(service, runId, '?limit=3');
    expect(first.next).toBe(3);
    const rest = await stepsOf(service, runId, `?limit=3&after=${first.next}`);
    expect(rest.next).toBeNull();
    expect([...first.rows, ...rest.rows]).toEqual(rows);
  });

  it('have a prune of the run as a row of its own', async () => {
    await using service = await startTestService({ backend, tools: [readTool] });
    service.simulator.script('test', readingReplies(6, 1_500));
    const session = await service.createSession(agentWith({ maxContextTokens: 16_000, prune: { enabled: false } }));
    const { runId } = await service.send(session, 'Read.');
    await service.startWorker();
    await service.ended(runId);
    const asked = await service.maintain(session, 'prune');
    await service.ended(asked.runId);
    const { rows, next } = await stepsOf(service, asked.runId);
    expect(rows).toMatchObject([{ kind: 'prune', prunedTools: [expect.any(String)] }]);
    expect(next).toBeNull();
    const [, , prunes] = service.deps.jobs.bullQueues();
    const jobs = await eventually(async () => {
      const kept = (await prunes?.getCompleted()) ?? [];
      return kept.length > 0 ? kept : null;
    }, 'its job is kept');
    expect(jobs.map(({ returnvalue }) => returnvalue)).toMatchObject([{ next: 'completed' }]);
  });
});
