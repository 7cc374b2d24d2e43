import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { startApi } from '../../src/app/api-server.ts';
import { anyBackend } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService } from '../support/service.ts';
import { parseMetrics, sumOf } from './text-format.ts';

type Verdict = Readonly<{ exitCode: number | null; said: string }>;

/** @returns null if there is no promtool on this machine */
function promtool(args: readonly string[], input = ''): Promise<Verdict | null> {
  return new Promise((resolve) => {
    const child = execFile('promtool', args, (error, stdout, stderr) => {
      if (error?.code === 'ENOENT') return resolve(null);
      resolve({ exitCode: child.exitCode, said: `${stdout}${stderr}` });
    });
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(input);
  });
}

const isMissing = (await promtool(['--version'])) === null;
const WHY = 'no promtool on the PATH: text-format.ts and operations-docs.test.ts check alone';

describe('promtool', () => {
  it('finds nothing to say about what a service shows that has worked', async ({ skip }) => {
    skip(isMissing, WHY);
    const backend = anyBackend();
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

const ALERTS = fileURLToPath(new URL('../../docs/prometheus-alerts.yml', import.meta.url));

type Series = Readonly<Record<string, string>>;

/** Series of a healthy service, minute by minute. */
const HEALTHY: Series = {
  'baton_workers_alive{kind="step"}': '2x60',
  'baton_workers_alive{kind="prune"}': '1x60',
  'baton_oldest_due_job_age_seconds{kind="step"}': '1x60',
  'baton_pickup_latency_seconds_bucket{kind="step",le="0.1"}': '0+10x60',
  'baton_pickup_latency_seconds_bucket{kind="step",le="+Inf"}': '0+10x60',
  'baton_runs{status="running"}': '3x60',
  'baton_runs{status="cancelling"}': '0x20 1 0x40',
  'baton_job_duration_seconds_count{kind="step"}': '0+60x60',
  'baton_runs_ended_total{status="completed"}': '0+99x60',
  'baton_runs_ended_total{status="failed"}': '0+1x60',
  'baton_step_retries_total{code="rate_limited"}': '0+5x60',
  'baton_runs_recovered_total{reason="worker_dead"}': '0x30 1x30',
  baton_runs_given_up_total: '0x60',
  baton_heartbeat_failures_total: '0x30 1x30',
  'baton_compactions_total{strategy="reactive-overflow",outcome="completed"}': '0+9x60',
  'baton_compactions_total{strategy="reactive-overflow",outcome="failed"}': '0+1x60',
  'baton_model_cost_usd_total{model="a"}': '0+1x60',
  'baton_http_requests_total{status="200"}': '0+999x60',
  'baton_http_requests_total{status="500"}': '0+1x60',
};

/** The series that make each alert fire. */
const FIRING: Readonly<Record<string, Series>> = {
  BatonNoWorkers: { 'baton_workers_alive{kind="step"}': '2x40 0x20' },
  BatonWorkWaits: { 'baton_oldest_due_job_age_seconds{kind="step"}': '0x40 61x20' },
  BatonPickupSlow: {
    'baton_pickup_latency_seconds_bucket{kind="step",le="0.1"}': '0x60',
    'baton_pickup_latency_seconds_bucket{kind="step",le="15"}': '0+10x60',
  },
  BatonRunsStandStill: { 'baton_job_duration_seconds_count{kind="step"}': '9x60' },
  BatonCancelsHang: { 'baton_runs{status="cancelling"}': '0x40 1x20' },
  BatonRunsFail: { 'baton_runs_ended_total{status="failed"}': '0+10x60' },
  BatonProviderRefuses: { 'baton_step_retries_total{code="rate_limited"}': '0+90x60' },
  BatonWorkersDie: { 'baton_runs_recovered_total{reason="worker_dead"}': '0+1x60' },
  BatonStepKillsWorkers: { baton_runs_given_up_total: '0x50 1x10' },
  BatonHeartbeatsFail: { baton_heartbeat_failures_total: '0+12x60' },
  BatonCompactionsFail: {
    'baton_compactions_total{strategy="reactive-overflow",outcome="exhausted"}': '0+5x60',
  },
  BatonSpends: { 'baton_model_cost_usd_total{model="a"}': '0+3x60' },
  BatonApiFails: { 'baton_http_requests_total{status="500"}': '0+20x60' },
};

/** A test of the rules: with these series, exactly these alerts fire at minute 55. */
const alertTest = (series: Series, firing: readonly string[]) => ({
  interval: '1m',
  input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
  promql_expr_test: [
    {
      expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
      eval_time: '55m',
      exp_samples: firing.map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
    },
  ],
});

async function testRules(tests: readonly object[]): Promise<Verdict | null> {
  const folder = mkdtempSync(path.join(tmpdir(), 'baton-alerts-'));
  try {
    const file = path.join(folder, 'test.yml');
    // JSON is YAML.
    writeFileSync(file, JSON.stringify({ rule_files: [ALERTS], evaluation_interval: '1m', tests }));
    return await promtool(['test', 'rules', file]);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('the alerts', () => {
  it('are rules that promtool takes', async ({ skip }) => {
    skip(isMissing, WHY);
    const verdict = await promtool(['check', 'rules', ALERTS]);
    expect(verdict, verdict?.said).toMatchObject({ exitCode: 0 });
    expect(verdict?.said).toContain(`${Object.keys(FIRING).length} rules found`);
  });

  it('are silent while a service works, and each fires for what it is about', async ({ skip }) => {
    skip(isMissing, WHY);
    const tests = Object.entries(FIRING).map(([name, series]) => alertTest({ ...HEALTHY, ...series }, [name]));
    const verdict = await testRules([alertTest(HEALTHY, []), alertTest({}, ['BatonNoWorkers']), ...tests]);
    expect(verdict, verdict?.said).toMatchObject({ exitCode: 0 });
  });
});
