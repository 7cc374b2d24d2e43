import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { boundedLabel, OTHER } from '../../src/metrics/bounded-label.ts';
import { createLogInstruments } from '../../src/metrics/log-instruments.ts';
import { parseMetrics, sumOf } from './text-format.ts';

const step = { sessionId: 's', runId: 'r', step: 1, attempt: 1 };
const error = { name: 'Error' };

test('faults are counted by their reason, from zero on', async () => {
  const registry = new Registry();
  const observe = createLogInstruments(registry);
  const now = async (name: string, labels = {}) => sumOf(parseMetrics(await registry.metrics()), name, labels);
  const recovered = parseMetrics(await registry.metrics()).get('baton_runs_recovered_total');
  expect(recovered?.samples.map(({ value }) => value)).toEqual([0, 0, 0]);
  observe('warn', { event: 'run_recovered', runId: 'r', sessionId: 's', reason: 'worker_dead' });
  observe('warn', { event: 'heartbeat_failed', claims: 3, error });
  observe('error', { event: 'run_given_up', runId: 'r', sessionId: 's', resumeCount: 10 });
  observe('warn', { event: 'tool_outcome_unknown', ...step, tool: 'bash', callKey: 'k', repeated: false });
  expect(await now('baton_runs_recovered_total', { reason: 'worker_dead' })).toBe(1);
  expect(await now('baton_heartbeat_failures_total')).toBe(1);
  expect(await now('baton_runs_given_up_total')).toBe(1);
  expect(await now('baton_tool_calls_total', { tool: 'bash', outcome: 'unknown' })).toBe(1);
  observe('warn', { event: 'http_dropped', reason: 'intake_full' });
  expect(await now('baton_http_dropped_total', { reason: 'intake_full' })).toBe(1);
  expect(await now('baton_http_dropped_total', { reason: 'door_full' })).toBe(0);
  expect(await now('baton_log_events_total')).toBe(5);
});

test('compactions are counted by strategy and outcome, prunes by what they cleared', async () => {
  const registry = new Registry();
  const observe = createLogInstruments(registry);
  const compaction = { event: 'compaction_finished', ...step, calls: 1, durationMs: 1_500 } as const;
  const sizes = { round: 1, tokensBefore: 900, tokensAfter: 300, messages: 12 };
  observe('info', { ...compaction, ...sizes, outcome: 'completed', strategy: 'middle-removal' });
  observe('info', { ...compaction, ...sizes, tokensAfter: 800, outcome: 'rejected', strategy: 'middle-removal' });
  observe('info', { ...compaction, outcome: 'nothing' });
  observe('info', { event: 'prune_finished', ...step, prunedCount: 2, savedTokens: 900, durationMs: 10 });
  observe('info', { event: 'prune_finished', ...step, prunedCount: 0, savedTokens: 0, durationMs: 10 });
  const families = parseMetrics(await registry.metrics());
  expect(sumOf(families, 'baton_compactions_total', { strategy: 'middle-removal', outcome: 'completed' })).toBe(1);
  expect(sumOf(families, 'baton_compactions_total', { strategy: 'none', outcome: 'nothing' })).toBe(1);
  expect(sumOf(families, 'baton_job_duration_seconds_sum', { kind: 'compaction' })).toBe(4.5);
  expect(sumOf(families, 'baton_compacted_tokens_total')).toBe(600);
  expect(sumOf(families, 'baton_prunes_total', { outcome: 'pruned' })).toBe(1);
  expect(sumOf(families, 'baton_pruned_tokens_total')).toBe(900);
});

test('a label has no more values than it may have', () => {
  const label = boundedLabel(2);
  expect(['a', 'b', 'c', 'a', 'd'].map(label)).toEqual(['a', 'b', OTHER, 'a', OTHER]);
});

test('runs are counted by agent, the 51st and an unknown one together, and each agent from zero on', async () => {
  const registry = new Registry();
  const observe = createLogInstruments(registry);
  const run = { event: 'run_ended', runId: 'r', sessionId: 's', status: 'completed' } as const;
  for (let at = 0; at < 51; at++) observe('info', { ...run, agent: `agent-${at}` });
  observe('info', run);
  const families = parseMetrics(await registry.metrics());
  const count = (labels: Record<string, string>) => sumOf(families, 'baton_runs_ended_total', labels);
  expect([count({ agent: 'agent-49' }), count({ agent: 'agent-50' }), count({ agent: OTHER })]).toEqual([1, 0, 2]);
  const statuses = families.get('baton_runs_ended_total')?.samples.filter(({ labels }) => labels['agent'] === OTHER);
  expect(statuses).toHaveLength(4);
});
