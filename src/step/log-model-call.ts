import { type LoggedScope, logFields } from '../claims/job-scope.ts';
import { costOf } from '../domain/context/limits/cost.ts';
import type { ModelEntry } from '../domain/context/limits/model-entry.ts';
import { NO_USAGE, type Usage } from '../domain/usage.ts';
import type { Log } from '../platform/log.ts';

/** One call of a model, as it was. */
type ModelCall = Readonly<{
  purpose: 'step' | 'compaction';
  /** `provider/model`. */
  model: string;
  entry: Pick<ModelEntry, 'prices'>;
  /** Null: there was no whole answer, and nobody knows what it cost. */
  usage: Usage | null;
  firstChunkMs: number | null;
  durationMs: number;
}>;

/** Says of a call how long it took and what it cost; metrics are made of it. */
export function logModelCall(log: Log, scope: LoggedScope, call: ModelCall): void {
  const { purpose, model, entry, usage, firstChunkMs } = call;
  log('debug', {
    event: 'model_called',
    ...logFields(scope),
    purpose,
    model,
    outcome: usage === null ? 'broken' : 'answered',
    ...(firstChunkMs !== null && { firstChunkMs: Math.round(firstChunkMs) }),
    durationMs: Math.round(call.durationMs),
    usage: usage ?? NO_USAGE,
    costUsd: usage === null ? 0 : costOf(usage, entry),
  });
}
