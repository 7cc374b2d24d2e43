import { type JobScope, logFields } from '../claims/job-scope.ts';
import { costOf } from '../domain/context/limits/cost.ts';
import type { ModelEntry } from '../domain/context/limits/model-entry.ts';
import { NO_USAGE, type Usage } from '../domain/usage.ts';
import type { Log } from '../platform/log.ts';

type ModelCall = Readonly<{
  purpose: 'step' | 'compaction';
  /** `provider/model`. */
  model: string;
  entry: Pick<ModelEntry, 'prices'>;
  /** Null: the answer is incomplete, so its cost is unknown. */
  usage: Usage | null;
  firstChunkMs: number | null;
  durationMs: number;
}>;

/** Logs the duration, usage and cost of a model call. Metrics are made from this log event. */
export function logModelCall(log: Log, scope: JobScope, call: ModelCall): void {
  const { purpose, model, entry, usage, firstChunkMs } = call;
  log('debug', {
    event: 'model_called',
    ...logFields(scope),
    purpose,
    agent: scope.agent.name,
    model,
    outcome: usage === null ? 'broken' : 'answered',
    ...(firstChunkMs !== null && { firstChunkMs: Math.round(firstChunkMs) }),
    durationMs: Math.round(call.durationMs),
    usage: usage ?? NO_USAGE,
    costUsd: usage === null ? 0 : costOf(usage, entry),
  });
}
