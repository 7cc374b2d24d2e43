import { Counter, Histogram, type Registry } from 'prom-client';
import { isTerminalRun, RUN_STATUSES } from '../domain/run/run.ts';
import type { Usage } from '../domain/usage.ts';
import { DROP_REASONS, type LogEvent, RECOVERY_REASONS } from '../platform/log.ts';
import { LOSS_REASONS } from '../platform/span-losses.ts';
import { boundedLabel, OTHER } from './bounded-label.ts';

/** More models or tools than agents name, and more agents than a service has. Any further ones are counted together. */
const MAX_MODELS = 100;
const MAX_TOOLS = 200;
/** Tokens are counted by agent, model and kind. */
const MAX_AGENTS = 50;

const PICKUP_BUCKETS_S = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300];
const WORK_BUCKETS_S = [0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
const FIRST_CHUNK_BUCKETS_S = [0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300];

type EventOf<Name extends LogEvent['event']> = Extract<LogEvent, { event: Name }>;

/** Counts log events. Their set is closed, so nothing is forgotten and no code reports a fact twice. */
export function createLogInstruments(registry: Registry): (level: string, event: LogEvent) => void {
  const events = counter(registry, 'baton_log_events_total', 'Log events by name and level.', ['event', 'level']);
  const observers = {
    ...jobObservers(registry),
    ...agentObservers(registry),
    ...toolObservers(registry),
    ...contextObservers(registry),
    ...triggerObservers(registry),
    ...faultObservers(registry),
  };
  return (level, event) => {
    events.inc({ event: event.event, level });
    const observe = observers[event.event as keyof typeof observers] as ((event: LogEvent) => void) | undefined;
    observe?.(event);
  };
}

function jobObservers(registry: Registry) {
  const pickup = histogram(registry, {
    name: 'baton_pickup_latency_seconds',
    help: 'From when work was due until a worker claimed it, by kind.',
    labelNames: ['kind'],
    buckets: PICKUP_BUCKETS_S,
  });
  const duration = histogram(registry, {
    name: 'baton_job_duration_seconds',
    help: 'From the claim of a job to the commit of its end, by kind; a step includes its tools.',
    labelNames: ['kind'],
    buckets: WORK_BUCKETS_S,
  });
  const errors = counter(registry, 'baton_step_errors_total', 'Failed attempts at a step, by error code.', ['code']);
  const retries = counter(
    registry,
    'baton_step_retries_total',
    'Failed attempts at a step that are tried again after a pause, by error code.',
    ['code'],
  );
  return {
    job_claimed: ({ kind, waitedMs }: EventOf<'job_claimed'>) => pickup.observe({ kind }, waitedMs / 1000),
    step_finished: ({ durationMs }: EventOf<'step_finished'>) => duration.observe({ kind: 'step' }, durationMs / 1000),
    step_failed({ code, retryInMs }: EventOf<'step_failed'>) {
      errors.inc({ code });
      if (retryInMs !== undefined) retries.inc({ code });
    },
    compaction_finished: observeCompactions(registry, duration),
    prune_finished: observePrunes(registry, duration),
  };
}

function observeCompactions(registry: Registry, duration: Histogram<string>) {
  const compactions = counter(
    registry,
    'baton_compactions_total',
    'Compactions by strategy and outcome; the strategy is none where nothing was begun.',
    ['strategy', 'outcome'],
  );
  const tokens = counter(registry, 'baton_compacted_tokens_total', 'Tokens that compactions took out of views.', []);
  return ({ strategy = 'none', outcome, durationMs, ...sizes }: EventOf<'compaction_finished'>): void => {
    const { tokensBefore = 0, tokensAfter = tokensBefore } = sizes;
    compactions.inc({ strategy, outcome });
    if (outcome === 'completed') tokens.inc(Math.max(0, tokensBefore - tokensAfter));
    duration.observe({ kind: 'compaction' }, durationMs / 1000);
  };
}

function observePrunes(registry: Registry, duration: Histogram<string>) {
  const prunes = counter(registry, 'baton_prunes_total', 'Prune jobs by whether they cleared anything.', ['outcome']);
  const tokens = counter(registry, 'baton_pruned_tokens_total', 'Tokens that prunes took out of views.', []);
  return ({ prunedCount, savedTokens, durationMs }: EventOf<'prune_finished'>): void => {
    prunes.inc({ outcome: prunedCount > 0 ? 'pruned' : 'nothing' });
    tokens.inc(savedTokens);
    duration.observe({ kind: 'prune' }, durationMs / 1000);
  };
}

/** Ends of runs and calls of models, whose agents share one bound. */
function agentObservers(registry: Registry) {
  const ended = counter(registry, 'baton_runs_ended_total', 'Runs that ended, by status and agent.', [
    'status',
    'agent',
  ]);
  const known = boundedLabel(MAX_AGENTS);
  const shown = new Set<string>();
  const agentOf = (name: string | undefined): string => {
    const agent = name === undefined ? OTHER : known(name);
    if (!shown.has(agent)) for (const status of RUN_STATUSES.filter(isTerminalRun)) ended.inc({ status, agent }, 0);
    shown.add(agent);
    return agent;
  };
  return {
    run_ended: ({ status, agent }: EventOf<'run_ended'>) => ended.inc({ status, agent: agentOf(agent) }),
    ...modelObservers(registry, agentOf),
  };
}

function modelObservers(registry: Registry, agentOf: (name: string) => string) {
  const modelOf = boundedLabel(MAX_MODELS);
  const calls = counter(registry, 'baton_model_calls_total', 'Model calls by purpose and outcome.', [
    'model',
    'purpose',
    'outcome',
  ]);
  const firstChunk = histogram(registry, {
    name: 'baton_model_first_chunk_seconds',
    help: 'From the request to the first sign of an answer.',
    labelNames: ['model'],
    buckets: FIRST_CHUNK_BUCKETS_S,
  });
  const duration = histogram(registry, {
    name: 'baton_model_call_duration_seconds',
    help: 'From the request to the end of the answer.',
    labelNames: ['model'],
    buckets: WORK_BUCKETS_S,
  });
  const tokens = counter(registry, 'baton_model_tokens_total', 'Billed tokens; the kinds do not overlap.', [
    'model',
    'agent',
    'kind',
  ]);
  const cost = counter(registry, 'baton_model_cost_usd_total', 'US dollars of the calls whose price is known.', [
    'model',
    'agent',
  ]);
  const unpriced = counter(registry, 'baton_model_unpriced_calls_total', 'Calls whose price is not known.', ['model']);
  return {
    model_called(event: EventOf<'model_called'>) {
      const model = modelOf(event.model);
      const agent = agentOf(event.agent);
      calls.inc({ model, purpose: event.purpose, outcome: event.outcome });
      if (event.firstChunkMs !== undefined) firstChunk.observe({ model }, event.firstChunkMs / 1000);
      duration.observe({ model }, event.durationMs / 1000);
      for (const [kind, count] of Object.entries(disjointTokens(event.usage)))
        tokens.inc({ model, agent, kind }, count);
      if (event.costUsd === null) unpriced.inc({ model });
      else cost.inc({ model, agent }, event.costUsd);
    },
  };
}

/** Splits a usage into counts that can be added: its input includes cached tokens, its output reasoning tokens. */
function disjointTokens(usage: Usage): Readonly<Record<string, number>> {
  const { inputTokens, outputTokens, reasoningTokens, cacheReadTokens, cacheWriteTokens } = usage;
  return {
    input: Math.max(0, inputTokens - cacheReadTokens - cacheWriteTokens),
    cache_read: cacheReadTokens,
    cache_write: cacheWriteTokens,
    output: Math.max(0, outputTokens - reasoningTokens),
    reasoning: reasoningTokens,
  };
}

function toolObservers(registry: Registry) {
  const toolOf = boundedLabel(MAX_TOOLS);
  const calls = counter(registry, 'baton_tool_calls_total', 'Tool calls by tool and outcome.', ['tool', 'outcome']);
  const duration = histogram(registry, {
    name: 'baton_tool_call_duration_seconds',
    help: 'Duration of tool calls.',
    labelNames: ['tool'],
    buckets: WORK_BUCKETS_S,
  });
  return {
    tool_finished(event: EventOf<'tool_finished'>) {
      const tool = toolOf(event.tool);
      calls.inc({ tool, outcome: event.success ? 'completed' : 'error' });
      duration.observe({ tool }, event.durationMs / 1000);
    },
    tool_outcome_unknown: ({ tool }: EventOf<'tool_outcome_unknown'>) =>
      calls.inc({ tool: toolOf(tool), outcome: 'unknown' }),
  };
}

function triggerObservers(registry: Registry) {
  const attempts = counter(registry, 'baton_webhook_attempts_total', 'Attempts to deliver to webhooks by result.', [
    'result',
  ]);
  const duration = histogram(registry, {
    name: 'baton_webhook_attempt_duration_seconds',
    help: 'Time until receivers of webhooks answered.',
    labelNames: [],
    buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  });
  const disabled = counter(registry, 'baton_webhooks_disabled_total', 'Webhooks that were disabled for failing.', [
    'reason',
  ]);
  const fires = counter(registry, 'baton_schedule_fires_total', 'Fires of schedules by result.', ['result']);
  return {
    schedule_fired: ({ result }: EventOf<'schedule_fired'>) => fires.inc({ result }),
    webhook_attempted({ result, durationMs }: EventOf<'webhook_attempted'>) {
      attempts.inc({ result });
      duration.observe(durationMs / 1000);
    },
    webhook_disabled: ({ reason }: EventOf<'webhook_disabled'>) => disabled.inc({ reason }),
  };
}

function contextObservers(registry: Registry) {
  const measured = histogram(registry, {
    name: 'baton_request_context_tokens',
    help: 'Tokens that requests were measured to have before they were sent.',
    labelNames: [],
    buckets: [1_000, 4_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000, 1_000_000],
  });
  return { context_measured: ({ tokens }: EventOf<'context_measured'>) => measured.observe(tokens) };
}

function faultObservers(registry: Registry) {
  const recovered = counter(registry, 'baton_runs_recovered_total', 'Runs put back after a fault, by reason.', [
    'reason',
  ]);
  for (const reason of RECOVERY_REASONS) recovered.inc({ reason }, 0);
  const dropped = counter(
    registry,
    'baton_http_dropped_total',
    'Requests, answers and connections that this process gave up, by reason.',
    ['reason'],
  );
  for (const reason of DROP_REASONS) dropped.inc({ reason }, 0);
  const lost = counter(registry, 'baton_spans_lost_total', 'Ended spans that no receiver got, by reason.', ['reason']);
  for (const reason of LOSS_REASONS) lost.inc({ reason }, 0);
  const plain = (name: string, help: string) => {
    const total = counter(registry, name, help, []);
    return () => total.inc();
  };
  return {
    run_recovered: ({ reason }: EventOf<'run_recovered'>) => recovered.inc({ reason }),
    http_dropped: ({ reason }: EventOf<'http_dropped'>) => dropped.inc({ reason }),
    spans_lost: ({ reason, spans }: EventOf<'spans_lost'>) => lost.inc({ reason }, spans),
    run_given_up: plain('baton_runs_given_up_total', 'Runs that failed because their step lost too many workers.'),
    heartbeat_failed: plain('baton_heartbeat_failures_total', 'Heartbeats of this process without an answer.'),
    claim_lost: plain('baton_claims_lost_total', 'Runs that another worker took over while this one had them.'),
    step_fenced: plain('baton_jobs_fenced_total', 'Jobs that wrote nothing because another worker has the run.'),
    worker_dead: plain('baton_workers_found_dead_total', 'Dead workers that this process took runs back from.'),
    worker_lock_lost: plain('baton_worker_lock_losses_total', 'Times that this process lost its own lock.'),
    jobs_not_enqueued: plain('baton_enqueue_failures_total', 'Times that the queue did not take jobs.'),
  };
}

function counter(registry: Registry, name: string, help: string, labelNames: readonly string[]): Counter<string> {
  return new Counter({ name, help, labelNames: [...labelNames], registers: [registry] });
}

function histogram(
  registry: Registry,
  options: Readonly<{ name: string; help: string; labelNames: readonly string[]; buckets: readonly number[] }>,
): Histogram<string> {
  const { name, help } = options;
  const [labelNames, buckets] = [[...options.labelNames], [...options.buckets]];
  return new Histogram({ name, help, labelNames, buckets, registers: [registry] });
}
