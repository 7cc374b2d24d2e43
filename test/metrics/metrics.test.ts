import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { startApi } from '../../src/app/api-server.ts';
import { formatId } from '../../src/domain/ids.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { type Family, lintMetrics, parseMetrics, sumOf } from './text-format.ts';

const tools: Tool[] = ['works', 'breaks'].map((name) => ({
  name,
  description: name,
  inputSchema: { type: 'object' },
  execute: async () => {
    if (name === 'breaks') throw new Error('no');
    return 'yes';
  },
}));

const USAGE = { input: 1_000, cacheRead: 600, output: 50, reasoning: 20 };

/** Dollars per million tokens. */
const PRICES = '{input: 10, cachedInput: 1, cacheWrite: 10, output: 100}';

async function priceList(): Promise<AsyncDisposable & { file: string }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'baton-metrics-'));
  const file = path.join(folder, 'models.yaml');
  await writeFile(file, `- {provider: simulated, model: test, contextWindow: 100000, prices: ${PRICES}}`);
  return { file, [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) };
}

async function scrape(url: string): Promise<ReadonlyMap<string, Family>> {
  const response = await fetch(`${url}/metrics`);
  expect([response.status, response.headers.get('content-type')]).toEqual([
    200,
    'text/plain; version=0.0.4; charset=utf-8',
  ]);
  return parseMetrics(await response.text());
}

describe.each(availableBackends())('the metrics on %s', (backend) => {
  it('tell in valid text what has happened, in base units and without ids', async () => {
    await using prices = await priceList();
    await using service = await startTestService({
      backend,
      tools,
      environment: { BATON_PORT: '0', BATON_MODELS_FILE: prices.file },
    });
    await using api = await startApi(service.deps);
    service.simulator.fault('test', { kind: 'rate-limit', retryAfterMs: 1 });
    service.simulator.script('test', [
      { toolCalls: ['works', 'breaks', 'works'].map((name) => ({ name, input: {} })), usage: USAGE },
      { text: 'Done.', usage: USAGE, gates: { beforeEnd: 'end' } },
    ]);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await service.send(session, 'Go');
    const stop = new AbortController();
    const events = await fetch(`${api.url}/v1/sessions/${formatId('session', session)}/events`, {
      signal: stop.signal,
    });
    await service.simulator.gate('end').reached;
    // The job of the first step may end only after the second one began.
    const during = await eventually(async () => {
      const scraped = await scrape(api.url);
      return sumOf(scraped, 'baton_queue_jobs', { kind: 'step', state: 'active' }) === 1 ? scraped : null;
    }, 'the queue has one active job');
    expect(sumOf(during, 'baton_runs', { status: 'running' })).toBe(1);
    expect(sumOf(during, 'baton_sessions', { status: 'busy' })).toBe(1);
    expect(sumOf(during, 'baton_workers_alive', { kind: 'step' })).toBe(1);
    expect(sumOf(during, 'baton_sse_readers')).toBe(1);
    service.simulator.gate('end').release();
    await service.ended(runId);
    stop.abort();
    await events.body?.cancel().catch(() => undefined);
    const refused = await service.createSession({ model: 'nobody/knows' });
    await service.ended((await service.send(refused, 'Go')).runId);
    await fetch(`${api.url}/nowhere/${session}`);
    const after = await eventually(async () => {
      const scraped = await scrape(api.url);
      const busy = [
        sumOf(scraped, 'baton_sse_readers'),
        sumOf(scraped, 'baton_runs'),
        sumOf(scraped, 'baton_queue_jobs', { state: 'active' }),
      ];
      return busy.every((count) => count === 0) ? scraped : null;
    }, 'nothing is at work any more');

    const now = (name: string, labels: Record<string, string> = {}): number => sumOf(after, name, labels);
    const model = 'simulated/test';
    expect(now('baton_runs_ended_total', { status: 'completed', agent: 'tester' })).toBe(1);
    expect(now('baton_runs_ended_total', { status: 'failed' })).toBe(1);
    expect(now('baton_step_retries_total', { code: 'rate_limited' })).toBe(1);
    expect(now('baton_step_errors_total', { code: 'model_unavailable' })).toBe(1);
    expect(now('baton_tool_calls_total', { tool: 'works', outcome: 'completed' })).toBe(2);
    expect(now('baton_tool_calls_total', { tool: 'breaks', outcome: 'error' })).toBe(1);
    expect(now('baton_tool_call_duration_seconds_count')).toBe(3);
    expect(now('baton_model_calls_total', { model, purpose: 'step', outcome: 'answered' })).toBe(2);
    expect(now('baton_model_calls_total', { model, outcome: 'broken' })).toBe(1);
    expect(now('baton_model_first_chunk_seconds_count', { model })).toBe(2);
    const tokens = { input: 800, cache_read: 1_200, cache_write: 0, output: 60, reasoning: 40 };
    for (const [kind, count] of Object.entries(tokens)) {
      expect(now('baton_model_tokens_total', { model, agent: 'tester', kind })).toBe(count);
    }
    expect(now('baton_model_cost_usd_total', { model, agent: 'tester' })).toBeCloseTo(
      (800 * 10 + 1_200 * 1 + 100 * 100) / 1e6,
      12,
    );
    // Four pickups: the refused model, the attempt that was told to wait, and the two steps.
    expect(now('baton_pickup_latency_seconds_count', { kind: 'step' })).toBe(4);
    expect(now('baton_job_duration_seconds_count', { kind: 'step' })).toBe(3);
    expect(now('baton_oldest_due_job_age_seconds')).toBe(0);
    // All jobs that the queue still keeps are failed ones, of the run that failed.
    expect(now('baton_queue_jobs')).toBe(now('baton_queue_jobs', { state: 'failed' }));
    expect(now('baton_runs_recovered_total')).toBe(0);
    expect(now('baton_http_requests_total', { route: '/v1/sessions/:id/events', status: '200' })).toBe(1);
    expect(now('baton_http_requests_total', { route: 'none', status: '404' })).toBe(1);
    expect(lintMetrics(after.values())).toEqual([]);
    const labels = [...after.values()].flatMap(({ samples }) =>
      samples.flatMap((sample) => Object.values(sample.labels)),
    );
    expect(labels.filter((label) => /[0-9a-f]{12}/.test(label))).toEqual([]);
  });

  it('tell those who wait for their tenant from those who wait for a worker', async () => {
    await using service = await startTestService({
      backend,
      environment: { BATON_PORT: '0', BATON_TENANT_CONCURRENCY: '1' },
    });
    await using api = await startApi(service.deps);
    service.simulator.script('test', [{ text: 'Done.', gates: { beforeEnd: 'end' } }]);
    await service.startWorker();
    const first = await service.send(await service.createSession(), 'Go');
    await service.simulator.gate('end').reached;
    const second = await service.send(await service.createSession(), 'Wait');
    const held = await eventually(async () => {
      const scraped = await scrape(api.url);
      return sumOf(scraped, 'baton_runs_throttled') === 1 ? scraped : null;
    }, 'the second run is held back');
    expect(sumOf(held, 'baton_oldest_due_job_age_seconds')).toBe(0);
    service.simulator.gate('end').release();
    await service.ended(first.runId);
    await service.ended(second.runId);
  });

  it('show how long due work waits, and leave out what cannot be read', async () => {
    await using service = await startTestService({ backend, environment: { BATON_PORT: '0' } });
    await using api = await startApi(service.deps);
    await service.send(await service.createSession(), 'Nobody works');
    const waiting = await eventually(async () => {
      const scraped = await scrape(api.url);
      return sumOf(scraped, 'baton_oldest_due_job_age_seconds', { kind: 'step' }) > 0.5 ? scraped : null;
    }, 'the work is overdue');
    expect(sumOf(waiting, 'baton_queue_jobs', { kind: 'step', state: 'waiting' })).toBe(1);
    expect(sumOf(waiting, 'baton_runs', { status: 'queued' })).toBe(1);
    expect(sumOf(waiting, 'baton_workers_alive')).toBe(0);
    await service.deps.jobs[Symbol.asyncDispose]();
    const blind = await eventually(async () => {
      const scraped = await scrape(api.url);
      return scraped.get('baton_queue_jobs')?.samples.length === 0 ? scraped : null;
    }, 'the queue cannot be read');
    expect(sumOf(blind, 'baton_runs', { status: 'queued' })).toBe(1);
    expect(sumOf(blind, 'baton_log_events_total', { event: 'metrics_source_failed' })).toBeGreaterThan(0);
  });
});
